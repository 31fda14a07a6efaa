"""The high-water mark: the newest append we were told is stored, kept outside the log.

A flipped bit can make a server roll its log back and use the numbers again, with only a warning of its
own. The mark is how we notice: the log must reach it, and hold that very event there.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from loreline.events.log import EventLog
from loreline.schemas.errors import LogHole, LogRewritten, LogRolledBack

_WIDTH = 128


class HighWater:
    """The mark in a small file. Every append is written at once (a kill keeps it) and fsynced by `sync`.

    A mark that a power cut set back is still a true lower bound.
    """

    def __init__(self, path: Path) -> None:
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
        held = json.loads(raw)
        return int(held["seq"]), str(held["id"])


async def check_log(log: EventLog, *, mark: tuple[int, str], whose: str) -> None:
    """Check that the log holds what was acknowledged.

    whose: names the mark in the error, e.g. `the stages' high-water mark`.
    Raises LogHole, LogRolledBack or LogRewritten, each saying what to do.
    """
    info = await log.info()
    if info.n_deleted or (info.n_events and (info.first_seq != 1 or info.n_events != info.last_seq)):
        missing = info.last_seq - info.n_events
        raise LogHole(
            f"{max(missing, info.n_deleted)} of {info.last_seq} events are missing from the log; {_REPAIR}"
        )
    seq, event_id = mark
    if seq > info.last_seq:
        raise LogRolledBack(f"the log ends at {info.last_seq}, but {whose} is at {seq}; {_REPAIR}")
    if seq and event_id:
        stored = await log.get(seq)
        if stored is None:
            raise LogHole(f"sequence {seq}, where {whose} is, is not in the log; {_REPAIR}")
        if stored.wire.id != event_id:
            raise LogRewritten(f"another event stands at sequence {seq}, where {whose} is; {_REPAIR}")


_REPAIR = "keep this data directory aside and restore the log from a backup"
