"""The NATS server's configuration as values: users, guest accounts, and the text of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ACCOUNT = "LORE"
MAX_PAYLOAD_BYTES = 8 * 2**20
"""A message over the server's limit closes the client's connection for good, so the limit is far above
what the stream takes."""
MAX_STORE_BYTES = 2**50
"""No limit of the server's own: it would otherwise be 75 % of what is free at each start, and a disk that
filled up could keep an existing stream from opening. The stream's own limit is what counts."""
LOG_BYTES = 10 * 2**20
LOG_FILES = 3


@dataclass(frozen=True)
class NatsUser:
    """A user of the account, and what it may do; subjects are the caller's business.

    Attributes:
        name: user name.
        password: clear text, it stands in the server's 0600 configuration; only characters that need no
            escape in a URL, because the client does not undo escapes.
        publish_allow: subjects it may publish to; empty = none.
        publish_deny: exceptions from those.
        subscribe_allow: subjects it may subscribe to; empty = none.
        subscribe_deny: exceptions from those.
    """

    name: str
    password: str = field(repr=False)
    publish_allow: tuple[str, ...] = (">",)
    publish_deny: tuple[str, ...] = ()
    subscribe_allow: tuple[str, ...] = (">",)
    subscribe_deny: tuple[str, ...] = ()


@dataclass(frozen=True)
class NatsService:
    """A request subject of account LORE that a guest account may publish to.

    Attributes:
        subject: the subject in LORE; may end in a wildcard.
        known_as: its name in the guest account; None = the same. The JetStream API (`$JS.API.STREAM...`,
            `$JS.API.CONSUMER.INFO...`) needs another name there, or the guest's own API answers.
        streamed: True if a request may get more than one answer, as a pull does.
    """

    subject: str
    known_as: str | None = None
    streamed: bool = False


@dataclass(frozen=True)
class NatsGuest:
    """An account beside LORE for clients that are not trusted with subjects of their choice.

    A user of LORE chooses the *reply* subject of a request freely, and the server answers there with its own
    rights: a pull or an info request with a reply subject that the stream stores writes to the log, whatever
    the user may publish. A guest's reply subject is the guest account's own and never reaches LORE.

    Attributes:
        account: name of the account.
        users: who may connect; their permissions speak of the guest account's names.
        services: what they may ask of LORE.
    """

    account: str
    users: tuple[NatsUser, ...]
    services: tuple[NatsService, ...]


def configuration(
    directory: Path,
    *,
    users: Sequence[NatsUser],
    guests: Sequence[NatsGuest] = (),
    log: Path,
    port: int,
    monitor_port: int,
) -> str:
    """Return the server's configuration; its language contains JSON.

    Every append is fsynced (`sync_interval: always`). Nobody can log in to the system account.

    Args:
        directory: existing directory for the store, the pid file and the ports file.
        users: users of account LORE.
        guests: accounts beside it.
        log: the server's log; it rotates by itself.
        port: client port on 127.0.0.1, -1 = a free one.
        monitor_port: port of the HTTP monitor, likewise.
    """
    settings = {
        "listen": f"127.0.0.1:{port}",
        "http": f"127.0.0.1:{monitor_port}",
        "server_name": "loreline",
        "max_payload": MAX_PAYLOAD_BYTES,
        "ports_file_dir": str(directory),
        "log_file": str(log),
        "logfile_size_limit": LOG_BYTES,
        "logfile_max_num": LOG_FILES,
        "jetstream": {
            # It adds a folder `jetstream` itself.
            "store_dir": str(directory),
            "sync_interval": "always",
            "max_file_store": MAX_STORE_BYTES,
        },
        "accounts": {
            ACCOUNT: {
                "jetstream": "enabled",
                "users": [_user(user) for user in users],
                "exports": [_export(guest, service) for guest in guests for service in guest.services],
            },
            **{guest.account: _guest(guest) for guest in guests},
            "SYS": {},
        },
        "system_account": "SYS",
    }
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _guest(guest: NatsGuest) -> Mapping[str, object]:
    return {
        "users": [_user(user) for user in guest.users],
        "imports": [
            {
                "service": {"account": ACCOUNT, "subject": service.subject},
                **({"to": service.known_as} if service.known_as else {}),
            }
            for service in guest.services
        ],
    }


def _export(guest: NatsGuest, service: NatsService) -> Mapping[str, object]:
    return {
        "service": service.subject,
        "response_type": "stream" if service.streamed else "singleton",
        "accounts": [guest.account],
    }


def _user(user: NatsUser) -> Mapping[str, object]:
    return {
        "user": user.name,
        "password": user.password,
        "permissions": {
            "publish": _permission(user.publish_allow, user.publish_deny),
            "subscribe": _permission(user.subscribe_allow, user.subscribe_deny),
        },
    }


def _permission(allow: tuple[str, ...], deny: tuple[str, ...]) -> Mapping[str, list[str]]:
    # An empty allow list would mean everything to the server; here it means nothing.
    return {"allow": list(allow), "deny": list(deny)} if allow else {"deny": [">"]}
