"""Group commit: appends that wait at the same time share one atomic batch, and so one fsync."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from loreline.events.log import EventLog, Group
from loreline.schemas.errors import StaleAggregate
from loreline.schemas.ids import Aggregate


class GroupCommitter:
    """Sends appends that wait at the same time as one atomic batch: one fsync for all of them.

    A batch costs a server 20-40 ms whatever its size, so fewer than `threshold` waiting groups go
    one by one. When one group of a batch is stale, all of them go one by one.
    """

    def __init__(self, log: EventLog, *, threshold: int = 16, max_events: int = 900) -> None:
        self._log = log
        self._threshold = threshold
        self._max_events = max_events
        self._waiting: list[tuple[Group, asyncio.Future[list[int]]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        """Append; a request of several groups is atomic by itself and goes at once."""
        if len(groups) != 1 or len(groups[0].wires) > self._max_events:
            return await self._log.append(groups)
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append((groups[0], future))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._drain())
        return [await future]

    async def _drain(self) -> None:
        while self._waiting:
            taken = self._take()
            if len(taken) < self._threshold or not await self._send_together(taken):
                await asyncio.gather(*(self._send(group, future) for group, future in taken))

    def _take(self) -> list[tuple[Group, asyncio.Future[list[int]]]]:
        """As many waiting groups as fit in a batch, each aggregate once; the rest wait on."""
        taken, left, seen, size = [], [], set[Aggregate](), 0
        for group, future in self._waiting:
            fits = group.aggregate not in seen and size + len(group.wires) <= self._max_events
            if fits and not future.done():
                taken.append((group, future))
                seen.add(group.aggregate)
                size += len(group.wires)
            elif not future.done():
                left.append((group, future))
        self._waiting = left
        return taken

    async def _send_together(self, taken: Sequence[tuple[Group, asyncio.Future[list[int]]]]) -> bool:
        """One batch for all; False when it was refused whole and must be sent one by one."""
        try:
            sequences = await self._log.append([group for group, _ in taken])
        except StaleAggregate:
            return False
        except Exception as error:
            for _, future in taken:
                _fail(future, error)
            return True
        for (_, future), seqs in zip(taken, sequences, strict=True):
            if not future.done():
                future.set_result(seqs)
        return True

    async def _send(self, group: Group, future: asyncio.Future[list[int]]) -> None:
        try:
            (seqs,) = await self._log.append([group])
        except Exception as error:
            _fail(future, error)
        else:
            if not future.done():
                future.set_result(seqs)


def _fail(future: asyncio.Future[list[int]], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
