"""Two small files of the data directory as values: who runs it, and the servers' passwords."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Runtime:
    """The stack that runs a data directory.

    Attributes:
        pid: process that holds the lock.
        url: address of the HTTP edge; empty before it listens.
        ports: TCP port of each part on 127.0.0.1, by name (`nats`, `nats_monitor`, `postgres`, ...).
        postgres_directory: where the PostgreSQL cluster is when it is not in the data directory.
    """

    pid: int
    url: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    postgres_directory: str | None = None

    def to_json(self) -> str:
        """Return the text of `runtime.json`."""
        return json.dumps({**vars(self), "ports": dict(self.ports)}, indent=2) + "\n"


@dataclass(frozen=True)
class Secrets:
    """Passwords of the embedded servers; never shown by repr.

    Attributes:
        nats: password by user (`admin`, `app`, `subscriber`).
        postgres: password of the superuser `postgres`.
    """

    nats: Mapping[str, str] = field(repr=False)
    postgres: str = field(repr=False)


def parse_runtime(text: str) -> Runtime | None:
    """Read `runtime.json`; None if it is not one."""
    try:
        found = json.loads(text)
        return Runtime(
            pid=int(found["pid"]),
            url=str(found["url"]),
            ports={str(name): int(port) for name, port in found["ports"].items()},
            postgres_directory=found.get("postgres_directory"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def parse_secrets(text: str, *, users: Sequence[str]) -> Secrets | None:
    """Read `secrets.json`; None if a password of `users` or of Postgres is missing."""
    try:
        found = json.loads(text)
        nats = {name: found["nats"][name] for name in users}
        postgres = found["postgres"]
    except (ValueError, KeyError, TypeError):
        return None
    if not all(isinstance(word, str) and word for word in (*nats.values(), postgres)):
        return None
    return Secrets(nats=nats, postgres=postgres)
