"""What a stage is: a name, the events it is handed, and an async function from an event to commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.topology import StageConsumer
from loreline.schemas.events.payload import Payload

Commands = Sequence[Command[Any]]
StageFunction = Callable[[Stored[Payload], int], Awaitable[Commands]]
"""From an event, and which delivery of it this is, to the decisions it leads to."""

RELEASED = "lore.app.deadletter.*.released"
"""A released parked event goes to every stage; only the one that parked it works on it."""


@dataclass(frozen=True)
class Stage:
    """One row of the stage table.

    Attributes:
        name: also the durable's name and the actor of what it appends.
        subjects: the events it is handed.
        run: works on one event (and its delivery's number, from 1) and returns the decisions to
            append. It may raise DependencyDown (waits, never counts), DocumentError is its own to
            turn into an event, and anything else is a failure, tried again and parked in the end.
        parallelism: events in work at once.
    """

    name: str
    subjects: tuple[str, ...]
    run: StageFunction
    parallelism: int = 1

    @property
    def actor(self) -> str:
        """Who its events say appended them."""
        return f"stage.{self.name}"

    def consumer(self, *, ack_wait_s: float, start_seq: int | None = None) -> StageConsumer:
        """Its durable as a value."""
        return StageConsumer(self.name, (*self.subjects, RELEASED), self.parallelism, ack_wait_s, start_seq)
