"""The audit finds what was taken out, put in, or changed; the sealer and the watch stand on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.conftest import now
from tests.contracts.test_log import conversation, titled
from tests.unit.events.given import filled

from loreline.events.append import Appender
from loreline.events.audit import Audit, audit, roll
from loreline.events.envelope import Codec, StoredWire, Wire, digest_of
from loreline.events.keys import MemoryKeys
from loreline.events.log import Group
from loreline.events.memory import MemoryLog
from loreline.events.watch import Damage, WatchedLog
from loreline.processors.sealer import Sealer
from loreline.schemas.errors import KeyMissing, LogError, LogHole, LogRewritten, LogRolledBack
from loreline.schemas.ids import LOG


class ShownLog(MemoryLog):
    """A log that shows other events than it holds."""

    def __init__(self, events: Sequence[StoredWire]) -> None:
        super().__init__()
        self._events = list(events)


async def events_of(count: int) -> tuple[list[StoredWire], MemoryKeys]:
    keys = MemoryKeys()
    log, _ = await filled(count, keys=keys)
    return [stored for seq in range(1, count + 1) if (stored := await log.get(seq))], keys


async def test_a_sound_log_passes_and_says_its_digest() -> None:
    events, keys = await events_of(12)
    found = await audit(ShownLog(events), through_seq=12, codec=Codec(keys))
    digest = Audit().digest
    for stored in events:
        digest = roll(digest, digest_of(stored.wire))
    assert (found.seq, found.digest) == (12, digest)
    assert (await audit(MemoryLog(), through_seq=0)).seq == 0


def removed(events: list[StoredWire]) -> list[StoredWire]:
    return [each for each in events if each.seq != 5]


def renumbered(events: list[StoredWire]) -> list[StoredWire]:
    return [replace(each, seq=seq) for seq, each in enumerate(removed(events), start=1)]


def swapped(events: list[StoredWire]) -> list[StoredWire]:
    out = list(events)
    out[1], out[4] = replace(out[4], seq=2), replace(out[1], seq=5)
    return out


def with_another_body(events: list[StoredWire]) -> list[StoredWire]:
    out = list(events)
    out[3] = replace(out[3], wire=replace(out[3].wire, body=out[4].wire.body))
    return out


def with_another_header(events: list[StoredWire]) -> list[StoredWire]:
    out = list(events)
    headers = {**out[3].wire.headers, "ce-actor": "somebody"}
    out[3] = replace(out[3], wire=replace(out[3].wire, headers=headers))
    return out


def cut_short(events: list[StoredWire]) -> list[StoredWire]:
    return events[:8]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (removed, LogHole, "sequence 5 "),
        (renumbered, LogRewritten, "the event at 7 "),
        (swapped, LogRewritten, "the event at 2 "),
        (with_another_body, LogRewritten, "the event at 7 "),
        (with_another_header, LogRewritten, "the event at 7 "),
        (cut_short, LogHole, "sequence 9 "),
    ],
)
async def test_a_changed_log_is_named_with_its_sequence(
    change: Callable[[list[StoredWire]], list[StoredWire]], error: type[LogError], words: str
) -> None:
    events, _ = await events_of(12)
    with pytest.raises(error, match=words):
        await audit(ShownLog(change(events)), through_seq=12)


async def test_the_last_event_of_an_aggregate_is_vouched_for_by_its_seal() -> None:
    events, keys = await events_of(12)
    last = events[-1]
    forged = [*events[:-1], replace(last, wire=replace(last.wire, body=events[-2].wire.body))]
    assert (await audit(ShownLog(forged), through_seq=12)).seq == 12  # the chains end before it
    with pytest.raises(LogError, match="sequence 12"):
        await audit(ShownLog(forged), through_seq=12, codec=Codec(keys))
    with pytest.raises(KeyMissing):
        await audit(ShownLog(events), through_seq=12, codec=Codec(MemoryKeys()))


async def test_what_is_on_no_subject_of_ours_is_named() -> None:
    events, _ = await events_of(3)
    events[1] = replace(events[1], wire=Wire("lore.what", {}, b""))
    with pytest.raises(LogError, match="sequence 2 is not an event"):
        await audit(ShownLog(events), through_seq=3)


class Time:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def seals(log: MemoryLog, count: int) -> list[StoredWire]:
    """Wait for so many seals."""

    async def look() -> AsyncGenerator[StoredWire, None]:
        async for batch in log.follow(after_seq=0, filters=[LOG.subject("sealed")]):
            for stored in batch:
                yield stored

    found: list[StoredWire] = []
    async with asyncio.timeout(20):
        async for stored in look():
            found.append(stored)
            if len(found) == count:
                break
    return found


async def test_a_seal_stands_after_so_many_events_and_is_audited() -> None:
    keys = MemoryKeys()
    log, appender = await filled(25, keys=keys)
    sealer = Sealer(log, appender, clock=Time(), every_events=10)
    task = asyncio.create_task(sealer.run())
    found = await seals(log, 2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    through = [Codec(keys).decode(each).event.payload.model_dump()["through_seq"] for each in found]
    assert through == [10, 20]
    last_seq = (await log.info()).last_seq
    assert (await audit(log, through_seq=last_seq, codec=Codec(keys))).seal is not None
    events = [stored for seq in range(1, last_seq + 1) if (stored := await log.get(seq))]
    # The three newest titles before the seal end their chains there: only the seal speaks for them.
    wire = events[24].wire
    events[24] = replace(events[24], wire=replace(wire, headers={**wire.headers, "ce-actor": "x"}))
    await audit(ShownLog(events), through_seq=last_seq)
    wire = events[19].wire
    events[19] = replace(events[19], wire=replace(wire, headers={**wire.headers, "ce-actor": "x"}))
    with pytest.raises(LogRewritten):
        await audit(ShownLog(events), through_seq=last_seq)


async def test_a_seal_stands_after_an_hour_if_anything_happened() -> None:
    log, appender = await filled(3)
    clock = Time()
    task = asyncio.create_task(Sealer(log, appender, clock=clock).run())
    await asyncio.sleep(0)
    clock.now += timedelta(hours=2)
    await appender.execute(titled(conversation(), "later"))
    assert len(await seals(log, 1)) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Watched:
    """A watched log whose mark and reconnects the test sets."""

    def __init__(self, log: MemoryLog, keys: MemoryKeys) -> None:
        self.mark, self.reconnects, self.damage = (0, ""), 0, Damage()
        self.log = WatchedLog(
            log,
            log,
            self.damage,
            codec=Codec(keys),
            mark=lambda: self.mark,
            reconnects=lambda: self.reconnects,
        )


async def test_nothing_is_appended_after_a_reconnect_to_another_log() -> None:
    keys = MemoryKeys()
    log, _ = await filled(3, keys=keys)
    watched = Watched(log, keys)
    appender = Appender(log, Codec(keys), keys, clock=now, publisher=watched.log)
    await appender.execute(titled(conversation(), "before"))
    watched.mark, watched.reconnects = (9, "x"), 1
    for _ in range(2):
        with pytest.raises(LogRolledBack):
            await appender.execute(titled(conversation(), "after"))
    assert (await log.info()).last_seq == 4
    assert isinstance(await watched.damage.wait(), LogRolledBack)


async def test_a_reconnect_to_the_same_log_changes_nothing() -> None:
    keys = MemoryKeys()
    log, _ = await filled(3, keys=keys)
    third = await log.get(3)
    assert third is not None
    watched = Watched(log, keys)
    watched.mark, watched.reconnects = (3, third.wire.id), 5
    await watched.log.append([])
    assert watched.damage.error is None


async def test_the_whole_log_is_read_again_after_a_reconnect() -> None:
    events, keys = await events_of(12)
    watched = Watched(ShownLog(swapped(events)), keys)
    running = asyncio.create_task(watched.log.run(every_s=0.001))
    watched.reconnects = 1
    await asyncio.sleep(0)
    error = await asyncio.wait_for(watched.damage.wait(), 10)
    assert isinstance(error, LogRewritten)
    await asyncio.wait_for(running, 10)
    with pytest.raises(LogRewritten):
        await watched.log.append([Group(conversation(), 0, ())])
