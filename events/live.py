"""Live frames: what is happening now. Core publishes on `live.frame.<topic>`, kept an hour in memory.

Nothing depends on a frame arriving: whoever misses one finds the outcome in the log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

Frame = dict[str, Any]


class Live(Protocol):
    """Ephemeral frames by topic; topics are dotted tokens such as `turn.<uuid>`."""

    async def publish(self, topic: str, frame: Frame) -> None:
        """Send a frame to whoever listens now. Never raises for want of a listener."""
        ...

    def listen(self, topic: str) -> Any:
        """An async context manager that yields a queue of (topic, frame); wildcards allowed."""
        ...


class MemoryLive:
    """Frames inside one process; for tests."""

    def __init__(self, matches: Callable[[str, str], bool]) -> None:
        self._matches = matches
        self._queues: list[tuple[str, asyncio.Queue[tuple[str, Frame]]]] = []

    async def publish(self, topic: str, frame: Frame) -> None:
        """Send a frame to whoever listens now."""
        for pattern, queue in self._queues:
            if self._matches(pattern, topic):
                queue.put_nowait((topic, frame))

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[asyncio.Queue[tuple[str, Frame]]]:
        """A queue of the frames that match from now on."""
        entry = (topic, asyncio.Queue[tuple[str, Frame]]())
        self._queues.append(entry)
        try:
            yield entry[1]
        finally:
            self._queues.remove(entry)


class NatsLive:
    """Frames over NATS: every process hears them."""

    PREFIX = "live.frame."

    def __init__(self, connection: Client) -> None:
        self._nats = connection

    async def publish(self, topic: str, frame: Frame) -> None:
        """Send a frame to whoever listens now. A broken connection loses it, by design."""
        try:
            await self._nats.publish(self.PREFIX + topic, json.dumps(frame).encode())
        except (nats.errors.Error, OSError):
            return

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[asyncio.Queue[tuple[str, Frame]]]:
        """A queue of the frames that match from now on; in force at the server when this returns."""
        queue: asyncio.Queue[tuple[str, Frame]] = asyncio.Queue()

        async def take(message: Msg) -> None:
            queue.put_nowait((message.subject.removeprefix(self.PREFIX), json.loads(message.data)))

        subscription = await self._nats.subscribe(self.PREFIX + topic, cb=take)
        try:
            await self._nats.flush()
            yield queue
        finally:
            with suppress(nats.errors.Error):  # the connection took the subscription with it
                await subscription.unsubscribe()
