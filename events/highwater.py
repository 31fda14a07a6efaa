"""The high-water mark: the newest append we were told is stored, kept outside the log.

A flipped bit can make a server roll its log back and use the numbers again, with only a warning of its
own. The mark is how we notice: the log must reach it, and hold that very event there.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from loreline.events.envelope import StoredWire
from loreline.events.log import EventLog, LogInfo
from loreline.schemas.errors import LogError, LogHole, LogRewritten, LogRolledBack

REPAIR = "keep this data directory aside and restore the log from a backup"
"""What to do about a damaged log."""

_WIDTH = 128


class HighWater:
    """The mark in a small file. Every append is written at once (a kill keeps it) and fsynced by `sync`.

    A mark that a power cut set back is still a true lower bound. Raises LogError for a damaged file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        self._mark = self._read()
        self._dirty = False

    @property
    def mark(self) -> tuple[int, str]:
        """(sequence, event id) of the newest acknowledged append; (0, "") for none."""
        return self._mark

    def record(self, seq: int, event_id: str) -> None:
        """Raise the mark; a lower sequence is ignored."""
        with self._lock:
            if seq > self._mark[0]:
                self._mark, self._dirty = (seq, event_id), True
                line = json.dumps({"seq": seq, "id": event_id}).encode().ljust(_WIDTH - 1) + b"\n"
                os.pwrite(self._descriptor, line, 0)

    def sync(self) -> None:
        """Make the mark durable, if it moved since the last time."""
        if self._dirty:
            self._dirty = False
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Make the mark durable and close its file."""
        self.sync()
        os.close(self._descriptor)

    def _read(self) -> tuple[int, str]:
        raw = os.pread(self._descriptor, _WIDTH, 0)
        if not raw.strip():
            return 0, ""
        try:
            held = json.loads(raw)
            return int(held["seq"]), str(held["id"])
        except (ValueError, KeyError, TypeError) as error:
            os.close(self._descriptor)
            raise LogError(
                f"{self._path} is damaged, so nothing says how far the log reached; "
                "restore it from a backup, or remove it if you know that the log is whole"
            ) from error


async def check_log(log: EventLog, *, mark: tuple[int, str], whose: str) -> None:
    """Check that the log holds what was acknowledged.

    whose: names the mark in the error, e.g. `the stages' high-water mark`.
    Raises LogHole, LogRolledBack or LogRewritten, each saying what to do.
    """
    seq, event_id = mark
    check_info(await log.info(), seq=seq, whose=whose)
    if seq and event_id:
        check_event(await log.get(seq), mark=mark, whose=whose)


def check_info(info: LogInfo, *, seq: int, whose: str) -> None:
    """Check that no event is missing and that the log reaches `seq`. Raises LogHole or LogRolledBack."""
    if seq > info.last_seq:
        raise LogRolledBack(f"the log ends at {info.last_seq}, but {whose} is at {seq}; {REPAIR}")
    missing = max(info.last_seq - info.n_events, info.n_deleted)
    if missing:
        raise LogHole(f"{missing} of {info.last_seq} events are missing from the log; {REPAIR}")


def check_event(stored: StoredWire | None, *, mark: tuple[int, str], whose: str) -> None:
    """Check what the log holds at a mark. Raises LogHole or LogRewritten."""
    if stored is None:
        raise LogHole(f"sequence {mark[0]}, where {whose} is, is not in the log; {REPAIR}")
    if stored.wire.headers.get("ce-id") != mark[1]:
        raise LogRewritten(f"another event stands at sequence {mark[0]}, where {whose} is; {REPAIR}")
