"""A running turn as its reader sees it: frames from LIVE, the outcome from the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from loreline.events.envelope import Stored
from loreline.http_edge.ports import Edge
from loreline.http_edge.sse import frame
from loreline.processors.chat.frames import control_topic, frames_topic
from loreline.schemas.events import conversation as events
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate

SIGN_OF_LIFE_S = 3.0
FRAME_KEYS = frozenset({"attempt", "n", "event", "data"})


@dataclass(frozen=True)
class Reading:
    """A reader of one turn.

    Attributes:
        after_seq: where in the log to look for the outcome from.
        seen: (attempt, number) of the last frame the reader has, (0, 0) for none.
    """

    conversation: Aggregate
    turn: UUID
    after_seq: int
    seen: tuple[int, int] = (0, 0)


class TurnStream:
    """Frames of a turn in order, then `done` or `error`; says that somebody reads while it is read."""

    def __init__(self, edge: Edge, turn: UUID) -> None:
        self._edge = edge
        self._turn = turn
        self._stack = AsyncExitStack()
        self._queue: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self) -> None:
        """Begin to collect frames: before the question is asked, so that none is missed."""
        topic = frames_topic(self._turn)
        live = await self._stack.enter_async_context(self._edge.live.listen(topic))

        async def collect() -> None:
            while True:
                _, sent = await live.get()
                self._queue.put_nowait(("frame", sent))

        self._tasks.append(asyncio.create_task(collect()))

    async def close(self) -> None:
        """Stop collecting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def frames(self, reading: Reading, earlier: Sequence[Any] = ()) -> AsyncGenerator[bytes, None]:
        """The frames as bytes; `earlier` are those already published, for a reader that comes late."""
        self._tasks.append(asyncio.create_task(self._outcome(reading)))
        self._tasks.append(asyncio.create_task(self._signs_of_life()))
        seen, ended = reading.seen, False
        try:
            for sent in earlier:
                if (shown := _shown(sent, seen)) is not None:
                    seen = (sent["attempt"], sent["n"])
                    yield shown
            while not ended:
                kind, value = await self._queue.get()
                if kind == "frame":
                    if (shown := _shown(value, seen)) is not None:
                        seen = (value["attempt"], value["n"])
                        yield shown
                else:
                    ended = True
                    yield value
        finally:
            await self.close()
            if not ended:
                await self._left()

    async def _left(self) -> None:
        """A reader went away before the end: with CHAT_ABANDON_S=0 that stops the turn at once."""
        settings = await self._edge.settings()
        if settings.chat.abandon_s == 0:
            await self._edge.live.publish(control_topic(self._turn), {"stop": True})

    async def _outcome(self, reading: Reading) -> None:
        """Wait for the turn's outcome in the log, where it is whether or not a frame was lost."""
        follow = self._edge.log.follow(after_seq=reading.after_seq, filters=[reading.conversation.wildcard])
        async with aclosing(follow) as batches:
            async for batch in batches:
                for sealed in batch:
                    ending = _ending(self._edge.codec.decode(sealed), reading)
                    if ending is not None:
                        await asyncio.sleep(0)  # frames that are here already go first
                        self._queue.put_nowait(("end", ending))
                        return

    async def _signs_of_life(self) -> None:
        while True:
            await self._edge.live.publish(control_topic(self._turn), {"reading": True})
            await asyncio.sleep(SIGN_OF_LIFE_S)


def _shown(sent: Any, seen: tuple[int, int]) -> bytes | None:
    """A frame as bytes; None for one that was seen, or is none (LIVE is not to be trusted)."""
    if not isinstance(sent, dict) or not sent.keys() >= FRAME_KEYS:
        return None
    place = (sent["attempt"], sent["n"])
    return frame(sent["event"], sent["data"], id_=f"{place[0]}-{place[1]}") if place > seen else None


def _ending(stored: Stored[Payload], reading: Reading) -> bytes | None:
    """The last frame of the turn, if this event ends it."""
    payload = stored.event.payload
    match payload:
        case events.TurnAnswered() if payload.turn == reading.turn:
            return frame("done", done(payload, reading.conversation.id, stored.seq))
        case events.TurnFailed() if payload.turn == reading.turn:
            return frame("error", {"code": payload.code, "message": payload.private.reason})
        case events.TurnAborted() if payload.turn == reading.turn:
            return frame("error", {"code": "aborted", "message": f"the turn was stopped ({payload.cause})"})
        case events.ConversationDeleted():
            return frame("error", {"code": "aborted", "message": "the conversation was deleted"})
    return None


def done(payload: events.TurnAnswered, conversation_id: str, seq: int) -> dict[str, Any]:
    """The `done` frame: ids, the authoritative answer, its checked citations, and what it cost."""
    latency = payload.latency_ms
    return {
        "message_id": str(payload.assistant_message),
        "conversation_id": conversation_id,
        "turn_id": str(payload.turn),
        "answer": payload.private.answer,
        "found": payload.found,
        "answered_by": payload.answered_by,
        "citations": [each.model_dump(mode="json") for each in payload.private.citations],
        "dropped_marks": list(payload.private.dropped_marks),
        "log_seq": seq,
        "usage": {
            "prompt_tokens": payload.prompt_tokens,
            "completion_tokens": payload.completion_tokens,
            "tokens_per_second": payload.tokens_per_second,
            "latency_ms": {
                "retrieval": latency.retrieval,
                "generation": latency.generation,
                "total": latency.total,
            },
        },
    }
