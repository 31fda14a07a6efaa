"""What a user or a guest of the embedded NATS server may not do, the server refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.js.api import ConsumerConfig

from loreline.embedded.nats import EmbeddedNats
from loreline.embedded.nats_config import NatsGuest, NatsService, NatsUser

PULL = "$JS.API.CONSUMER.MSG.NEXT.KEPT.guest"
INFO = NatsService("$JS.API.STREAM.INFO.KEPT", known_as="kept.info")
ACK = "$JS.ACK.KEPT.guest.>"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    """A server with a stream KEPT of two messages and a durable `guest`."""
    reader = NatsUser("reader", "r", publish_allow=(), subscribe_allow=("_INBOX.reader.>",))
    writer = NatsUser("writer", "w", publish_deny=("kept.secret",))
    names = ("kept.info", PULL, ACK)
    guest = NatsUser("guest", "g", publish_allow=names, subscribe_allow=("_INBOX.guest.>",))
    services = (INFO, NatsService(PULL, streamed=True), NatsService(ACK))
    server = EmbeddedNats(
        tmp_path,
        users=[NatsUser("admin", "a"), reader, writer],
        guests=[NatsGuest("GUESTS", (guest,), services)],
        logs=tmp_path,
    )
    await server.start()
    admin = await nats.connect(server.url("admin"))
    stream = admin.jetstream()
    await stream.add_stream(name="KEPT", subjects=["kept.>"])
    for word in ("one", "two"):
        await stream.publish(f"kept.{word}", word.encode())
    await stream.add_consumer("KEPT", ConsumerConfig(durable_name="guest"))
    await admin.close()
    yield server
    await server.stop()


async def messages(server: EmbeddedNats) -> int:
    admin = await nats.connect(server.url("admin"))
    found = await admin.jetstream().stream_info("KEPT")
    await admin.close()
    return int(found.state.messages)


@pytest.mark.parametrize(("user", "subject"), [("reader", "kept.x"), ("writer", "kept.secret")])
async def test_a_user_without_the_permission_cannot_publish(
    server: EmbeddedNats, user: str, subject: str
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(error: Exception) -> None:
        heard.put_nowait(str(error))

    client = await nats.connect(server.url(user), error_cb=hear)
    await client.publish(subject, b"x")
    # Before the client is closed: that would drop what it has not yet told.
    refusal = await asyncio.wait_for(heard.get(), 5)
    await client.close()
    assert "permissions violation for publish" in refusal
    assert await messages(server) == 2


async def test_a_user_with_the_permission_can_publish(server: EmbeddedNats) -> None:
    client = await nats.connect(server.url("writer"))
    await client.publish("kept.open", b"x")
    await client.flush()
    await client.close()
    assert await messages(server) == 3


async def test_a_guest_pulls_acknowledges_and_asks(server: EmbeddedNats) -> None:
    client = await nats.connect(server.url("guest"), inbox_prefix=b"_INBOX.guest")
    inbox = await client.subscribe("_INBOX.guest.pull")
    await client.publish(PULL, b'{"batch": 2, "no_wait": true}', reply="_INBOX.guest.pull")
    for word in (b"one", b"two"):
        message = await inbox.next_msg(2)
        assert message.data == word
        await client.request(message.reply, b"+ACK", timeout=2)
    assert b'"name":"KEPT"' in (await client.request("kept.info", b"", timeout=2)).data
    await client.close()

    admin = await nats.connect(server.url("admin"))
    assert (await admin.jetstream().consumer_info("KEPT", "guest")).ack_floor.stream_seq == 2
    await admin.close()


@pytest.mark.parametrize("subject", [PULL, "kept.info", "$JS.ACK.KEPT.guest.1.1.1.1.1"])
async def test_a_guest_cannot_write_to_a_stream_through_a_reply_subject(
    server: EmbeddedNats, subject: str
) -> None:
    client = await nats.connect(server.url("guest"), inbox_prefix=b"_INBOX.guest")
    await client.publish(
        subject, b"" if "ACK" in subject else b'{"batch": 2, "no_wait": true}', reply="kept.evil"
    )
    # An answer to a later request shows that the earlier one was dealt with.
    await client.request("kept.info", b"", timeout=2)
    await asyncio.sleep(0.1)
    await client.close()
    assert await messages(server) == 2
