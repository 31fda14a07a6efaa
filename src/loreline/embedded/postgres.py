"""The embedded PostgreSQL with pgvector. It holds views only: whatever happens to it costs a rebuild."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from loreline.embedded.child import Child, RunAs, take_lock, wait_until
from loreline.embedded.cluster import make_cluster
from loreline.embedded.files import rotate
from loreline.embedded.placement import SHELTERS, place_binaries, place_cluster, server_user
from loreline.schemas.errors import ServerEnded, ServerFailed

DATABASE = "loreline"
LOG_BYTES = 10 * 2**20
PORT_ATTEMPTS = 5
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "128MB",
    "maintenance_work_mem": "256MB",
    "jit": "off",
    # One syncfs after a crash instead of an fsync of each file: 0.1 s instead of 3 s.
    "recovery_init_sync_method": "syncfs",
    # Nothing is replicated or archived; a bulk load then skips the write-ahead log.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_checkpoints": "off",
    # A failed statement would be logged with the user's text in it.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


class EmbeddedPostgres:
    """One PostgreSQL child with database `loreline` and extension `vector`; the port stays over restarts.

    Attributes:
        name: `postgres`, as health and logs name it.
    """

    name = "postgres"

    def __init__(
        self,
        directory: Path,
        *,
        password: str,
        logs: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        shelters: Sequence[Path] = SHELTERS,
        ready_timeout_s: float = 60.0,
    ) -> None:
        """Describe the server; nothing is started.

        Args:
            directory: private directory of this server alone.
            password: of superuser `postgres`; a cluster made with another one is made anew.
            logs: existing directory for `postgres.log`.
            port: TCP port on 127.0.0.1; None = a free one.
            settings: server settings over `SETTINGS`.
            shelters: where files go that the server's user cannot reach (only when we are root).
            ready_timeout_s: how long a start may take, crash recovery included.
        """
        self._given_directory = directory
        self._password = password
        self._log = logs / "postgres.log"
        self._port_given = port
        self._port: int | None = port
        self._settings = {**SETTINGS, **(settings or {})}
        self._shelters = shelters
        self._ready_timeout_s = ready_timeout_s
        self._home: Path | None = None
        self._child: Child | None = None
        self._running = asyncio.Event()
        self._turn = asyncio.Lock()

    @property
    def port(self) -> int:
        """TCP port; known after the first start. Raises ServerFailed before it."""
        if self._port is None:
            raise ServerFailed("PostgreSQL has no port yet: start it first.")
        return self._port

    @property
    def conninfo(self) -> str:
        """Connection string (libpq's form) of database `loreline`, password included."""
        return self._conninfo(DATABASE)

    @property
    def directory(self) -> Path:
        """Where the cluster is: the directory given, or the one in the shelter once it was started."""
        return self._home or self._given_directory

    @property
    def elsewhere(self) -> Path | None:
        """The cluster's directory if it is not the one given; for `runtime.json`."""
        return self._home if self._home not in (None, self._given_directory) else None

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster while it runs."""
        return self._child.pid if self._child is not None and self._child.exit_code is None else None

    async def start(self) -> None:
        """Make the cluster if there is none, start the server, and make database and extension.

        Raises:
            ServerFailed: it refused to start; the last lines of its log are in the message.
        """
        async with self._turn:
            await self._start()

    async def stop(self) -> None:
        """Stop the server (fast shutdown); does nothing if it does not run."""
        async with self._turn:
            await self._stop()

    async def restart(self) -> None:
        """Stop it if it runs, and start it on the same port."""
        async with self._turn:
            await self._stop()
            await self._start()

    async def wait_ready(self) -> None:
        """Wait until the server says in `postmaster.pid` that it takes connections.

        Raises:
            ServerFailed: it is not started, ended, or took longer than its time-out.
        """
        if self._child is None:
            raise ServerFailed("PostgreSQL is not started.")
        await wait_until(self._is_ready, self._child, timeout_s=self._ready_timeout_s, log=self._log)

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
        rotate(self._log, size_bytes=LOG_BYTES)
        run_as = server_user()
        self._home = await asyncio.to_thread(
            place_cluster, self._given_directory, run_as, shelters=self._shelters
        )
        binaries = await asyncio.to_thread(place_binaries, run_as, shelters=self._shelters)
        # The end of every process of an earlier server: from here on its files are nobody's.
        os.close(await take_lock(self._home / "server.lock", name="postgres"))
        await make_cluster(
            self._home,
            binaries=binaries,
            run_as=run_as,
            password=self._password,
            log=self._log,
            timeout_s=self._ready_timeout_s,
        )
        (self._home / "cluster" / "postmaster.pid").unlink(missing_ok=True)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            port = self._port or _free_port()
            try:
                await self._launch(binaries, run_as, port=port)
            except ServerFailed as error:
                # Between choosing a port and listening on it somebody else may have taken it.
                taken = self._port is None and "could not bind" in str(error)
                if not taken or attempt == PORT_ATTEMPTS:
                    raise
            else:
                self._port = port
                break
        try:
            await self._make_database()
        except BaseException as error:
            await self._stop()
            if isinstance(error, psycopg.Error):
                lost = isinstance(error, psycopg.OperationalError)
                raise (ServerEnded if lost else ServerFailed)(
                    f"PostgreSQL runs but database {DATABASE} cannot be made: {error}"
                ) from error
            raise
        self._running.set()

    async def _stop(self) -> None:
        self._running.clear()
        if self._child is not None:
            await self._child.stop((signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0))

    async def _launch(self, binaries: Path, run_as: RunAs | None, *, port: int) -> None:
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._child = await Child.launch(
            "postgres",
            [binaries / "bin" / "postgres", "-D", self.directory / "cluster", "-p", str(port), *options],
            # Immediate shutdown: nobody is left to wait for a checkpoint, recovery takes a moment.
            death_signal=signal.SIGQUIT,
            lock=self.directory / "server.lock",
            output=self._log,
            cwd=self.directory,
            run_as=run_as,
        )
        try:
            await self.wait_ready()
        except BaseException:
            await self._stop()
            raise

    async def _is_ready(self) -> bool:
        assert self._child is not None
        try:
            lines = (self.directory / "cluster" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self._child.pid) and lines[7].strip() == "ready"

    async def _make_database(self) -> None:
        async with await psycopg.AsyncConnection.connect(
            self._conninfo("postgres"), autocommit=True
        ) as connection:
            found = await connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,))
            if await found.fetchone() is None:
                await connection.execute(f"CREATE DATABASE {DATABASE}")
        async with await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True) as connection:
            found = await connection.execute(
                "SELECT installed_version, installed_version = default_version "
                "FROM pg_available_extensions WHERE name = 'vector'"
            )
            row = await found.fetchone()
            if row is None or row[0] is None:
                await connection.execute("CREATE EXTENSION vector")
            elif not row[1]:
                await connection.execute("ALTER EXTENSION vector UPDATE")

    def _conninfo(self, database: str) -> str:
        # Each of these would else be taken from the user's environment.
        return psycopg.conninfo.make_conninfo(
            host="127.0.0.1",
            hostaddr="127.0.0.1",
            port=self.port,
            user="postgres",
            password=self._password,
            dbname=database,
            sslmode="disable",
            gssencmode="disable",
            connect_timeout=10,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
