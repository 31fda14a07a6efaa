"""Structural blurbs: what situates a chunk without a model. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from loreline.schemas.records import Chunk

MAX_CHARS = 300


def structural_blurbs(chunks: Sequence[Chunk], *, path: str, title: str | None) -> list[str]:
    """One line a chunk: file name, the document's title, and the open headings."""
    return [_blurb(PurePosixPath(path).name, title, chunk.heading_path) for chunk in chunks]


def _blurb(name: str, title: str | None, headings: Sequence[str]) -> str:
    parts = [name]
    if title and title.strip() and title.strip() != name:
        parts.append(" ".join(title.split()))
    trail = [" ".join(heading.split()) for heading in headings if heading.strip()]
    if trail and len(parts) > 1 and trail[0] == parts[1]:
        trail = trail[1:]  # the title is the outermost heading already
    if trail:
        parts.append(" > ".join(trail))
    line = ": ".join(parts)
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1].rstrip() + "…"
