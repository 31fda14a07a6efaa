"""One server process on the leash: launched, waited for, stopped; it holds a lock while it lives."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loreline.embedded.files import last_lines
from loreline.schemas.errors import ServerEnded, ServerFailed

if sys.platform != "win32":
    import fcntl

POLL_S = 0.01
"""How often a condition without a notification (a file appears, a lock is free) is looked at."""

LEASH = Path(__file__).with_name("leash.py")


@dataclass(frozen=True)
class RunAs:
    """The user a server runs as when we are root."""

    uid: int
    gid: int


class Child:
    """A running server process.

    Attributes:
        name: what the messages call it.
        asked: True once `stop` was called, so an exit is no accident.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.asked = False
        self._process = process

    @classmethod
    async def launch(
        cls,
        name: str,
        argv: Sequence[str | Path],
        *,
        death_signal: signal.Signals,
        lock: Path,
        output: Path,
        cwd: Path,
        run_as: RunAs | None = None,
    ) -> Child:
        """Start `argv` on the leash, in a session of its own so that the terminal's Ctrl-C is ours alone.

        The environment is empty but for the locale: no setting of the user's shell reaches a server.

        Args:
            name: what messages call the server.
            argv: absolute path of the program, then its arguments.
            death_signal: what the kernel sends it when we die.
            lock: file the server holds an exclusive lock on until it and its children are gone. A lock held
                by the leftover of an earlier run is waited for.
            output: file that its standard output and error are appended to.
            cwd: its working directory.
            run_as: the user to become, when we are root.

        Raises:
            ServerFailed: not called on the main thread (the leash is tied to the launching thread), or an
                earlier server still holds the lock.
        """
        if threading.current_thread() is not threading.main_thread():
            raise ServerFailed(f"{name} must be started from the main thread: it would die with any other.")
        held = await take_lock(lock, name=name)
        user = [] if run_as is None else [str(run_as.uid), str(run_as.gid)]
        leash = [
            sys.executable,
            "-I",
            "-S",
            str(LEASH),
            str(os.getpid()),
            str(int(death_signal)),
            *user,
            "--",
        ]
        try:
            with output.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *leash,
                    *map(str, argv),
                    stdin=DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=cwd,
                    env={"LC_ALL": "C"},
                    # The lock belongs to the open file, so the server keeps it when our copy is closed.
                    pass_fds=(held,),
                    start_new_session=True,
                )
        finally:
            os.close(held)
        return cls(name, process)

    @property
    def pid(self) -> int:
        """The server's process id; the leash hands its own on."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process ended (negative: by that signal), or None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait for the end of the process and return its exit code."""
        return await self._process.wait()

    async def stop(self, *signals: tuple[signal.Signals, float]) -> None:
        """Send each signal in turn, waiting its seconds for the end, and SIGKILL if none was enough."""
        self.asked = True
        for number, patience_s in signals:
            if await self._ended_after(number, patience_s):
                return
        await self._ended_after(signal.SIGKILL, None)

    async def _ended_after(self, number: signal.Signals, patience_s: float | None) -> bool:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
        try:
            async with asyncio.timeout(patience_s):
                await self._process.wait()
        except TimeoutError:
            return False
        return True


async def wait_until(
    ready: Callable[[], Awaitable[bool]], child: Child, *, timeout_s: float, log: Path
) -> None:
    """Poll `ready` until it is true.

    Args:
        ready: the condition.
        child: the process that must live meanwhile.
        timeout_s: how long it may take.
        log: where the server says why not.

    Raises:
        ServerEnded: the process ended; carries the last lines of its log.
        ServerFailed: the time is over; carries them too.
    """
    deadline = time.monotonic() + timeout_s
    while not await ready():
        if child.exit_code is not None:
            raise ServerEnded(_failure(f"{child.name} ended with code {child.exit_code} at its start", log))
        if time.monotonic() > deadline:
            raise ServerFailed(_failure(f"{child.name} was not ready after {timeout_s:.0f} s", log))
        await asyncio.sleep(POLL_S)


def _failure(what: str, log: Path) -> str:
    return f"{what}. Its last words (all of them are in {log}):\n{last_lines(log) or '(none)'}"


async def take_lock(path: Path, *, name: str, timeout_s: float = 15.0) -> int:
    """Return a descriptor that holds `path` exclusively; waits for a server that is still shutting down.

    Raises:
        ServerFailed: an earlier server holds it after `timeout_s`.
    """
    if sys.platform == "win32":
        raise ServerFailed("The embedded servers need Linux or macOS; on Windows run Loreline under WSL.")
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(handle)
                raise ServerFailed(
                    f"An earlier {name} still runs and holds {path}. End that process, then start again."
                ) from None
            await asyncio.sleep(POLL_S)
        else:
            return handle
