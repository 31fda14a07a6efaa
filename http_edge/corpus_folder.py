"""The corpus folder's files, as an upload writes them and a delete removes them. Everything here blocks."""

from __future__ import annotations

import os
import secrets
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from loreline.schemas.ids import content_hash_of


def place_in(root: Path, relative_path: str) -> Path | None:
    """Where a file of the corpus is or would be; None if that is no place for one.

    A folder or file whose name is there already, composed otherwise (NFD), keeps that spelling. No place
    is: outside the corpus once links are followed, on a directory, or below a file.
    """
    place = root
    for name in relative_path.split("/"):
        place = place / _spelled(place, name)
    try:
        inside = place.resolve().is_relative_to(root)
        folders = (each for each in place.parents if each != root and each.is_relative_to(root))
        below_a_file = any(each.is_file() for each in folders)
        return place if inside and not place.is_dir() and not below_a_file else None
    except (OSError, RuntimeError):  # a path the file system does not take, or a loop of links
        return None


def _spelled(folder: Path, name: str) -> str:
    """A name as the folder spells it."""
    if name.isascii() or os.path.lexists(folder / name):
        return name
    with suppress(OSError):
        for each in os.listdir(folder):
            if unicodedata.normalize("NFC", each) == name:
                return each
    return name


def put_aside(target: Path, data: bytes, modified_at: datetime | None) -> Path:
    """Write a file beside its target, durably, with the time it had; returns where. Raises OSError.

    One `replace` then puts it in its place, whole.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with aside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if modified_at is not None:
            stamp = modified_at.timestamp()
            os.utime(aside, (stamp, stamp))
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return aside


@dataclass(frozen=True)
class Held:
    """A file as it lies in the corpus folder.

    Attributes:
        changed_at: when it was last written, moved there or otherwise changed, by this machine's clock; no
            program can set it, as it can the time of modification.
    """

    content_hash: str
    changed_at: datetime


def held_at(path: Path) -> Held | None:
    """The file that lies there; None if there is none, or none that can be read."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            return Held(content_hash_of(file.read()), datetime.fromtimestamp(status.st_ctime, UTC))
    except OSError:
        return None


def remove_from_corpus(root: Path, relative_path: str) -> bool:
    """Unlink a file of the corpus and the folders that leaves empty; False if there is none to unlink."""
    path = place_in(root, relative_path)
    if path is None or not path.is_file():
        return False
    try:
        path.unlink()
    except OSError:
        return False
    with suppress(OSError):  # the first folder that is not empty, or not ours to remove
        for folder in path.parents:
            if folder == root:
                break
            folder.rmdir()
    return True
