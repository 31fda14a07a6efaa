"""The EventLog port: what the rest of the house needs of the log. Adapters: `memory`, `jetstream`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from loreline.events.envelope import StoredWire, Wire
from loreline.schemas.ids import Aggregate


@dataclass(frozen=True, slots=True)
class Group:
    """Events of one aggregate to append together.

    Attributes:
        expected_seq: sequence of the aggregate's last event as the decision saw it; 0 for none.
    """

    aggregate: Aggregate
    expected_seq: int
    wires: tuple[Wire, ...]


@dataclass(frozen=True, slots=True)
class LogInfo:
    """The state of the log.

    Attributes:
        last_seq: sequence of the newest event; 0 when empty.
        n_events: events held; differs from `last_seq` only when some are missing.
        max_bytes: the size at which appends are refused; -1 for none.
    """

    first_seq: int
    last_seq: int
    n_events: int
    n_deleted: int
    size_bytes: int
    max_bytes: int


class EventLog(Protocol):
    """An append-only, totally ordered log with optimistic concurrency per aggregate."""

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        """Append all groups or none; returns the sequences, group by group.

        Raises StaleAggregate when an expectation no longer holds, AppendUncertain when it is not
        known whether the events were stored, LogFull, DependencyDown. At most 1,000 events.
        """
        ...

    async def read(
        self, aggregate: Aggregate, *, after_seq: int = 0, leader: bool = False
    ) -> list[StoredWire]:
        """The aggregate's events after a sequence, in order.

        leader: ask the stream's leader, which has seen every acknowledged append.
        """
        ...

    async def get(self, seq: int) -> StoredWire | None:
        """The event at a sequence, None if there is none."""
        ...

    async def last(self, subject: str) -> StoredWire | None:
        """The newest event on a subject (wildcards allowed), None if there is none."""
        ...

    async def info(self) -> LogInfo:
        """The log's state."""
        ...

    def follow(
        self, *, after_seq: int, filters: Sequence[str] = (), name: str | None = None
    ) -> AsyncGenerator[list[StoredWire], None]:
        """Events after a sequence in order, in batches as they come, for ever.

        An empty batch means: nothing newer at this moment. Unfiltered, a missing sequence raises
        LogHole and a log that ends before `after_seq` LogRolledBack; reconnects heal by themselves.
        name: a durable consumer of the caller's own; None for one that goes with the iterator.
        """
        ...
