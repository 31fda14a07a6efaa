"""Talking to a stack's edge in tests: whole turns, parts of streams, and the error envelope."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Frame:
    """One server-sent event as it came."""

    event: str
    data: Any
    id: str | None = None


@dataclass
class Stream:
    """An open stream: its answer's head, and its frames one by one."""

    response: httpx.Response
    frames: AsyncIterator[Frame]

    async def until(self, event: str) -> list[Frame]:
        """The frames up to and including the first with this name."""
        seen: list[Frame] = []
        async for each in self.frames:
            seen.append(each)
            if each.event == event:
                return seen
        raise AssertionError(f"the stream ended without {event}: {[each.event for each in seen]}")

    async def rest(self) -> list[Frame]:
        """Every frame that is still to come."""
        return [each async for each in self.frames]


@asynccontextmanager
async def stream(
    http: httpx.AsyncClient,
    method: str,
    path: str,
    *,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> AsyncIterator[Stream]:
    """An open stream; leaving closes the connection, as a reader does who goes away."""
    async with http.stream(method, path, json=body, headers=headers) as response:
        if response.status_code >= 400:
            await response.aread()
        yield Stream(response, _frames(response))


async def _frames(response: httpx.Response) -> AsyncIterator[Frame]:
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield Frame(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}
        else:
            fields = {}


async def ask(
    http: httpx.AsyncClient, question: str, *, headers: dict[str, str] | None = None, **body: Any
) -> list[Frame]:
    """All frames of a turn."""
    async with stream(http, "POST", "/api/chat", body={"query": question, **body}, headers=headers) as turn:
        assert turn.response.status_code == 200, turn.response.text
        return await turn.rest()


def refused(response: httpx.Response) -> tuple[int, str]:
    """(status, code) of an error; its shape is checked on the way."""
    body = response.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"code", "message"}, body
    assert len(body["error"]["message"]) > 10, body
    return response.status_code, body["error"]["code"]
