"""A stream of frames: what is framed, what a failure becomes, and what happens behind a reader that left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from loreline.http_edge import sse
from loreline.http_edge.sse import EventStream, frame
from loreline.schemas.errors import DependencyDown

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": [], "asgi": {"spec_version": "2.3"}}


class Reader:
    """The server's side of a connection; `leave` closes it."""

    def __init__(self) -> None:
        self.leave = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self.got = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.got.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def test_a_frame_has_its_id_its_name_and_one_line_of_data() -> None:
    assert frame("token", {"delta": "a\nü"}, id_="1-2") == (
        'id: 1-2\nevent: token\ndata: {"delta": "a\\nü"}\n\n'.encode()
    )


def test_half_a_character_does_not_break_a_frame() -> None:
    assert b"?" in frame("token", {"delta": "\ud83d"})


async def test_what_cleans_up_behind_a_reader_that_left_is_let_finish() -> None:
    cleaned: list[str] = []

    async def frames() -> AsyncGenerator[bytes, None]:
        try:
            yield frame("first", {})
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("yes")

    reader = Reader()
    answering = asyncio.create_task(EventStream(frames())(SCOPE, reader.receive, reader.send))
    await reader.got.wait()
    reader.leave.set()
    await answering
    assert cleaned == ["yes"]


async def test_a_source_whose_reader_left_at_once_cleans_up_too() -> None:
    cleaned: list[str] = []

    async def frames() -> AsyncGenerator[bytes, None]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            cleaned.append("yes")

    reader = Reader()
    reader.leave.set()
    await EventStream(frames())(SCOPE, reader.receive, reader.send)
    assert cleaned == ["yes"]


async def test_a_failure_after_the_head_is_told_in_the_stream() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield frame("first", {})
        raise DependencyDown("nats", "nats does not answer")

    reader = Reader()
    await EventStream(frames())(SCOPE, reader.receive, reader.send)
    assert reader.sent[0]["status"] == 200
    assert reader.body == frame("first", {}) + frame(
        "error", {"code": "nats_unreachable", "message": "nats does not answer"}
    )


async def test_silence_is_filled_with_comments(monkeypatch: Any) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.01)
    go = asyncio.Event()

    async def frames() -> AsyncGenerator[bytes, None]:
        await go.wait()
        yield frame("last", {})

    reader = Reader()
    answering = asyncio.create_task(EventStream(frames())(SCOPE, reader.receive, reader.send))
    await reader.got.wait()
    assert reader.body.startswith(b": ")
    go.set()
    await answering
    assert reader.body.endswith(frame("last", {}))


async def test_a_slow_reader_makes_the_source_wait() -> None:
    made = 0

    async def frames() -> AsyncGenerator[bytes, None]:
        nonlocal made
        for _ in range(10 * sse.MAX_WAITING):
            made += 1
            yield frame("many", {})

    opened, reader = asyncio.Event(), Reader()

    async def slow(message: Any) -> None:
        await opened.wait()
        await reader.send(message)

    answering = asyncio.create_task(EventStream(frames())(SCOPE, reader.receive, slow))
    for _ in range(20):
        await asyncio.sleep(0)
    assert made <= sse.MAX_WAITING + 2
    opened.set()
    await answering
    assert made == 10 * sse.MAX_WAITING
