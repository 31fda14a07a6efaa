"""Small private files: written whole or not at all, and the ends of logs."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a 0600 file atomically and durably: temporary file, fsync, rename, fsync of the directory.

    Raises:
        OSError: the directory is missing, not writable or full; the old content then still stands.
    """
    fresh = path.with_name(f"{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def last_lines(path: Path, *, count: int = 12, size_bytes: int = 8192) -> str:
    """Return the last lines of a log, or an empty text if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size_bytes))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-count:])


def rotate(path: Path, *, size_bytes: int) -> None:
    """Move a log that reached `size_bytes` to `<name>.1`, replacing the one before."""
    if path.exists() and path.stat().st_size >= size_bytes:
        path.replace(path.with_name(f"{path.name}.1"))
