"""Looking through the corpus folder. Reads the disk, decides nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from loreline.schemas.ids import normalise_path

RESERVED = frozenset({"loreline-exports", "varagity-exports"})
"""Folders at a corpus's root that are never corpus, whatever their case."""


@dataclass(frozen=True)
class Found:
    """A file of the corpus folder.

    Attributes:
        relative_path: its normalised path inside the corpus: its identity.
        path: where it really is.
        modified_at, created_at: as the disk tells them; None where it does not, or tells nonsense.
    """

    relative_path: str
    path: Path
    size_bytes: int
    modified_at: datetime | None
    created_at: datetime | None


@dataclass(frozen=True)
class Scan:
    """What a look through the corpus folder found.

    Attributes:
        unsupported: files that are there but not taken in, with the reason.
    """

    files: tuple[Found, ...]
    unsupported: tuple[tuple[str, str], ...]


def is_reserved(relative_path: str) -> bool:
    """Whether a path lies in (or is) a reserved folder at the corpus root."""
    return relative_path.split("/", 1)[0].lower() in RESERVED


def scan(root: Path, extensions: Sequence[str]) -> Scan:
    """Every file below `root` with one of the extensions (no dots, lower case), in path order.

    Hidden files and folders, reserved folders, and links that lead outside are passed over. Of names
    that differ only in how their letters are composed, the first in path order is taken.
    """
    files: dict[str, Found] = {}
    unsupported: list[tuple[str, str]] = []
    base = Path(os.path.realpath(root))
    for path in _walk(root):
        shown = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")
        relative = normalise_path(shown)
        reason = _refusal(path, shown=shown, base=base, extensions=extensions)
        if reason is None and relative in files:
            reason = "another file's name differs from it only in how its letters are composed"
        found = _found(path, relative) if reason is None else None
        if found is None:
            unsupported.append((relative, reason or "it went away while the folder was looked through"))
        else:
            files[relative] = found
    return Scan(tuple(files[name] for name in sorted(files)), tuple(sorted(unsupported)))


def _walk(root: Path) -> Iterator[Path]:
    for directory, folders, names in os.walk(root):
        at_root = Path(directory) == root
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and not (at_root and name.lower() in RESERVED)
        )
        for name in sorted(names):
            if not name.startswith(".") and not (at_root and name.lower() in RESERVED):
                yield Path(directory) / name


def read_file(path: Path) -> bytes:
    """The file's bytes. Raises OSError, also for what is no regular file any more: it never waits."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        return file.read()


def _refusal(path: Path, *, shown: str, base: Path, extensions: Sequence[str]) -> str | None:
    if path.suffix.lower().removeprefix(".") not in extensions:
        return "its type is not in ALLOWED_EXTENSIONS"
    if "\ufffd" in shown:
        return "its name is not valid UTF-8; rename it"
    if "\\" in path.name:
        return "its name holds a backslash, which separates folders elsewhere; rename it"
    real = Path(os.path.realpath(path))  # unlike Path.resolve, it takes a link to itself calmly
    if not real.is_relative_to(base):
        return "it is a link that leads out of the corpus folder"
    if is_reserved(real.relative_to(base).as_posix()):
        return "it is a link into a reserved folder"
    return None if os.path.isfile(path) else "it is not a regular file"


def _found(path: Path, relative: str) -> Found | None:
    """The file as it is now; None if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    born = getattr(status, "st_birthtime", None)
    return Found(relative, path, status.st_size, _moment(status.st_mtime), _moment(born))


def _moment(timestamp_s: float | None) -> datetime | None:
    """A file's time; None for one that no calendar holds, which is no reason to pass a file over."""
    try:
        return None if timestamp_s is None else datetime.fromtimestamp(timestamp_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
