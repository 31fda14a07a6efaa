"""Server-sent events: framing, and a response that notices when nobody listens any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from loreline.events.tasks import end
from loreline.http_edge.errors import answer

KEEP_ALIVE_S = 15.0
MAX_WAITING = 256
"""Frames that wait for a slow reader before their source has to wait too."""


def frame(event: str, data: Any, *, id_: str | None = None) -> bytes:
    """One event as bytes."""
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode(
        "utf-8", "replace"
    )


class EventStream(StreamingResponse):
    """A response of frames; a comment keeps the connection alive through silences.

    The frames' source runs in a task of its own: a reader that goes away cancels it once, and what it
    then does to clean up is not cancelled again, as it would be inside the response.
    """

    media_type = "text/event-stream"

    def __init__(
        self, frames: AsyncGenerator[bytes, None], *, headers: Mapping[str, str] | None = None
    ) -> None:
        self._frames = frames
        self._lane: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_WAITING)
        shown = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__(self._chunks(), headers=shown)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send frames until they end or the reader goes away; then let the source clean up."""
        source = asyncio.create_task(self._run())
        await asyncio.sleep(0)  # a source that began is one that cleans up
        try:
            if scope["method"] == "HEAD":  # its answer ends with the head, whatever would follow
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b""})
                return
            await super().__call__(scope, receive, send)
        finally:
            await end(source)

    async def _run(self) -> None:
        """Put the frames on the lane; a failure after the 200 can only be told in-band."""
        try:
            async with aclosing(self._frames) as frames:
                async for each in frames:
                    await self._lane.put(each)
        except Exception as error:
            await self._lane.put(_failure(error))
        await self._lane.put(None)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    chunk = await self._lane.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if chunk is None:
                return
            yield chunk


def _failure(error: Exception) -> bytes:
    """The envelope's inside as an `error` frame."""
    body = json.loads(bytes(answer(error).body))
    return frame("error", body["error"])
