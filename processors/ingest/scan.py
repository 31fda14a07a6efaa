"""Looking through the corpus folder. Reads the disk, decides nothing."""

from __future__ import annotations

import os
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
    """

    relative_path: str
    path: Path
    size_bytes: int
    modified_at: datetime
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

    Hidden files and folders, reserved folders, and links that lead outside are passed over.
    """
    files: dict[str, Found] = {}
    unsupported: list[tuple[str, str]] = []
    base = root.resolve()
    for path in _walk(root):
        shown = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")
        relative = normalise_path(shown)
        reason = _refusal(path, shown=shown, base=base, extensions=extensions)
        if reason is None and relative in files:
            reason = "another file's name differs from it only in how its letters are composed"
        if reason is not None:
            unsupported.append((relative, reason))
            continue
        files[relative] = _found(path, relative)
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


def _refusal(path: Path, *, shown: str, base: Path, extensions: Sequence[str]) -> str | None:
    if path.suffix.lower().removeprefix(".") not in extensions:
        return "its type is not in ALLOWED_EXTENSIONS"
    if "\ufffd" in shown:
        return "its name is not valid UTF-8; rename it"
    if not path.resolve().is_relative_to(base):
        return "it is a link that leads out of the corpus folder"
    return None if path.is_file() else "it is not a regular file"


def _found(path: Path, relative: str) -> Found:
    status = path.stat()
    born = getattr(status, "st_birthtime", None)
    return Found(
        relative,
        path,
        status.st_size,
        datetime.fromtimestamp(status.st_mtime, UTC),
        None if born is None else datetime.fromtimestamp(born, UTC),
    )
