"""An outside subscriber pulls public parts by consumers of its own, and can do nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError

from loreline.embedded.nats import EmbeddedNats
from loreline.events.append import Appender
from loreline.events.bootstrap import ensure_stage, request
from loreline.events.desk import ConsumerDesk
from loreline.events.envelope import Codec
from loreline.events.jetstream import JetStreamLog
from loreline.events.keys import MemoryKeys
from loreline.events.topology import STREAM, SUBSCRIBER, SUBSCRIBER_CONSUMERS, StageConsumer
from tests.conftest import now
from tests.contracts.test_log import conversation, titled

STAGE = StageConsumer("chat", ("lore.app.>",), 1, 30.0)
WORDS = "Unspeakable"


class Outsider:
    """A subscriber's client, and what the server refused it."""

    def __init__(self, connection: Client, refusals: asyncio.Queue[str]) -> None:
        self.nats = connection
        self.refusals = refusals
        self.stream: JetStreamContext = connection.jetstream(prefix="lorejs", timeout=5)

    async def is_refused(self, subject: str, body: Any = None, *, reply: str = "") -> bool:
        """Whether the server tells the subscriber that it may not publish there."""
        await self.nats.publish(subject, b"" if body is None else json.dumps(body).encode(), reply=reply)
        return "permissions violation for publish" in await asyncio.wait_for(self.refusals.get(), 10)

    async def ask(self, subject: str, body: Any) -> dict[str, Any]:
        answer = await self.nats.request(f"lorejs.{subject}", json.dumps(body).encode(), timeout=5)
        found: dict[str, Any] = json.loads(answer.data)
        return found


@pytest.fixture
async def writer(app_connection: Client, jetstream_log: JetStreamLog) -> Appender:
    """A log with a stage and 30 events, and the desk open."""
    await ConsumerDesk(app_connection).open()
    await ensure_stage(app_connection, STAGE)
    keys = MemoryKeys()
    appender = Appender(jetstream_log, Codec(keys), keys, clock=now)
    await appender.execute_together([titled(conversation(), f"{WORDS} {n}") for n in range(30)])
    return appender


@pytest.fixture
async def outsider(nats_server: EmbeddedNats, writer: Appender) -> AsyncIterator[Outsider]:
    refusals: asyncio.Queue[str] = asyncio.Queue()

    async def refused(error: Exception) -> None:
        refusals.put_nowait(str(error))

    connection = await nats.connect(nats_server.url(SUBSCRIBER), error_cb=refused)
    yield Outsider(connection, refusals)
    await connection.close()


def create(name: str, **config: Any) -> tuple[str, dict[str, Any]]:
    body = {"name": name, "durable_name": name, "ack_policy": "explicit", **config}
    return f"CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": body}


async def last_seq(log: JetStreamLog) -> int:
    return (await log.info()).last_seq


async def test_a_subscriber_follows_the_public_parts_from_a_sequence_on(
    outsider: Outsider, writer: Appender
) -> None:
    config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=11)
    pulled = await outsider.stream.pull_subscribe("lore.>", durable="sub-00", stream=STREAM, config=config)
    before = await pulled.fetch(20, timeout=10)
    assert [message.metadata.sequence.stream for message in before] == list(range(11, 31))
    waiting = asyncio.create_task(pulled.fetch(1, timeout=20))
    await writer.execute(titled(conversation(), f"{WORDS} live"))
    (live,) = await waiting
    assert live.metadata.sequence.stream == 31
    for message in [*before, live]:
        assert message.subject.endswith(".titled")
        assert set(json.loads(message.data)) == {"private"}
        assert set(json.loads(message.data)["private"]) == {"owner", "kid", "box"}
        assert WORDS.encode() not in message.data + json.dumps(message.headers).encode()
        await message.ack_sync(timeout=10)
    floor = (await pulled.consumer_info()).ack_floor
    assert floor is not None
    assert floor.stream_seq == 31
    assert await outsider.stream.delete_consumer(STREAM, "sub-00")


async def test_a_subscriber_has_its_own_consumers_and_no_more(outsider: Outsider, admin: Client) -> None:
    for name in SUBSCRIBER_CONSUMERS:
        assert "error" not in await outsider.ask(*create(name))
    others = (f"sub-{len(SUBSCRIBER_CONSUMERS):02}", "stage-chat", "view-passages-1", "mine")
    for name in others:
        assert await outsider.is_refused(f"lorejs.CONSUMER.CREATE.{STREAM}.{name}", create(name)[1])
        subject = f"lorejs.CONSUMER.DURABLE.CREATE.{STREAM}.{name}"
        assert await outsider.is_refused(subject, create(name)[1])
        answer = await outsider.ask(create("sub-00")[0], create(name)[1])
        assert "does not match" in answer["error"]["description"]
    assert await outsider.is_refused(f"lorejs.CONSUMER.CREATE.{STREAM}", create("")[1])
    live = {"stream_name": "LIVE", "config": create("sub-00")[1]["config"]}
    assert "does not match" in (await outsider.ask(create("sub-00")[0], live))["error"]["description"]
    listed = await request(admin, f"CONSUMER.NAMES.{STREAM}", {})
    assert sorted(listed["consumers"]) == sorted([*SUBSCRIBER_CONSUMERS, "stage-chat"])


@pytest.mark.parametrize(
    "subject",
    [
        "lore.app.conversation.00.titled",
        "live.frame.turn.00",
        "$JS.API.STREAM.PURGE.LORE",
        "$JS.API.CONSUMER.CREATE.LORE.sub-00",
        "desk.CONSUMER.CREATE.LORE.sub-00",
        "$JS.ACK.LORE.stage-chat.1.1.1.1.1",
        "lorejs.CONSUMER.MSG.NEXT.LORE.stage-chat",
        "lorejs.CONSUMER.INFO.LORE.stage-chat",
        "lorejs.CONSUMER.DELETE.LORE.stage-chat",
        "lorejs.CONSUMER.NAMES.LORE",
        "lorejs.CONSUMER.PAUSE.LORE.stage-chat",
        "lorejs.STREAM.CREATE.OTHER",
        "lorejs.STREAM.UPDATE.LORE",
        "lorejs.STREAM.PURGE.LORE",
        "lorejs.STREAM.DELETE.LORE",
        "lorejs.STREAM.MSG.DELETE.LORE",
        "lorejs.STREAM.MSG.GET.LORE",
        "lorejs.DIRECT.GET.LORE",
        "lorejs.STREAM.INFO.LIVE",
        "anything",
    ],
)
async def test_a_subscriber_may_not(outsider: Outsider, jetstream_log: JetStreamLog, subject: str) -> None:
    assert await outsider.is_refused(subject, {})
    assert await last_seq(jetstream_log) == 30


@pytest.mark.parametrize(
    "target",
    [
        "lore.app.log.current.sealed",
        "live.frame.turn.00",
        "$JS.API.CONSUMER.DELETE.LORE.stage-chat",
        "$JS.ACK.LORE.stage-chat.1.1.1.1.1",
        "_INBOX.mine",
    ],
)
async def test_a_subscriber_has_nothing_delivered_to_a_subject_of_the_logs_account(
    outsider: Outsider, admin: Client, jetstream_log: JetStreamLog, target: str
) -> None:
    assert "error" not in await outsider.ask(*create("sub-01"))
    for name in ("sub-00", "sub-01"):  # a new one, and one that it has
        answer = await outsider.ask(*create(name, deliver_subject=target))
        assert "has no deliver_subject" in answer["error"]["description"]
    listed = await request(admin, f"CONSUMER.NAMES.{STREAM}", {})
    assert sorted(listed["consumers"]) == ["stage-chat", "sub-01"]
    assert await last_seq(jetstream_log) == 30


@pytest.mark.parametrize("target", ["lore.app.log.current.sealed", "$JS.API.CONSUMER.DELETE.LORE.stage-chat"])
async def test_a_reply_subject_never_reaches_the_logs_account(
    outsider: Outsider, admin: Client, jetstream_log: JetStreamLog, target: str
) -> None:
    await outsider.ask(*create("sub-00"))
    body = json.dumps({"batch": 3, "no_wait": True}).encode()
    for subject in (f"CONSUMER.MSG.NEXT.{STREAM}.sub-00", f"STREAM.INFO.{STREAM}", create("sub-00")[0]):
        await outsider.nats.publish(f"lorejs.{subject}", body, reply=target)
    await outsider.nats.publish(f"$JS.ACK.{STREAM}.sub-00.1.1.1.1.1", b"+ACK", reply=target)
    assert "config" in await outsider.ask(f"CONSUMER.INFO.{STREAM}.sub-00", {})
    assert "stage-chat" in (await request(admin, f"CONSUMER.NAMES.{STREAM}", {}))["consumers"]
    assert await last_seq(jetstream_log) == 30


async def test_a_subscriber_hears_nothing_but_its_own_inbox(outsider: Outsider, writer: Appender) -> None:
    for subject in ("lore.>", "live.>", "$JS.>", ">"):
        await outsider.nats.subscribe(subject)
        assert "permissions violation for subscription" in await asyncio.wait_for(outsider.refusals.get(), 10)


async def test_a_request_that_is_none_is_answered(outsider: Outsider) -> None:
    bodies: list[Any] = [[], {}, {"config": 3}, "words"]
    for body in bodies:
        answer = await outsider.ask(create("sub-00")[0], body)
        assert "not that of a consumer" in answer["error"]["description"]
    with pytest.raises(APIError):
        await outsider.stream.add_consumer(STREAM, ConsumerConfig(durable_name="sub-00", deliver_subject="x"))


async def test_a_subscriber_that_does_not_keep_up_holds_up_nobody(
    outsider: Outsider, writer: Appender, jetstream_log: JetStreamLog
) -> None:
    """It has a hundred events in its hands, acknowledges none, and asks for no more."""
    pulled = await outsider.stream.pull_subscribe("lore.>", durable="sub-00", stream=STREAM)
    assert await pulled.fetch(30, timeout=10)
    for _ in range(5):
        await writer.execute_together([titled(conversation(), "more") for _ in range(100)])
    assert await last_seq(jetstream_log) == 530
    seen = 0
    async with aclosing(jetstream_log.follow(after_seq=0)) as batches:
        async for batch in batches:
            seen += len(batch)
            if seen == 530:
                break
    assert (await pulled.consumer_info()).num_pending == 500
