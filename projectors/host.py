"""The host of the views: one runner a view, and rebuilding, verifying and switching beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from loreline.events.envelope import Codec
from loreline.events.log import EventLog
from loreline.events.tasks import end
from loreline.projectors.rowhash import row_hash
from loreline.projectors.runner import ViewRunner
from loreline.projectors.store import ViewStore
from loreline.projectors.view import Checkpoint, View
from loreline.schemas.errors import DependencyDown, LogError, NotFound


@dataclass(frozen=True)
class Comparison:
    """A view beside one built from the beginning of the log, at the same sequence.

    Attributes:
        seconds: how long building took.
    """

    view: str
    seq: int
    live_hash: str
    fresh_hash: str
    n_rows: int
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Whether both hold the same rows."""
        return self.live_hash == self.fresh_hash


class ViewHost:
    """Feeds views, and builds them anew beside the ones that answer.

    on_damage: told of a LogError that halts a view.
    """

    def __init__(
        self,
        log: EventLog,
        codec: Codec,
        stores: Sequence[ViewStore],
        *,
        on_damage: Callable[[LogError], None] = lambda _: None,
    ) -> None:
        self._log = log
        self._on_damage = on_damage
        self._codec = codec
        self._stores = {store.name: store for store in stores}
        self._runners: dict[str, ViewRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._busy: dict[str, asyncio.Lock] = {store.name: asyncio.Lock() for store in stores}
        self._resumed: dict[str, asyncio.Event] = {}

    @property
    def runners(self) -> Mapping[str, ViewRunner]:
        """The running views by name."""
        return self._runners

    async def start(self) -> None:
        """Begin to feed every view; one whose shape is another program's is built anew first.

        Raises LogError when the log is not the one a view was made from.
        """
        for name, store in self._stores.items():
            live = await store.live()
            if live is not None and not await store.is_current(live):
                await self._build(store, max(await store.versions()) + 1, switch=True)
                live = await store.live()
            view = store.view(live or 1)
            with suppress(DependencyDown):  # its runner waits for it, and checks again
                await ViewRunner(view, self._log, self._codec).check()
            self._feed(name, view)

    async def stop(self) -> None:
        """Stop feeding."""
        for name in list(self._tasks):
            await self._pause(name)
            await self._runners[name].view.close()

    async def wait(self, seq: int, *, views: Sequence[str], timeout_s: float) -> bool:
        """Whether all of these views contain `seq` within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                return all(await asyncio.gather(*(self._wait(name, seq, timeout_s) for name in views)))
        except TimeoutError:
            return False

    async def _wait(self, name: str, seq: int, timeout_s: float) -> bool:
        """Wait for a view through the pauses of its rebuilding, each of which ends with another runner."""
        while True:
            runner = self._runners[name]
            if await runner.wait(seq, timeout_s=timeout_s):
                return True
            resumed = self._resumed.get(name)
            if runner.state != "stopped" or resumed is None:
                return False
            await resumed.wait()

    async def reread(self) -> None:
        """Have every view read anew where its store stands; whoever waits for a view waits for that too.

        For a store whose server ended: it may come back without its newest commits, and what a runner
        remembers is then more than the view contains.
        """
        await asyncio.gather(*(self._reread(name) for name in list(self._tasks)))

    async def _reread(self, name: str) -> None:
        async with self._busy[name]:
            runner = self._runners[name]
            if name not in self._tasks or runner.state == "halted":
                return
            task = self._tasks.pop(name)
            resumed = self._resumed[name] = asyncio.Event()
            fresh = self._runners[name] = self._runner(runner.view)  # at once: it contains nothing yet
            try:
                await end(task)
                await runner.stop()
            finally:
                self._run(name, fresh)
                resumed.set()

    async def rebuild(self, name: str, *, switch: bool = True) -> Comparison:
        """Build a view from the beginning beside the live one, compare, and let it answer."""
        store = self._store(name)
        async with self._busy[name]:
            versions = await store.versions()
            fresh = max(versions, default=0) + 1
            comparison = await self._build(store, fresh, switch=switch)
            live = await store.live()
            for old in [each for each in versions if each != live][:-1]:
                await store.drop(old)
        return comparison

    async def verify(self, name: str) -> Comparison:
        """Build a view beside the live one, compare, and drop it again."""
        store = self._store(name)
        async with self._busy[name]:
            fresh = max(await store.versions(), default=0) + 1
            try:
                return await self._build(store, fresh, switch=False)
            finally:
                await store.drop(fresh)

    def _store(self, name: str) -> ViewStore:
        if name not in self._stores:
            raise NotFound("view_not_found", f"there is no view {name}; views: {', '.join(self._stores)}")
        return self._stores[name]

    async def _build(self, store: ViewStore, version: int, *, switch: bool) -> Comparison:
        started = time.monotonic()
        await store.drop(version)  # what an interrupted building left
        fresh = store.view(version, bulk=True)
        try:
            runner = ViewRunner(fresh, self._log, self._codec, on_damage=self._on_damage)
            await runner.run_to((await self._log.info()).last_seq)
            await fresh.finish_load()
            async with self._paused(store.name) as live:
                at = await self._meet(live, runner)
                live_hash, _ = await row_hash(live.rows()) if live is not None else ("", 0)
                fresh_hash, n_rows = await row_hash(fresh.rows())
                if switch:
                    await store.switch(version)
        finally:
            await fresh.close()
        seconds = time.monotonic() - started
        return Comparison(store.name, at.seq, live_hash, fresh_hash, n_rows, seconds)

    async def _meet(self, live: View | None, runner: ViewRunner) -> Checkpoint:
        """Bring the live view, at rest, and the fresh one to the same sequence."""
        if live is None:
            return runner.at
        target = max((await live.checkpoint()).seq, runner.at.seq)
        catching_up = ViewRunner(live, self._log, self._codec, on_damage=self._on_damage)
        await catching_up.run_to(target)
        return await runner.run_to(target)

    @asynccontextmanager
    async def _paused(self, name: str) -> AsyncIterator[View | None]:
        """The live view with nobody feeding it; whichever version answers afterwards is fed again."""
        runner = self._runners.get(name)
        if runner is None:
            yield None
            return
        resumed = self._resumed[name] = asyncio.Event()
        await self._pause(name)
        try:
            yield runner.view
        finally:
            version = await self._stores[name].live()
            if version is None or version == runner.view.version:
                self._feed(name, runner.view)
            else:
                await runner.view.close()
                self._feed(name, self._stores[name].view(version))
            resumed.set()

    def _feed(self, name: str, view: View) -> None:
        self._runners[name] = self._runner(view)
        self._run(name, self._runners[name])

    def _runner(self, view: View) -> ViewRunner:
        return ViewRunner(view, self._log, self._codec, on_damage=self._on_damage)

    def _run(self, name: str, runner: ViewRunner) -> None:
        self._tasks[name] = asyncio.create_task(runner.run(), name=f"view-{name}")

    async def _pause(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            await end(task)
            await self._runners[name].stop()
