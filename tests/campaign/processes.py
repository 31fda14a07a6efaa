"""Which processes belong to a stack, seen from outside (Linux)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> dict[int, str]:
    """The children of a process: pid -> program name."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
                if int(rest.split()[1]) == pid and rest.split()[0] != "Z":
                    found[int(entry.name)] = name
    return found


def of_stack(root: Path, *more: str) -> dict[int, str]:
    """Every process that works in `root` or names it (or one of `more`) in its command: pid -> command."""
    places = [str(root), *more]
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = str((entry / "cwd").readlink())
            if any(where.startswith(place) or place in command for place in places) and _lives(entry):
                found[int(entry.name)] = command.strip()
    return found


def _lives(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}


def kill(*pids: int) -> None:
    """SIGKILL, for those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_gone(root: Path, *more: str, timeout_s: float) -> tuple[dict[int, str], float]:
    """(The processes of a stack that are still there after the time, seconds until there were none)."""
    started = time.monotonic()
    while left := of_stack(root, *more):
        if time.monotonic() - started > timeout_s:
            break
        time.sleep(0.02)
    return left, time.monotonic() - started
