"""What tests share: real servers on free ports, started for a test and stopped with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from loreline.embedded.nats import EmbeddedNats, NatsUser
from loreline.events.bootstrap import ensure_stream
from loreline.events.jetstream import JetStreamLog
from loreline.events.topology import (
    ADMIN,
    APP,
    SUBSCRIBER,
    app_permissions,
    live_stream,
    lore_stream,
    subscriber_permissions,
)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    (tmp_path / "nats").mkdir(mode=0o700)
    app, sub = app_permissions(), subscriber_permissions()
    users = (
        NatsUser(ADMIN, "admin-secret"),
        NatsUser(APP, "app-secret", publish_deny=app.publish_deny),
        NatsUser(
            SUBSCRIBER, "sub-secret", publish_allow=sub.publish_allow, subscribe_allow=sub.subscribe_allow
        ),
    )
    server = EmbeddedNats(tmp_path / "nats", users=users, logs=tmp_path)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def connect(server: EmbeddedNats, user: str) -> Client:
    async def ignore(_: Exception) -> None:
        return None

    return await nats.connect(
        server.url(user), max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=ignore
    )


@pytest.fixture
async def admin(nats_server: EmbeddedNats) -> AsyncIterator[Client]:
    connection = await connect(nats_server, ADMIN)
    await ensure_stream(connection, lore_stream(max_bytes=1 << 30))
    await ensure_stream(connection, live_stream())
    yield connection
    await connection.close()


@pytest.fixture
async def app_connection(nats_server: EmbeddedNats, admin: Client) -> AsyncIterator[Client]:
    connection = await connect(nats_server, APP)
    yield connection
    await connection.close()


@pytest.fixture
def jetstream_log(app_connection: Client) -> JetStreamLog:
    return JetStreamLog(app_connection)
