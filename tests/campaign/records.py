"""Append-only files of JSON lines that survive a kill: a line is fsynced before anything follows from it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any


class Record:
    """An append-only file; safe for many threads of one process."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def add(self, **line: Any) -> None:
        """Append a line, durable on return."""
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            os.write(self._descriptor, data)
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_record(path: Path) -> list[dict[str, Any]]:
    """All lines, oldest first; none if the file is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
