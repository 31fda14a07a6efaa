"""Server-sent events: framing, and a response that notices when nobody listens any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import StreamingResponse

KEEP_ALIVE_S = 15.0


def frame(event: str, data: Any, *, id_: str | None = None) -> bytes:
    """One event as bytes."""
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def event_stream(
    frames: AsyncGenerator[bytes, None], *, headers: Mapping[str, str] | None = None
) -> StreamingResponse:
    """A response of frames; a comment keeps the connection alive through silences."""
    return StreamingResponse(
        _kept_alive(frames),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})},
    )


async def _kept_alive(frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(frames):
        pending: asyncio.Future[bytes] | None = None
        try:
            while True:
                pending = pending or asyncio.ensure_future(anext(frames))
                done, _ = await asyncio.wait({pending}, timeout=KEEP_ALIVE_S)
                if not done:
                    yield b": still here\n\n"
                    continue
                try:
                    chunk = pending.result()
                except StopAsyncIteration:
                    return
                finally:
                    pending = None
                yield chunk
        finally:
            if pending is not None:
                pending.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
                    await pending
