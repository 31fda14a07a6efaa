"""Building a parsed document: one text and blocks whose offsets are exact by construction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from loreline.schemas.records import Block, Box, ParsedDocument

Kind = Literal["paragraph", "heading", "list", "table", "code", "caption", "line"]

MANY_BLOCKS = 20_000
_RUN_CHARACTERS = 10_000
_LINE = re.compile(r"[^\n]+")


class Run(NamedTuple):
    """A block before it is a record: a file can hold millions, and records cost twenty times as much."""

    kind: Kind
    start: int
    end: int
    level: int | None = None
    page: int | None = None
    box: Box | None = None


class Assembly:
    """Collects the pieces of a document in reading order; `add` returns nothing, `document` the whole."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._runs: list[Run] = []

    def add(
        self,
        kind: Kind,
        text: str,
        *,
        gap: str = "\n\n",
        level: int | None = None,
        page: int | None = None,
        box: Box | None = None,
    ) -> None:
        """Append a block; `gap` parts it from the block before. Blank text is left out."""
        if not text.strip():
            return
        if self._pieces:
            self._pieces.append(gap)
            self._length += len(gap)
        end = self._length + len(text)
        self._pieces.append(text)
        self._runs.append(Run(kind, self._length, end, level, page, box))
        self._length = end

    def document(
        self, *, reader: str, title: str | None = None, page_count: int | None = None
    ) -> ParsedDocument:
        """Return the document; without a title of its own it takes its first top heading."""
        text = "".join(self._pieces)
        return parsed(text, self._runs, reader=reader, title=title, page_count=page_count)


def parsed(
    text: str, runs: Sequence[Run], *, reader: str, title: str | None = None, page_count: int | None = None
) -> ParsedDocument:
    """Return the document of a text and its runs; a text of white space alone is empty.

    Very many plain runs are joined with their neighbours, and headings beyond reason are plain.
    """
    if not text.strip():
        return ParsedDocument(
            text="", blocks=(), title=clean_title(title), reader=reader, page_count=page_count
        )
    if len(runs) > MANY_BLOCKS:
        runs = _coarsened(runs)
    return ParsedDocument(
        text=text,
        blocks=tuple(Block(**run._asdict()) for run in runs),
        title=clean_title(title) or _first_heading(text, runs),
        reader=reader,
        page_count=page_count,
    )


def clean_title(title: str | None) -> str | None:
    """A title on one line, at most 200 characters; None for blank ones."""
    words = " ".join((title or "").split())
    return words[:200] or None


def _first_heading(text: str, runs: Sequence[Run]) -> str | None:
    """Return the words of the first heading, if it is of the highest level the document has."""
    headings = [run for run in runs if run.kind == "heading"]
    if not headings:
        return None
    top = min(run.level or 1 for run in headings)
    first = headings[0]
    return clean_title(text[first.start : first.end]) if (first.level or 1) == top else None


def _coarsened(runs: Iterable[Run]) -> list[Run]:
    joined: list[Run] = []
    headings = 0
    for run in runs:
        headings += run.kind == "heading"
        if run.kind == "heading" and headings > MANY_BLOCKS:
            run = run._replace(kind="paragraph", level=None)
        last = joined[-1] if joined else None
        if (
            last is not None
            and run.kind == last.kind != "heading"
            and run.page == last.page
            and run.box is None
            and last.box is None
            and run.end - last.start < _RUN_CHARACTERS
        ):
            joined[-1] = last._replace(end=run.end)
        else:
            joined.append(run)
    return joined


def paragraph_spans(text: str, *, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of each run of lines that are not blank. Linear in the text."""
    open_start, open_end = -1, -1
    for line in _LINE.finditer(text, start, len(text) if end is None else end):
        if not line.group().strip():
            continue
        if open_start >= 0 and line.start() - open_end <= 1:
            open_end = line.end()
            continue
        if open_start >= 0:
            yield open_start, open_end
        open_start, open_end = line.span()
    if open_start >= 0:
        yield open_start, open_end
