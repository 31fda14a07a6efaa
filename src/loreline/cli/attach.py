"""Attaching to the stack that runs on a data directory, or running one for a command's duration."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from typing import Any

import httpx

from loreline.embedded.directory import read_runtime
from loreline.embedded.runtime import Runtime
from loreline.schemas.errors import LorelineError, ServerFailed
from loreline.wiring.environment import Config

START_PATIENCE_S = 60.0
"""How long a command waits for a stack that another process is just starting."""


class EdgeRefused(LorelineError):
    """The edge answered with an error; its message says what to do, `code` is the API's machine word."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(f"{message} ({code})" if code else message)
        self.code = code


@dataclass(frozen=True)
class Sent:
    """One server-sent event."""

    event: str
    data: Any


@dataclass(frozen=True)
class Attached:
    """A client of a running stack."""

    url: str
    http: httpx.AsyncClient
    own: bool = field(default=False)

    async def get(self, path: str, **parameters: Any) -> Any:
        """The JSON of a GET. Raises EdgeRefused with the edge's own words."""
        return _json(await self.http.get(path, params=parameters))

    async def post(self, path: str, body: Any = None) -> Any:
        """The JSON of a POST. Raises EdgeRefused with the edge's own words."""
        return _json(await self.http.post(path, json=body or {}))

    async def stream(self, method: str, path: str, body: Any = None) -> AsyncGenerator[Sent, None]:
        """Server-sent events as they come. Raises EdgeRefused when there is no stream."""
        async with self.http.stream(method, path, json=body) as response:
            if response.status_code >= 400:
                await response.aread()
                _json(response)
            event = ""
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield Sent(event, json.loads(line.removeprefix("data: ")))


def _json(response: httpx.Response) -> Any:
    if response.status_code < 400:
        return response.json() if response.content else None
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        raise EdgeRefused(f"the edge answered {response.status_code}") from None
    raise EdgeRefused(error["message"], code=error["code"])


@asynccontextmanager
async def attached(config: Config) -> AsyncIterator[Attached]:
    """A client of the stack that runs on the data directory; without one, a stack of our own.

    Raises EdgeRefused when the stack stops meanwhile, and what starting one raises.
    """
    runtime = await _started(config)
    if runtime is not None:
        async with attached_to(runtime.url) as client:
            yield client
        return
    # Imported here: a command that attaches needs none of it, and it takes most of a second.
    from loreline.wiring.stack import running

    if not (config.data / "format").exists():
        held = f"{config.data.absolute()} is new: it will hold the log, the keys and the views"
        print(f"loreline: {held} of {config.docs.absolute()}", file=sys.stderr)
    log_to_file(config)
    async with running(config) as stack:
        log_to_file(config)
        async with attached_to(stack.url, own=True) as client:
            yield client


async def _started(config: Config) -> Runtime | None:
    """Who runs the data directory, once that stack answers; None if nobody does."""
    deadline = time.monotonic() + START_PATIENCE_S
    while True:
        runtime = read_runtime(config.data)
        if runtime is None or runtime.url:
            return runtime
        if time.monotonic() > deadline:
            raise ServerFailed(
                f"process {runtime.pid} has been starting this stack for {START_PATIENCE_S:g} s; try again"
            )
        await asyncio.sleep(0.05)


@asynccontextmanager
async def attached_to(url: str, *, own: bool = False) -> AsyncIterator[Attached]:
    """A client of the stack at an address. Streams may be silent for long, so reads have no limit.

    Raises EdgeRefused when nothing answers there, or the connection breaks.
    """
    timeout = httpx.Timeout(None, connect=5.0)
    async with httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False) as http:
        try:
            yield Attached(url, http, own)
        except httpx.TransportError as error:
            raise EdgeRefused(
                f"the stack at {url} went away ({str(error) or type(error).__name__}); "
                "`loreline status` says whether one runs"
            ) from error


def log_to_file(config: Config) -> None:
    """Send what the program says of itself to the data directory; only the gravest to the terminal."""
    folder = config.data / "logs"
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    terminal = logging.StreamHandler()
    terminal.setLevel(logging.CRITICAL)
    root.handlers[:] = [terminal]
    for noisy in ("httpx", "httpcore", "faststream"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if folder.is_dir():
        file = RotatingFileHandler(
            folder / "loreline.log", maxBytes=10_000_000, backupCount=3, encoding="utf-8"
        )
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        root.addHandler(file)
