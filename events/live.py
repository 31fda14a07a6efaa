"""Live frames: what is happening now. Core publishes on `live.frame.<topic>`, kept an hour in memory.

Nothing depends on a frame arriving: whoever misses one finds the outcome in the log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from loreline.events.topology import LIVE_STREAM
from loreline.schemas.errors import DependencyDown

Frame = dict[str, Any]
Heard = asyncio.Queue[tuple[str, Frame]]
"""(topic, frame) as they come."""

_READ_BATCH = 500
_FLUSH_S = 5


class Live(Protocol):
    """Ephemeral frames by topic; topics are dotted tokens such as `turn.<uuid>`."""

    async def publish(self, topic: str, frame: Frame) -> None:
        """Send a frame to whoever listens now. Never raises for want of a listener."""
        ...

    def listen(self, topic: str) -> AbstractAsyncContextManager[Heard]:
        """A queue of the frames that match from now on; wildcards allowed. Raises DependencyDown."""
        ...

    async def recall(self, topic: str) -> list[Frame]:
        """The frames of a topic that are still kept, in order."""
        ...


class MemoryLive:
    """Frames inside one process; for tests."""

    def __init__(self, matches: Callable[[str, str], bool]) -> None:
        self._matches = matches
        self._queues: list[tuple[str, Heard]] = []
        self._kept: list[tuple[str, Frame]] = []

    async def publish(self, topic: str, frame: Frame) -> None:
        """Send a frame to whoever listens now."""
        self._kept.append((topic, frame))
        for pattern, queue in self._queues:
            if self._matches(pattern, topic):
                queue.put_nowait((topic, frame))

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[Heard]:
        """A queue of the frames that match from now on."""
        entry: tuple[str, Heard] = (topic, asyncio.Queue())
        self._queues.append(entry)
        try:
            yield entry[1]
        finally:
            self._queues.remove(entry)

    async def recall(self, topic: str) -> list[Frame]:
        """The frames of a topic, in order."""
        return [frame for kept, frame in self._kept if kept == topic]


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
    async def listen(self, topic: str) -> AsyncIterator[Heard]:
        """A queue of the frames that match from now on; in force at the server when this returns."""
        queue: Heard = asyncio.Queue()

        async def take(message: Msg) -> None:
            with suppress(ValueError):  # what is no JSON is no frame
                queue.put_nowait((message.subject.removeprefix(self.PREFIX), json.loads(message.data)))

        subscription = await self._listening(topic, take)
        try:
            yield queue
        finally:
            with suppress(nats.errors.Error):  # the connection took the subscription with it
                await subscription.unsubscribe()

    async def _listening(self, topic: str, take: Callable[[Msg], Awaitable[None]]) -> Subscription:
        """A subscription the server knows of. Raises DependencyDown."""
        subscription: Subscription | None = None
        try:
            subscription = await self._nats.subscribe(self.PREFIX + topic, cb=take)
            await self._nats.flush(timeout=_FLUSH_S)
        except (nats.errors.Error, OSError) as error:
            if subscription is not None:
                with suppress(nats.errors.Error):
                    await subscription.unsubscribe()
            raise DependencyDown("nats", f"nats does not answer: {error}") from error
        return subscription

    async def recall(self, topic: str) -> list[Frame]:
        """The frames of a topic that the stream LIVE still keeps, in order; none if it cannot say."""
        inbox = self._nats.new_inbox()
        subscription = await self._nats.subscribe(inbox)
        frames: list[Frame] = []
        query = {"seq": 1, "next_by_subj": self.PREFIX + topic, "batch": _READ_BATCH}
        try:
            subject = f"$JS.API.DIRECT.GET.{LIVE_STREAM}"
            while True:
                await self._nats.publish(subject, json.dumps(query).encode(), reply=inbox)
                more = False
                while "Status" not in ((message := await subscription.next_msg(timeout=2)).headers or {}):
                    headers = message.headers or {}
                    query["seq"], more = int(headers["Nats-Sequence"]) + 1, True
                    frames.append(json.loads(message.data))
                if not more:
                    return frames
        except (nats.errors.Error, TimeoutError, OSError, ValueError):
            return frames
        finally:
            with suppress(nats.errors.Error):  # the connection took the subscription with it
                await subscription.unsubscribe()
