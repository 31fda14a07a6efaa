"""The data directory: one process at a time, one format, and who runs it now."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_urlsafe
from types import TracebackType

from loreline.embedded.files import sync_directory, write_private
from loreline.embedded.runtime import Runtime, Secrets, parse_runtime, parse_secrets
from loreline.schemas.errors import DataDirectoryBusy, DataDirectoryUnreadable

if sys.platform != "win32":
    import fcntl

FORMAT = 1
"""Raised only when a release can no longer read what an earlier one wrote; see the ADR on fixed forms."""

PROGRAM = "loreline"
NATS_USERS = ("admin", "app", "subscriber")
LOCK_PATIENCE_S = 0.3
"""A reader asking whether the directory is in use holds its lock for an instant; this outlasts it."""

_FIRST_FILES = {"lock", "format.new"}


class DataDirectory:
    """An opened data directory; while it is open no other process can open it.

    The lock is the kernel's and ends with this process however that ends. It would outlive us in a child
    that was forked without exec: start workers with `spawn`.
    """

    def __init__(self, path: Path, *, lock: int) -> None:
        self.path = path
        self._lock: int | None = lock

    @classmethod
    def open(cls, path: Path) -> DataDirectory:
        """Open the directory, making it (0700) if it is missing, and lock it.

        Raises:
            DataDirectoryBusy: another process runs it; says which and under which address.
            DataDirectoryUnreadable: it holds something else, or another version's format.
        """
        path = path.absolute()
        if path.exists() and not path.is_dir():
            raise DataDirectoryUnreadable(f"{path} is a file. Name a directory for the data.")
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_foreign(path)
            lock = _lock(path)
        except OSError as error:
            raise DataDirectoryUnreadable(
                f"{path} cannot be used: {error}. Name with --data a directory that you own and can write to."
            ) from error
        try:
            path.chmod(0o700)
            _check_format(path / "format")
            for part in ("nats", "postgres", "blobs", "keys", "lexical", "logs"):
                (path / part).mkdir(mode=0o700, exist_ok=True)
            sync_directory(path)
        except BaseException:
            os.close(lock)
            raise
        return cls(path, lock=lock)

    @property
    def nats(self) -> Path:
        """Configuration and JetStream store of the embedded NATS server: the log itself."""
        return self.path / "nats"

    @property
    def postgres(self) -> Path:
        """The embedded PostgreSQL cluster, unless `runtime.json` names another place: views only."""
        return self.path / "postgres"

    @property
    def blobs(self) -> Path:
        """Encrypted content-addressed files."""
        return self.path / "blobs"

    @property
    def scratch(self) -> Path:
        """Encrypted outputs that can be made again; deleting them costs repeated model calls."""
        return self.path / "scratch"

    @property
    def keys(self) -> Path:
        """The owners' keys; without them log and blobs cannot be read."""
        return self.path / "keys"

    @property
    def refs(self) -> Path:
        """Stage outputs and recordings, a SQLite file."""
        return self.path / "refs.sqlite3"

    @property
    def lexical(self) -> Path:
        """One SQLite file a profile: views."""
        return self.path / "lexical"

    @property
    def logs(self) -> Path:
        """What the servers and the program say."""
        return self.path / "logs"

    def secrets(self, *, draw_password: Callable[[], str] = lambda: token_urlsafe(24)) -> Secrets:
        """Return the servers' passwords, drawn at the first call and kept in `secrets.json` (0600).

        Raises:
            DataDirectoryUnreadable: the file is damaged.
        """
        path = self.path / "secrets.json"
        if not path.exists():
            drawn = {"nats": {name: draw_password() for name in NATS_USERS}, "postgres": draw_password()}
            write_private(path, json.dumps(drawn, indent=2) + "\n")
        secrets = parse_secrets(path.read_text(encoding="utf-8"), users=NATS_USERS)
        if secrets is None:
            raise DataDirectoryUnreadable(
                f"{path} is damaged. Restore it from a backup, or remove it: new passwords are then drawn."
            )
        return secrets

    def write_runtime(self, runtime: Runtime) -> None:
        """Say in `runtime.json` (0600) who runs this directory and where."""
        write_private(self.path / "runtime.json", runtime.to_json())

    def forget_runtime(self) -> None:
        """Stop saying who runs this directory: from here on it is about to be free."""
        (self.path / "runtime.json").unlink(missing_ok=True)

    def close(self) -> None:
        """Forget the running stack and let the next process in. A second call does nothing."""
        if self._lock is not None:
            self.forget_runtime()
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> DataDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_runtime(path: Path) -> Runtime | None:
    """Return who runs the data directory at `path`, or None if nobody does.

    A file left behind by a killed process is not believed: its pid must live and the lock must be held.
    """
    try:
        runtime = parse_runtime((path / "runtime.json").read_text(encoding="utf-8"))
        handle = os.open(path / "lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        if runtime is None or not _is_alive(runtime.pid) or _try_lock(handle, shared=True):
            return None
    finally:
        os.close(handle)
    return runtime


def is_held(path: Path) -> bool:
    """Whether a process has the data directory at `path` open: one that runs, starts or stops a stack."""
    try:
        handle = os.open(path / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(handle, shared=True)
    finally:
        os.close(handle)


def _refuse_foreign(path: Path) -> None:
    names = set(os.listdir(path))
    if "format" not in names and not names <= _FIRST_FILES:
        raise DataDirectoryUnreadable(
            f"{path} is not empty and not a Loreline data directory (it has no file `format`). "
            "Name an empty or a missing directory with --data."
        )


def _lock(path: Path) -> int:
    handle = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while not _try_lock(handle):
        if time.monotonic() > deadline:
            os.close(handle)
            raise DataDirectoryBusy(_busy(path))
        time.sleep(0.01)
    return handle


def _try_lock(handle: int, *, shared: bool = False) -> bool:
    if sys.platform == "win32":
        raise DataDirectoryUnreadable("A data directory needs Linux or macOS; on Windows use WSL.")
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _busy(path: Path) -> str:
    runtime = read_runtime(path)
    who = "another process, which is just stopping"
    if runtime is not None:
        where = f"at {runtime.url}" if runtime.url else "which is just starting"
        who = f"process {runtime.pid} {where}"
    return f"{path} is in use by {who}. Use that one, stop it with `loreline down`, or name another --data."


def _check_format(path: Path) -> None:
    if not path.exists():
        write_private(path, json.dumps({"format": FORMAT, "program": PROGRAM}) + "\n")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        number, program = found["format"], found["program"]
    except (ValueError, KeyError, TypeError):
        number, program = None, None
    if program != PROGRAM or type(number) is not int:
        raise DataDirectoryUnreadable(
            f"{path} is damaged or not ours. Restore the directory from a backup or name another --data."
        )
    if number > FORMAT:
        raise DataDirectoryUnreadable(
            f"{path.parent} was written by a newer Loreline (format {number}; this one reads {FORMAT}). "
            "Nothing was changed. Upgrade Loreline to use it."
        )
    if number < FORMAT:
        raise DataDirectoryUnreadable(
            f"{path.parent} was written by an older Loreline (format {number}; this one reads {FORMAT}). "
            "Nothing was changed. Export it with the release that wrote it and restore the export here."
        )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
