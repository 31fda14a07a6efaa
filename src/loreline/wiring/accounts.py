"""The accounts and users of the embedded NATS server, from the topology's permissions."""

from __future__ import annotations

from loreline.embedded.nats_config import NatsGuest, NatsService, NatsUser
from loreline.embedded.runtime import Secrets
from loreline.events.topology import (
    ADMIN,
    APP,
    SUBSCRIBER,
    SUBSCRIBER_ACCOUNT,
    app_permissions,
    subscriber_permissions,
    subscriber_services,
)


def nats_users(secrets: Secrets) -> tuple[tuple[NatsUser, ...], tuple[NatsGuest, ...]]:
    """The users of the log's account, and the subscribers' account beside it."""
    app, sub = app_permissions(), subscriber_permissions()
    users = (
        NatsUser(ADMIN, secrets.nats[ADMIN]),
        NatsUser(APP, secrets.nats[APP], publish_deny=app.publish_deny),
    )
    guest = NatsUser(
        SUBSCRIBER,
        secrets.nats[SUBSCRIBER],
        publish_allow=sub.publish_allow,
        subscribe_allow=sub.subscribe_allow,
    )
    services = tuple(
        NatsService(each.subject, known_as=each.known_as, streamed=each.streamed)
        for each in subscriber_services()
    )
    return users, (NatsGuest(SUBSCRIBER_ACCOUNT, (guest,), services),)
