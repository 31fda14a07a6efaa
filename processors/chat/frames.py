"""Frames of a running turn: what the chat processor says on LIVE, and how an edge asks it to stop."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from loreline.events.live import Live


def frames_topic(turn: UUID) -> str:
    """Where a turn's frames are published."""
    return f"turn.{turn}"


def control_topic(turn: UUID) -> str:
    """Where readers of a turn say that they are there, or that it must stop."""
    return f"control.{turn}"


@dataclass
class FrameWriter:
    """Publishes a turn's frames, numbered from 1 within an attempt."""

    live: Live
    turn: UUID
    attempt: int
    number: int = 0

    async def send(self, event: str, data: dict[str, Any]) -> None:
        """Publish one frame."""
        self.number += 1
        frame = {"attempt": self.attempt, "n": self.number, "event": event, "data": data}
        await self.live.publish(frames_topic(self.turn), frame)


@dataclass
class StatsThrottle:
    """Lets a throughput reading through at most four times a second, and none before it has settled.

    A server's first readings are absurd: none is shown before 8 tokens are decoded.
    """

    every_s: float = 0.25
    warm_up_tokens: int = 8
    clock: Any = field(default=time.monotonic)
    _last_s: float | None = None

    def lets(self, completion_tokens: int) -> bool:
        """Whether this reading is shown."""
        now = self.clock()
        if completion_tokens < self.warm_up_tokens:
            return False
        if self._last_s is not None and now - self._last_s < self.every_s:
            return False
        self._last_s = now
        return True
