"""The HTTP server around the application, inside a running event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import uvicorn
from starlette.types import ASGIApp

from loreline.schemas.errors import ServerFailed


class _Quiet(uvicorn.Server):
    """A server that leaves the process's signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class EdgeServer:
    """Serves an application on one address.

    port: None for a free one.
    """

    def __init__(self, app: ASGIApp, *, host: str, port: int | None) -> None:
        self._host = host
        self._port = port
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            server_header=False,
        )
        self._server = _Quiet(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> str:
        """Listen; returns the URL. Raises ServerFailed when the port is taken."""
        # asyncio switches Nagle's delay (40 ms an answer) off only where the protocol is named.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port or 0))
        except OSError as error:
            listener.close()
            raise ServerFailed(
                f"port {self._port} on {self._host} cannot be used ({error.strerror}); "
                "give another with --port"
            ) from error
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._task.done():
                raise ServerFailed("the HTTP server did not start")
            await asyncio.sleep(0.01)
        return f"http://{self._host}:{listener.getsockname()[1]}"

    async def stop(self) -> None:
        """Stop serving; open streams are cut after two seconds."""
        self._server.should_exit = True
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task
