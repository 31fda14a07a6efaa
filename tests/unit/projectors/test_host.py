"""The host: who waits for a view waits for what the view really contains."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from tests.unit.projectors.test_runner import CrashingView, append

from loreline.events.append import Appender
from loreline.events.envelope import Codec
from loreline.events.keys import MemoryKeys
from loreline.events.memory import MemoryLog
from loreline.projectors.host import ViewHost
from loreline.projectors.view import Checkpoint, View


class OneView:
    """A store of one view with one version."""

    name = CrashingView.name

    def __init__(self, view: View) -> None:
        self._view = view

    def view(self, version: int, *, bulk: bool = False) -> View:
        return self._view

    async def versions(self) -> list[int]:
        return [1]

    async def live(self) -> int | None:
        return 1

    async def is_current(self, version: int) -> bool:
        return True

    async def switch(self, version: int) -> None:
        return None

    async def drop(self, version: int) -> None:
        return None


class GatedView(CrashingView):
    """A view whose store cannot be asked while the gate is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def checkpoint(self) -> Checkpoint:
        await self.gate.wait()
        return await super().checkpoint()


async def test_what_a_crash_of_the_store_undid_is_not_taken_for_contained() -> None:
    log, keys, view = MemoryLog(), MemoryKeys(), GatedView()
    codec = Codec(keys)
    appender = Appender(log, codec, keys, clock=lambda: datetime.now(UTC))
    host = ViewHost(log, codec, [OneView(view)])
    await host.start()
    await append(appender, n=5)
    assert await host.wait(5, views=[view.name], timeout_s=5)
    view.crash(keeps=2)
    view.gate.clear()
    rereading = asyncio.create_task(host.reread())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting = asyncio.create_task(host.wait(5, views=[view.name], timeout_s=5))
    await rereading
    assert not waiting.done()
    assert host.runners[view.name].at == Checkpoint()
    view.gate.set()
    assert await waiting
    assert [each.seq for each in view.held] == [1, 2, 3, 4, 5]
    await host.stop()
