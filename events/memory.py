"""The log in memory: the contract without a server, for tests of pure logic and throw-away stacks."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence

from loreline.events.envelope import StoredWire
from loreline.events.log import Group, LogInfo
from loreline.events.topology import MAX_EVENT_BYTES
from loreline.schemas.errors import AppendUncertain, LogError, LogFull, LogRolledBack, StaleAggregate
from loreline.schemas.ids import Aggregate

MAX_BATCH = 1000
_WILDCARDS = {"*": "[^.]+", ">": ".+"}


def subject_pattern(subject: str) -> re.Pattern[str]:
    """A NATS subject filter as a regular expression: `*` one token, `>` the rest."""
    parts = [_WILDCARDS.get(part) or re.escape(part) for part in subject.split(".")]
    return re.compile(r"\.".join(parts) + r"\Z")


class MemoryLog:
    """An EventLog in a list. One event loop at a time.

    max_bytes: where appends are refused; -1 for never.
    """

    def __init__(self, *, max_bytes: int = -1) -> None:
        self._events: list[StoredWire] = []
        self._ids: set[str] = set()
        self._size = 0
        self._max_bytes = max_bytes
        self._grown = asyncio.Event()

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        """Append all groups or none; see EventLog."""
        wires = [wire for group in groups for wire in group.wires]
        if len(wires) > MAX_BATCH:
            raise ValueError(f"{len(wires)} events in one append; at most {MAX_BATCH}")
        for group in groups:
            if (await self._last_seq(group.aggregate)) != group.expected_seq:
                raise StaleAggregate(f"{group.aggregate} moved past sequence {group.expected_seq}")
        if any(wire.id in self._ids for wire in wires) or len({wire.id for wire in wires}) < len(wires):
            raise AppendUncertain("an event of this append is in the log already")
        size = sum(len(wire.body) for wire in wires)
        if any(len(wire.body) > MAX_EVENT_BYTES for wire in wires):
            raise LogError(f"an event is larger than {MAX_EVENT_BYTES} bytes; put its bytes in a blob")
        if 0 <= self._max_bytes < self._size + size:
            raise LogFull("the log is full; raise its size limit, then retry")
        out: list[list[int]] = []
        for group in groups:
            out.append([])
            for wire in group.wires:
                self._events.append(StoredWire(len(self._events) + 1, wire))
                self._ids.add(wire.id)
                out[-1].append(len(self._events))
        self._size += size
        self._grown.set()
        self._grown = asyncio.Event()
        return out

    async def read(
        self, aggregate: Aggregate, *, after_seq: int = 0, leader: bool = False
    ) -> list[StoredWire]:
        """The aggregate's events after a sequence; see EventLog."""
        pattern = subject_pattern(aggregate.wildcard)
        return [stored for stored in self._events[after_seq:] if pattern.match(stored.wire.subject)]

    async def get(self, seq: int) -> StoredWire | None:
        """The event at a sequence, None if there is none."""
        return self._events[seq - 1] if 1 <= seq <= len(self._events) else None

    async def last(self, subject: str) -> StoredWire | None:
        """The newest event on a subject, None if there is none."""
        pattern = subject_pattern(subject)
        return next((stored for stored in reversed(self._events) if pattern.match(stored.wire.subject)), None)

    async def info(self) -> LogInfo:
        """The log's state."""
        n = len(self._events)
        return LogInfo(min(1, n), n, n, 0, self._size, self._max_bytes)

    async def follow(
        self, *, after_seq: int, filters: Sequence[str] = (), name: str | None = None
    ) -> AsyncGenerator[list[StoredWire], None]:
        """Events after a sequence, for ever; see EventLog."""
        if after_seq > len(self._events):
            raise LogRolledBack(
                f"the log ends at {len(self._events)}, before sequence {after_seq}; restore it from a backup"
            )
        patterns = [subject_pattern(subject) for subject in filters]
        while True:
            grown, batch = self._grown, self._events[after_seq : after_seq + 500]
            after_seq += len(batch)
            if patterns:
                batch = [each for each in batch if any(p.match(each.wire.subject) for p in patterns)]
            if batch:
                yield batch
            if after_seq == len(self._events):
                yield []
                await grown.wait()

    async def _last_seq(self, aggregate: Aggregate) -> int:
        stored = await self.last(aggregate.wildcard)
        return stored.seq if stored else 0
