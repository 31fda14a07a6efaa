"""A running turn as its reader sees it: frames from LIVE, the outcome from the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from loreline.events.envelope import Stored
from loreline.events.tasks import end
from loreline.http_edge.ports import Edge
from loreline.http_edge.sse import frame
from loreline.processors.chat.frames import control_topic, frames_topic
from loreline.projectors.reads import CONVERSATIONS
from loreline.schemas.events import conversation as events
from loreline.schemas.events.app import EventParked
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate

LISTED_WITHIN_S = 1.0
SIGN_OF_LIFE_S = 3.0
"""Longest silence of a reader; shorter when CHAT_ABANDON_S is, so that a reader is never taken for gone."""
PARKED = "lore.app.deadletter.*.parked"
FRAME_KEYS = frozenset({"attempt", "n", "event", "data"})


@dataclass(frozen=True)
class Reading:
    """A reader of one turn.

    Attributes:
        asked_seq, asked: sequence and id of the question's event; its outcome comes after it.
        seen: (attempt, number) of the last frame the reader has, (0, 0) for none.
    """

    conversation: Aggregate
    turn: UUID
    asked_seq: int
    asked: UUID
    seen: tuple[int, int] = (0, 0)


class TurnStream:
    """Frames of a turn in order, then `done` or `error`; says that somebody reads while it is read.

    abandon_s: after how long without a reader the turn is stopped; 0: as soon as this one goes away.
    """

    def __init__(self, edge: Edge, turn: UUID, *, abandon_s: float) -> None:
        self._edge = edge
        self._turn = turn
        self._abandon_s = abandon_s
        self._seen = (0, 0)
        self._stack = AsyncExitStack()
        self._queue: asyncio.Queue[tuple[Literal["frame", "end", "failed"], Any]] = asyncio.Queue()
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
        await end(*self._tasks)
        await self._stack.aclose()

    async def frames(self, reading: Reading, earlier: Sequence[Any] = ()) -> AsyncGenerator[bytes, None]:
        """The frames as bytes; `earlier` are those already published, for a reader that comes late."""
        self._seen = reading.seen
        self._tasks.append(asyncio.create_task(self._outcome(reading)))
        self._tasks.append(asyncio.create_task(self._signs_of_life()))
        ended = False
        try:
            for shown in self._unseen(earlier):
                yield shown
            while not ended:
                kind, value = await self._queue.get()
                if kind == "frame":
                    for shown in self._unseen([value]):
                        yield shown
                    continue
                ended = True
                if kind == "failed":
                    raise value
                for shown in self._unseen(await self._rest()):
                    yield shown
                yield value
        finally:
            await self.close()
            if not ended and self._abandon_s == 0:
                await self._edge.live.publish(control_topic(self._turn), {"stop": True})

    def _unseen(self, sent: Iterable[Any]) -> Iterator[bytes]:
        """Those frames that the reader does not have, as bytes. What is no frame is passed over."""
        for each in sent:
            if not isinstance(each, dict) or not each.keys() >= FRAME_KEYS:
                continue
            attempt, number = each["attempt"], each["n"]
            if (attempt, number) > self._seen:
                self._seen = (attempt, number)
                yield frame(each["event"], each["data"], id_=f"{attempt}-{number}")

    async def _rest(self) -> list[Any]:
        """Frames that the outcome overtook, or that were lost on the way."""
        waiting = []
        while not self._queue.empty():
            kind, value = self._queue.get_nowait()
            if kind == "frame":
                waiting.append(value)
        return waiting + await self._edge.live.recall(frames_topic(self._turn))

    async def _outcome(self, reading: Reading) -> None:
        """Wait for the turn's outcome in the log, where it is whether or not a frame was lost."""
        try:
            filters = [reading.conversation.wildcard, PARKED]
            follow = self._edge.log.follow(after_seq=reading.asked_seq, filters=filters)
            async with aclosing(follow) as batches:
                async for batch in batches:
                    for sealed in batch:
                        ending = _ending(self._edge.codec.decode(sealed), reading)
                        if ending is not None:
                            # Who reads the transcript next, finds the turn in it.
                            await self._edge.wait(sealed.seq, (CONVERSATIONS,), timeout_s=LISTED_WITHIN_S)
                            self._queue.put_nowait(("end", ending))
                            return
        except Exception as error:
            self._queue.put_nowait(("failed", error))

    async def _signs_of_life(self) -> None:
        every_s = min(SIGN_OF_LIFE_S, self._abandon_s / 4) if self._abandon_s else SIGN_OF_LIFE_S
        while True:
            await self._edge.live.publish(control_topic(self._turn), {"reading": True})
            await asyncio.sleep(every_s)


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
        case EventParked() if payload.event == reading.asked:
            message = f"the question was given up after {payload.attempts} tries: {payload.private.error}"
            return frame("error", {"code": "pipeline_error", "message": message})
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
