"""What a view is to the loop that feeds it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from loreline.events.envelope import Stored
from loreline.schemas.errors import LorelineError
from loreline.schemas.events.payload import Payload


class ViewTaken(LorelineError):
    """Another process moved this view's checkpoint and owns the view; only one may feed it."""


class ViewSetBack(LorelineError):
    """The store came back from a crash without its newest commits; the view goes on from what it holds."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last event a view contains; (0, "") before the first."""

    seq: int = 0
    event_id: str = ""


class Row(NamedTuple):
    """One row as the row hash sees it: its table, its key, and every column but the clocks."""

    table: str
    key: tuple[Any, ...]
    values: tuple[Any, ...]


class View(Protocol):
    """One version of a view in its store."""

    @property
    def name(self) -> str:
        """The view's name."""
        ...

    @property
    def version(self) -> int:
        """Which building of it this is, from 1."""
        ...

    async def open(self) -> None:
        """Make its tables if they are not there."""
        ...

    async def close(self) -> None:
        """Let go of what it holds open; `open` takes it up again."""
        ...

    async def checkpoint(self) -> Checkpoint:
        """Where it stands."""
        ...

    async def apply(self, events: Sequence[Stored[Payload]], *, after: Checkpoint) -> Checkpoint:
        """Take the next events in and move the checkpoint, both or neither.

        Raises ViewTaken when the checkpoint is beyond `after`, ViewSetBack when it is before it, and
        DependencyDown when the store is out of reach.
        """
        ...

    async def flush(self) -> None:
        """Store the checkpoint where `apply` only remembered it."""
        ...

    async def finish_load(self) -> None:
        """Build what is cheaper to build once all rows are in."""
        ...

    def rows(self) -> AsyncIterator[Row]:
        """Every row, in key order, table by table."""
        ...
