"""The contract of the log, run over every adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import UUID, uuid4

import nats
import pytest

from loreline.events.append import Appender, Command, Fold
from loreline.events.audit import audit
from loreline.events.bootstrap import ensure_stream
from loreline.events.envelope import Codec, StoredWire
from loreline.events.group_commit import GroupCommitter
from loreline.events.jetstream import JetStreamLog
from loreline.events.keys import MemoryKeys
from loreline.events.log import EventLog, Group
from loreline.events.memory import MemoryLog
from loreline.events.topology import lore_stream
from loreline.schemas.errors import AppendUncertain, LogRolledBack, StaleAggregate
from loreline.schemas.events.conversation import ConversationCreated, ConversationTitled, Title
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate, conversation_aggregate
from tests.conftest import now
from tests.containers import nats_container


@pytest.fixture
async def container_log() -> AsyncIterator[EventLog]:
    with nats_container() as url:
        connection = await nats.connect(url)
        await ensure_stream(connection, lore_stream(max_bytes=1 << 28))
        yield JetStreamLog(connection)
        await connection.close()


@pytest.fixture(params=["memory", "jetstream", pytest.param("container", marks=pytest.mark.docker)])
def log(request: pytest.FixtureRequest) -> EventLog:
    if request.param == "memory":
        return MemoryLog()
    adapter: EventLog = request.getfixturevalue(f"{request.param}_log")
    return adapter


@pytest.fixture
def keys() -> MemoryKeys:
    return MemoryKeys()


def appender(log: EventLog, keys: MemoryKeys, *, committer: bool = False) -> Appender:
    publisher = GroupCommitter(log, threshold=4) if committer else log
    return Appender(log, Codec(keys), keys, clock=now, publisher=publisher)


TITLES: Fold[tuple[str, ...]] = Fold(
    "titles",
    (),
    lambda state, stored: (
        (*state, stored.event.payload.private.title or "")
        if isinstance(stored.event.payload, ConversationTitled)
        else state
    ),
)


def titled(aggregate: Aggregate, title: str, *, key: UUID | None = None) -> Command[tuple[str, ...]]:
    return Command(
        aggregate,
        TITLES,
        key or uuid4(),
        lambda _: [ConversationTitled(private=Title(title=title))],
        actor="user",
    )


def conversation() -> Aggregate:
    return conversation_aggregate(str(uuid4()))


async def take(log: EventLog, count: int, *, after_seq: int = 0) -> list[int]:
    seqs: list[int] = []
    async with aclosing(log.follow(after_seq=after_seq)) as batches:
        async for batch in batches:
            seqs += [stored.seq for stored in batch]
            if len(seqs) >= count:
                break
    return seqs


async def test_an_append_is_read_back_as_it_was(log: EventLog, keys: MemoryKeys) -> None:
    aggregate = conversation()
    (stored,) = await appender(log, keys).execute(titled(aggregate, "Ferry fares — naïve ☕"))
    (wire,) = await log.read(aggregate)
    again = Codec(keys).decode(wire)
    assert again == stored
    assert isinstance(again.event.payload, ConversationTitled)
    assert again.event.payload.private.title == "Ferry fares — naïve ☕"
    assert (await log.get(stored.seq)) == wire
    assert (await log.last(aggregate.wildcard)) == wire


async def test_the_words_of_an_event_are_not_in_the_log(log: EventLog, keys: MemoryKeys) -> None:
    aggregate = conversation()
    await appender(log, keys).execute(titled(aggregate, "secretword"))
    (stored,) = await log.read(aggregate)
    assert b"secretword" not in stored.wire.body
    assert "secretword" not in str(stored.wire.headers)


async def test_a_retried_append_never_doubles(log: EventLog, keys: MemoryKeys) -> None:
    aggregate, command = conversation(), uuid4()
    first = await appender(log, keys).execute(titled(aggregate, "once", key=command))
    again = await appender(log, keys).execute(titled(aggregate, "once", key=command))
    assert again == first
    assert len(await log.read(aggregate)) == 1


async def test_a_retried_create_makes_one_conversation(log: EventLog, keys: MemoryKeys) -> None:
    key = uuid4()
    aggregate = conversation_aggregate(str(key))

    def create() -> Command[tuple[str, ...]]:
        return Command(aggregate, TITLES, key, lambda _: [ConversationCreated()], actor="user")

    made = await asyncio.gather(*(appender(log, keys).execute(create()) for _ in range(4)))
    assert len({result[0].seq for result in made}) == 1
    assert len(await log.read(aggregate)) == 1


async def test_of_two_writers_one_wins_and_the_other_decides_again(log: EventLog, keys: MemoryKeys) -> None:
    aggregate = conversation()
    seen: list[tuple[str, ...]] = []

    def decide(title: str) -> Command[tuple[str, ...]]:
        def choose(state: tuple[str, ...]) -> list[Payload]:
            seen.append(state)
            return [ConversationTitled(private=Title(title=f"{title} after {len(state)}"))]

        return Command(aggregate, TITLES, uuid4(), choose, actor="user")

    writers = [appender(log, keys) for _ in range(5)]
    await asyncio.gather(*(writer.execute(decide(f"w{n}")) for n, writer in enumerate(writers)))
    titles = await appender(log, keys).state(aggregate, TITLES)
    assert [title.split(" after ")[1] for title in titles] == ["0", "1", "2", "3", "4"]
    assert len(seen) > 5  # somebody lost and decided again


async def test_a_stale_expectation_stores_nothing(log: EventLog, keys: MemoryKeys) -> None:
    one, other = conversation(), conversation()
    await appender(log, keys).execute(titled(one, "a"))
    codec = Codec(keys)
    probe = appender(MemoryLog(), keys)
    fresh, stale = (
        (await probe.execute(titled(other, "b")))[0].event,
        (await probe.execute(titled(one, "c")))[0].event,
    )
    groups = [Group(other, 0, (codec.encode(fresh),)), Group(one, 0, (codec.encode(stale),))]
    with pytest.raises(StaleAggregate):
        await log.append(groups)
    assert await log.read(other) == []
    assert (await log.info()).last_seq == 1


async def test_the_same_event_id_is_not_stored_twice(log: EventLog, keys: MemoryKeys) -> None:
    aggregate = conversation()
    (stored,) = await appender(log, keys).execute(titled(aggregate, "a"))
    wire = Codec(keys).encode(stored.event)
    with pytest.raises((AppendUncertain, StaleAggregate)):
        await log.append([Group(aggregate, stored.seq, (wire,))])
    assert (await log.info()).last_seq == 1


async def test_several_aggregates_are_appended_together(log: EventLog, keys: MemoryKeys) -> None:
    commands = [titled(conversation(), f"t{n}") for n in range(300)]
    stored = await appender(log, keys).execute_together(commands)
    assert [each[0].seq for each in stored] == list(range(1, 301))
    assert await take(log, 300) == list(range(1, 301))


async def test_group_commit_keeps_every_event_and_every_expectation(log: EventLog, keys: MemoryKeys) -> None:
    busy, writer = conversation(), appender(log, keys, committer=True)
    commands = [titled(conversation(), f"t{n}") for n in range(30)] + [
        titled(busy, f"b{n}") for n in range(6)
    ]
    results = await asyncio.gather(*(writer.execute(command) for command in commands))
    assert sorted(each[0].seq for each in results) == list(range(1, 37))
    titles = await writer.state(busy, TITLES)
    assert len(titles) == 6
    await audit(log, through_seq=36)


async def test_following_sees_what_is_appended_later_and_says_when_it_is_at_the_end(
    log: EventLog, keys: MemoryKeys
) -> None:
    writer = appender(log, keys)
    await writer.execute(titled(conversation(), "before"))
    seqs: list[int] = []
    async with aclosing(log.follow(after_seq=0)) as batches:
        async for batch in batches:
            seqs += [stored.seq for stored in batch]
            if not batch and seqs == [1]:
                await writer.execute(titled(conversation(), "after"))
            if seqs == [1, 2]:
                break


async def test_following_a_filter_sees_only_that(log: EventLog, keys: MemoryKeys) -> None:
    writer, wanted = appender(log, keys), conversation()
    for aggregate in (conversation(), wanted, conversation(), wanted):
        await writer.execute(titled(aggregate, "x"))
    async with aclosing(log.follow(after_seq=0, filters=[wanted.wildcard])) as batches:
        seqs = [stored.seq async for stored in _flatten(batches, 2)]
    assert seqs == [2, 4]


async def _flatten(batches: AsyncIterator[list[StoredWire]], count: int) -> AsyncIterator[StoredWire]:
    async for batch in batches:
        for stored in batch:
            yield stored
            count -= 1
        if count <= 0:
            return


async def test_a_log_that_ends_before_the_readers_position_is_named(log: EventLog, keys: MemoryKeys) -> None:
    await appender(log, keys).execute(titled(conversation(), "x"))
    with pytest.raises(LogRolledBack, match="backup"):
        await take(log, 1, after_seq=7)


async def test_a_long_aggregate_is_read_whole_and_by_leader_alike(log: EventLog, keys: MemoryKeys) -> None:
    aggregate, writer = conversation(), appender(log, keys)
    command = Command(
        aggregate,
        TITLES,
        uuid4(),
        lambda _: [ConversationTitled(private=Title(title=str(n))) for n in range(600)],
        actor="user",
    )
    await writer.execute(command)
    assert [stored.seq for stored in await log.read(aggregate)] == list(range(1, 601))
    assert await log.read(aggregate, after_seq=590) == await log.read(aggregate, after_seq=590, leader=True)
    titles = await appender(log, keys).state(aggregate, TITLES)
    assert len(titles) == 600
