"""A real HTTP/1.1 server whose every byte, pause and cut the test decides."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Exchange:
    """One request and the wire to answer it on."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def json(self) -> Any:
        """The request's body."""
        return json.loads(self.body)

    async def send_json(
        self, value: Any, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """A whole answer; a str goes out as it is."""
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self.send(_head(status, lines) + body)

    async def begin_stream(self, *, headers: dict[str, str] | None = None) -> None:
        """The head of a chunked event stream."""
        lines = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **(headers or {})}
        await self.send(_head(200, lines))

    async def send_piece(self, piece: bytes | str) -> None:
        """One HTTP chunk."""
        data = piece.encode() if isinstance(piece, str) else piece
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """The chunk that ends the stream properly."""
        await self.send(b"0\r\n\r\n")

    async def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def client_gone(self) -> None:
        """Returns when the client has closed its side."""
        await self.reader.read()


Script = Callable[[Exchange], Awaitable[None]]


@dataclass
class ScriptedServer:
    """Its address, and what it was asked."""

    url: str
    seen: list[Exchange] = field(default_factory=list)


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[ScriptedServer]:
    """A server on a free port that answers each request by `script` and then closes the connection."""
    running: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            exchange = await _read_request(reader, writer, number=len(state.seen))
            state.seen.append(exchange)
            await script(exchange)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            running.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    state = ScriptedServer(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield state
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await server.wait_closed()


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, number: int
) -> Exchange:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Exchange(method, path, headers, body, number, reader, writer)


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        *(f"{name}: {value}" for name, value in headers.items()),
        "Connection: close",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
