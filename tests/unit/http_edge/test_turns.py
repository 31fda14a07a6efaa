"""What ends the stream of a turn, and what goes before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from loreline.events.envelope import Event, Stored
from loreline.events.live import MemoryLive
from loreline.http_edge.ports import Edge
from loreline.http_edge.turns import Reading, TurnStream
from loreline.processors.chat.frames import control_topic, frames_topic
from loreline.schemas.errors import LogHole
from loreline.schemas.events import app, conversation
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate, conversation_aggregate

TURN, ASKED = UUID(int=1), UUID(int=2)
CONVERSATION = conversation_aggregate(str(UUID(int=3)))
READING = Reading(CONVERSATION, TURN, asked_seq=7, asked=ASKED)


def stored(payload: Payload, aggregate: Aggregate = CONVERSATION) -> Stored[Payload]:
    event = Event(
        id=uuid4(),
        type="any",
        aggregate=aggregate,
        time=datetime(2030, 1, 1, tzinfo=UTC),
        correlation=TURN,
        causation=None,
        actor="test",
        prev="",
        payload=payload,
    )
    return Stored(8, event, "")


@dataclass
class World:
    """An edge of frames in memory and a log that says what the test gives it."""

    live: MemoryLive = field(default_factory=lambda: MemoryLive(lambda pattern, topic: pattern == topic))
    said: asyncio.Queue[Stored[Payload] | Exception] = field(default_factory=asyncio.Queue)
    asked_for: list[tuple[int, Sequence[str]]] = field(default_factory=list)

    @property
    def log(self) -> World:
        return self

    @property
    def codec(self) -> World:
        return self

    def decode(self, each: Stored[Payload]) -> Stored[Payload]:
        return each

    async def wait(self, seq: int, views: Sequence[str], *, timeout_s: float) -> bool:
        return True

    async def follow(
        self, *, after_seq: int, filters: Sequence[str]
    ) -> AsyncGenerator[list[Stored[Payload]], None]:
        self.asked_for.append((after_seq, filters))
        while True:
            each = await self.said.get()
            if isinstance(each, Exception):
                raise each
            yield [each]

    async def publish(self, attempt: int, number: int, delta: str) -> None:
        sent = {"attempt": attempt, "n": number, "event": "token", "data": {"delta": delta}}
        await self.live.publish(frames_topic(TURN), sent)


def shown(frames: Sequence[bytes]) -> list[tuple[str | None, str, Any]]:
    found = []
    for each in frames:
        lines = dict(line.split(": ", 1) for line in each.decode().strip().split("\n"))
        found.append((lines.get("id"), lines["event"], json.loads(lines["data"])))
    return found


async def read(world: World, reading: Reading = READING, *, abandon_s: float = 15) -> list[Any]:
    stream = TurnStream(cast("Edge", world), TURN, abandon_s=abandon_s)
    await stream.listen()
    return shown([each async for each in stream.frames(reading)])


FAILED = stored(
    conversation.TurnFailed(turn=TURN, attempt=1, code="x", private=conversation.TurnError(reason="no"))
)


async def test_frames_the_outcome_overtook_go_before_it_and_none_twice() -> None:
    world = World()
    await world.publish(1, 1, "a")
    await world.publish(1, 2, "b")
    world.said.put_nowait(FAILED)
    frames = await read(world)
    assert [each[0] for each in frames] == ["1-1", "1-2", None]
    assert frames[-1][1:] == ("error", {"code": "x", "message": "no"})


async def test_only_what_the_reader_lacks_is_sent() -> None:
    world = World()
    for attempt, number in ((1, 1), (1, 2), (2, 1)):
        await world.publish(attempt, number, "a")
    world.said.put_nowait(FAILED)
    frames = await read(world, Reading(CONVERSATION, TURN, 7, ASKED, seen=(1, 1)))
    assert [each[0] for each in frames] == ["1-2", "2-1", None]


async def test_the_outcome_of_another_turn_ends_nothing_and_what_is_no_frame_is_passed_over() -> None:
    world = World()
    other = conversation.TurnAborted(turn=UUID(int=9), cause="asked")
    world.said.put_nowait(stored(other))
    await world.live.publish(frames_topic(TURN), {"n": 1})
    world.said.put_nowait(stored(conversation.TurnAborted(turn=TURN, cause="abandoned")))
    frames = await read(world)
    assert [(event, data["code"]) for _, event, data in frames] == [("error", "aborted")]
    assert world.asked_for == [(7, [CONVERSATION.wildcard, "lore.app.deadletter.*.parked"])]


async def test_a_question_that_was_given_up_ends_its_stream() -> None:
    world = World()
    for parked in (uuid4(), ASKED):
        payload = app.EventParked(
            stage="chat",
            seq=7,
            event=parked,
            event_type="conversation.turn_asked",
            owner=f"conversation/{CONVERSATION.id}",
            attempts=8,
            private=app.ParkedError(error="it broke"),
        )
        world.said.put_nowait(stored(payload, Aggregate("app", "deadletter", "f" * 32)))
    frames = await read(world)
    assert [(event, data["code"]) for _, event, data in frames] == [("error", "pipeline_error")]
    assert "it broke" in frames[0][2]["message"]


async def test_a_log_that_cannot_be_read_is_the_readers_error() -> None:
    world = World()
    world.said.put_nowait(LogHole("sequence 8 is not in the log"))
    with pytest.raises(LogHole, match="sequence 8"):
        await read(world)


async def test_a_reader_is_heard_of_well_within_the_time_a_turn_is_left_alone() -> None:
    world = World()
    async with world.live.listen(control_topic(TURN)) as heard:
        reading = asyncio.create_task(read(world, abandon_s=0.2))
        started = asyncio.get_running_loop().time()
        for _ in range(4):
            assert (await heard.get())[1] == {"reading": True}
        assert asyncio.get_running_loop().time() - started >= 0.1
        world.said.put_nowait(FAILED)
        await reading
