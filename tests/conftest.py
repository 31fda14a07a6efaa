"""What tests share: real servers on free ports, started for a test and stopped with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import nats
import pytest
from hypothesis import settings
from nats.aio.client import Client

from loreline.embedded.nats import EmbeddedNats
from loreline.embedded.runtime import Secrets
from loreline.events.bootstrap import ensure_stream
from loreline.events.jetstream import JetStreamLog
from loreline.events.topology import ADMIN, APP, SUBSCRIBER, live_stream, lore_stream
from loreline.wiring.accounts import nats_users

settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")  # the same examples in every run; searching is the campaign's


def now() -> datetime:
    return datetime.now(UTC)


def embedded_nats(directory: Path) -> EmbeddedNats:
    """A server with the users and accounts that the wiring gives it."""
    secrets = Secrets(nats={name: f"{name}-secret" for name in (ADMIN, APP, SUBSCRIBER)}, postgres="unused")
    users, guests = nats_users(secrets)
    return EmbeddedNats(directory, users=users, guests=guests, logs=directory)


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    (tmp_path / "nats").mkdir(mode=0o700)
    server = embedded_nats(tmp_path / "nats")
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
