"""The runner feeds a view on, also when its store came back from a crash with less than it was given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from loreline.events.append import Appender, Command
from loreline.events.envelope import Codec, Stored, StoredWire
from loreline.events.folds.conversation import CONVERSATION
from loreline.events.keys import MemoryKeys
from loreline.events.memory import MemoryLog
from loreline.projectors.runner import ViewRunner
from loreline.projectors.view import Checkpoint, Row, ViewSetBack, ViewTaken
from loreline.schemas.events.conversation import ConversationCreated
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import conversation_aggregate


class TickingLog(MemoryLog):
    """A log whose follower is told again and again that there is nothing new, as a real one is."""

    async def follow(
        self, *, after_seq: int, filters: Sequence[str] = (), name: str | None = None
    ) -> AsyncGenerator[list[StoredWire], None]:
        while True:
            stored = await self.get(after_seq + 1)
            yield [] if stored is None else [stored]
            after_seq += stored is not None
            await asyncio.sleep(0)


class CrashingView:
    """A view that can forget its newest events, as a database does that did not wait for its disk."""

    name, version = "crashing", 1

    def __init__(self) -> None:
        self.held: list[Checkpoint] = []

    def crash(self, *, keeps: int) -> None:
        del self.held[keeps:]

    async def open(self) -> None:
        return None

    async def checkpoint(self) -> Checkpoint:
        return self.held[-1] if self.held else Checkpoint()

    async def apply(self, events: Sequence[Stored[Payload]], *, after: Checkpoint) -> Checkpoint:
        held = await self.checkpoint()
        if held != after:
            raise ViewSetBack("set back") if held.seq < after.seq else ViewTaken("taken")
        self.held += [Checkpoint(each.seq, str(each.event.id)) for each in events]
        return self.held[-1]

    async def flush(self) -> None:
        return None

    async def finish_load(self) -> None:
        return None

    async def close(self) -> None:
        return None

    async def rows(self) -> AsyncIterator[Row]:
        for each in self.held:
            yield Row("held", (each.seq,), ())


@asynccontextmanager
async def fed(log: MemoryLog, view: CrashingView) -> AsyncIterator[tuple[Appender, ViewRunner]]:
    keys = MemoryKeys()
    codec = Codec(keys)
    runner = ViewRunner(view, log, codec, retry_s=0.0)
    feeding = asyncio.create_task(runner.run())
    try:
        yield Appender(log, codec, keys, clock=lambda: datetime.now(UTC)), runner
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)


async def append(appender: Appender, *, n: int) -> None:
    for _ in range(n):
        aggregate = conversation_aggregate(str(uuid4()))
        command = Command(aggregate, CONVERSATION, uuid4(), lambda _: [ConversationCreated()], actor="test")
        await appender.execute(command)


@pytest.mark.parametrize("keeps", [0, 3])
async def test_a_view_that_lost_its_newest_events_is_fed_again_with_the_next_one(keeps: int) -> None:
    view = CrashingView()
    async with fed(MemoryLog(), view) as (appender, runner):
        await append(appender, n=5)
        assert await runner.wait(5, timeout_s=5)
        view.crash(keeps=keeps)
        await append(appender, n=1)
        assert await runner.wait(6, timeout_s=5)
        assert [each.seq for each in view.held] == [1, 2, 3, 4, 5, 6]


async def test_a_view_that_lost_its_newest_events_is_fed_again_though_nothing_new_happens() -> None:
    view = CrashingView()
    async with fed(TickingLog(), view) as (appender, runner):
        await append(appender, n=5)
        assert await runner.wait(5, timeout_s=5)
        view.crash(keeps=2)
        async with asyncio.timeout(5):
            while len(view.held) < 5:
                await asyncio.sleep(0)
        assert [each.seq for each in view.held] == [1, 2, 3, 4, 5]


async def test_a_view_that_another_process_feeds_is_left_alone() -> None:
    view = CrashingView()
    async with fed(MemoryLog(), view) as (appender, runner):
        await append(appender, n=1)
        assert await runner.wait(1, timeout_s=5)
        view.held.append(Checkpoint(7, "another's"))
        await append(appender, n=1)
        assert not await runner.wait(2, timeout_s=5)
        assert (runner.state, runner.reason) == ("halted", "taken")
