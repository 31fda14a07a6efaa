"""The wrapper on a real server: nothing lost, nothing doubled, nothing in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from uuid import uuid4

import pytest
from nats.aio.client import Client

from loreline.embedded.nats import EmbeddedNats
from loreline.events.append import Appender, Command, Fold
from loreline.events.bootstrap import ensure_stage, request
from loreline.events.envelope import Codec, Stored
from loreline.events.folds.app import DEADLETTER
from loreline.events.jetstream import JetStreamLog
from loreline.events.keys import MemoryKeys
from loreline.processors.app import ProcessorApp, Served
from loreline.processors.delivery import Gate, RetryPolicy, StageRunner
from loreline.processors.stage import Commands, Stage
from loreline.schemas.errors import DependencyDown, LogError
from loreline.schemas.events.app import EventParked, EventReleased
from loreline.schemas.events.conversation import ConversationCreated, ConversationTitled, Title
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import conversation_aggregate, deadletter_aggregate, derived_key
from tests.conftest import now

QUICK = RetryPolicy(ack_wait_s=0.6, max_failures=8, backoff_s=0.02, max_backoff_s=0.05, probe_s=0.02)
NOTHING: Fold[int] = Fold("count", 0, lambda state, _: state + 1)


class Bench:
    """A log, an appender, and a stage under test on a real server."""

    def __init__(self, server: EmbeddedNats, connection: Client, log: JetStreamLog) -> None:
        self.server = server
        self.connection = connection
        self.log = log
        self.keys = MemoryKeys()
        self.codec = Codec(self.keys)
        self.appender = Appender(log, self.codec, self.keys, clock=now)
        self.damage: list[LogError] = []
        self.up = True

    async def create(self, title: str) -> Stored[Payload]:
        key = uuid4()
        command: Command[int] = Command(
            conversation_aggregate(str(key)),
            NOTHING,
            key,
            lambda _: [ConversationCreated(private=Title(title=title))],
            actor="user",
        )
        return (await self.appender.execute(command))[0]

    @asynccontextmanager
    async def serve(
        self, run: Callable[[str], Awaitable[None]], *, parallelism: int = 2, policy: RetryPolicy = QUICK
    ) -> AsyncIterator[ProcessorApp]:
        async def stage_function(event: Stored[Payload], _attempt: int) -> Commands:
            assert isinstance(event.event.payload, ConversationCreated)
            await run(event.event.payload.private.title or "")
            return [self.echo(event)]

        async def probe() -> bool:
            return self.up

        stage = Stage("echo", ("lore.app.conversation.*.created",), stage_function, parallelism)
        runner = StageRunner(
            stage,
            log=self.log,
            codec=self.codec,
            appender=self.appender,
            gate=Gate({"model": probe}, policy),
            policy=policy,
            on_damage=self.damage.append,
        )

        async def ensure(each: Stage) -> bool:
            return await ensure_stage(self.connection, each.consumer(ack_wait_s=policy.ack_wait_s))

        app = ProcessorApp(self.server.url("app"), [Served(stage, runner)], ensure=ensure, watch_s=0.2)
        await app.start()
        try:
            yield app
        finally:
            await app.stop()

    def echo(self, event: Stored[Payload]) -> Command[int]:
        return Command(
            event.event.aggregate,
            NOTHING,
            derived_key(event.event.id, "echo"),
            lambda _: [ConversationTitled(private=Title(title="done"))],
            actor="stage.echo",
            causation=event.event.id,
        )

    async def wait_for(self, event_type: str, count: int, *, timeout_s: float = 15) -> list[Stored[Payload]]:
        found: list[Stored[Payload]] = []
        async with asyncio.timeout(timeout_s), aclosing(self.log.follow(after_seq=0)) as batches:
            async for batch in batches:
                decoded = [self.codec.decode(each) for each in batch]
                found += [each for each in decoded if each.event.type == event_type]
                if len(found) >= count:
                    break
        return found


@pytest.fixture
async def bench(nats_server: EmbeddedNats, app_connection: Client, jetstream_log: JetStreamLog) -> Bench:
    return Bench(nats_server, app_connection, jetstream_log)


async def test_poison_does_not_delay_the_next_good_event(bench: Bench) -> None:
    patient = RetryPolicy(ack_wait_s=5, max_failures=8, backoff_s=30, max_backoff_s=30, probe_s=0.02)

    async def run(title: str) -> None:
        if title == "poison":
            raise ValueError("cannot")

    for _ in range(3):
        await bench.create("poison")
    good = await bench.create("good")
    async with bench.serve(run, parallelism=2, policy=patient):
        (done,) = await bench.wait_for("conversation.titled", 1, timeout_s=5)
    assert done.event.causation == good.event.id


async def test_the_eighth_failure_parks_the_event_and_a_release_brings_it_back(bench: Bench) -> None:
    runs: list[str] = []
    healed = asyncio.Event()

    async def run(title: str) -> None:
        runs.append(title)
        if not healed.is_set():
            raise ValueError("no luck with " + title)

    bad = await bench.create("bad")
    async with bench.serve(run):
        (parked,) = await bench.wait_for("deadletter.parked", 1)
        assert isinstance(parked.event.payload, EventParked)
        assert (parked.event.payload.attempts, parked.event.payload.seq) == (8, bad.seq)
        assert parked.event.payload.private.error == "ValueError: no luck with bad"
        assert len(runs) == 8
        healed.set()
        await bench.appender.execute(
            Command(
                deadletter_aggregate("echo", bad.seq),
                DEADLETTER,
                uuid4(),
                lambda _: [EventReleased(stage="echo", seq=bad.seq)],
                actor="user",
            )
        )
        (done,) = await bench.wait_for("conversation.titled", 1)
    assert done.event.causation == bad.event.id


async def test_an_outage_of_twenty_backoffs_parks_nothing(bench: Bench) -> None:
    bench.up = False
    tries = 0

    async def run(_: str) -> None:
        nonlocal tries
        tries += 1
        if not bench.up:
            raise DependencyDown("model", "the model does not answer")

    await bench.create("x")
    async with bench.serve(run):
        await asyncio.sleep(20 * QUICK.max_backoff_s)
        assert tries <= 2
        bench.up = True
        await bench.wait_for("conversation.titled", 1)
    info = await bench.log.last("lore.app.deadletter.*.parked")
    assert info is None


async def test_a_handler_of_ten_ack_waits_is_delivered_once(bench: Bench) -> None:
    runs = 0

    async def run(_: str) -> None:
        nonlocal runs
        runs += 1
        await asyncio.sleep(10 * QUICK.ack_wait_s)

    await bench.create("slow")
    async with bench.serve(run):
        await bench.wait_for("conversation.titled", 1)
    assert runs == 1


async def test_a_deleted_consumer_heals_by_itself(bench: Bench) -> None:
    async def run(_: str) -> None:
        return None

    async with bench.serve(run):
        await bench.create("before")
        await bench.wait_for("conversation.titled", 1)
        answer = await request(bench.connection, "CONSUMER.DELETE.LORE.stage-echo", {})
        assert answer.get("success")
        await bench.create("after")
        titles = await bench.wait_for("conversation.titled", 2, timeout_s=8)
    assert len(titles) == 2


async def test_a_restarted_server_heals_by_itself(bench: Bench) -> None:
    async def run(_: str) -> None:
        return None

    async with bench.serve(run):
        await bench.create("before")
        await bench.wait_for("conversation.titled", 1)
        await bench.server.restart()
        await bench.create("after")
        assert len(await bench.wait_for("conversation.titled", 2, timeout_s=10)) == 2


async def test_two_replicas_share_a_stage_without_doing_it_twice(bench: Bench) -> None:
    seen: list[str] = []

    async def run(title: str) -> None:
        seen.append(title)
        await asyncio.sleep(0.01)

    async with bench.serve(run, parallelism=3), bench.serve(run, parallelism=3):
        for n in range(30):
            await bench.create(f"t{n}")
        await bench.wait_for("conversation.titled", 30)
    assert sorted(seen) == sorted(f"t{n}" for n in range(30))


async def test_an_app_stops_while_the_server_is_away(bench: Bench) -> None:
    async def nothing(_: str) -> None:
        return None

    async with bench.serve(nothing):
        await bench.server.stop()
