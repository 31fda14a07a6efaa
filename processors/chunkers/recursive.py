"""The `recursive_character` strategy: fill a chunk, then cut it at the best place near its end.

Places, best first: before a heading, between paragraphs, lines, sentences, words, and only then between
characters. Offsets are exact because chunks are slices; time is linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import NamedTuple

import regex

from loreline.processors.chunkers.placement import Placements
from loreline.schemas.records import Chunk, ParsedDocument

_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LINE = re.compile(r"\n\s*")
_SENTENCE = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』”’）]*\s*")
_WORD = re.compile(r"\s+")
_GRAPHEME = regex.compile(r"\X")
_NOT_SPACE = re.compile(r"\S")
_TITLE_LENGTH = 60
# A cut in the first part of the window would leave a stub; a better kind of place may lie a little earlier.
_SECTION_FROM, _PARAGRAPH_FROM, _OTHER_FROM = 0.35, 0.5, 0.6


class _Window(NamedTuple):
    """Where the end of a chunk may fall: after `low`, up to and including `high`."""

    start: int
    low: int
    high: int


def chunk_recursively(
    doc: ParsedDocument,
    *,
    chunk_size: int,
    chunk_overlap: int,
    count_tokens: Callable[[str], int],
) -> list[Chunk]:
    """Cut a document into chunks of at most `chunk_size` characters (code points).

    Every character that is not white space is in some chunk. A chunk repeats at most `chunk_overlap`
    characters of the one before, from the start of a sentence or a line, and none across a heading.

    Raises:
        ValueError: unless 0 <= chunk_overlap < chunk_size.
    """
    if not 0 <= chunk_overlap < chunk_size:
        raise ValueError(
            f"chunk_overlap must be from 0 to chunk_size - 1; got {chunk_overlap} for {chunk_size}."
        )
    placements = Placements(doc)
    chunks: list[Chunk] = []
    for start, end in _Cutter(doc, chunk_size, chunk_overlap).spans():
        content = doc.text[start:end]
        place = placements.of(start, end)
        chunks.append(
            Chunk(
                chunk_index=len(chunks),
                start=start,
                end=end,
                content=content,
                heading_path=place.heading_path,
                page=place.pages[0] if place.pages else None,
                pages=place.pages,
                boxes=place.boxes,
                extraction=place.extraction,
                n_tokens=count_tokens(content),
            )
        )
    return chunks


class _Cutter:
    """One document's cuts."""

    def __init__(self, doc: ParsedDocument, chunk_size: int, chunk_overlap: int) -> None:
        self._text = doc.text
        self._size = chunk_size
        self._overlap = chunk_overlap
        self._sections = [
            _with_marks(doc.text, block.start) for block in doc.blocks if block.kind == "heading"
        ]
        rows = [block for block in doc.blocks if block.kind in ("table", "code")]
        self._row_starts = [block.start for block in rows]
        self._row_ends = [block.end for block in rows]

    def spans(self) -> list[tuple[int, int]]:
        """Return (start, end) of every chunk, neither beginning nor ending with white space."""
        spans: list[tuple[int, int]] = []
        start = self._next_word(0)
        reached = 0
        while start is not None:
            cut = self._cut(start, reached)
            end = start + len(self._text[start:cut].rstrip())
            spans.append((start, end))
            following = self._next_word(cut)
            if following is None:
                break
            start, reached = self._overlapping_start(start, end, following), following
        return spans

    def _next_word(self, position: int) -> int | None:
        found = _NOT_SPACE.search(self._text, position)
        return found.start() if found else None

    def _cut(self, start: int, reached: int) -> int:
        """Return where the chunk from `start` ends: the best place beyond `reached`, the first new word."""
        high = start + self._size
        if high >= len(self._text):
            return len(self._text)
        # Each chunk must bring enough that is new, or a large overlap would make time quadratic.
        least = max(start, reached, start + self._overlap)
        fresh = least + max(1, (high - least) // 4) - 1
        section = self._section_cut(_Window(start, max(fresh, self._from(start, _SECTION_FROM)), high))
        if section is not None:
            return section
        ladder = ((_PARAGRAPH, _PARAGRAPH_FROM), (_LINE, _OTHER_FROM), (_SENTENCE, _OTHER_FROM), (_WORD, 0.0))
        in_rows = self._in_rows(high)
        for pattern, share in ladder:
            if in_rows and pattern is _SENTENCE:
                # Rows first: a chunk should not begin in the middle of one.
                cut = self._last(_LINE, _Window(start, fresh, high))
                if cut is not None:
                    return cut
            cut = self._last(pattern, _Window(start, max(fresh, self._from(start, share)), high))
            if cut is not None:
                return self._before_title(cut, fresh) if pattern is _PARAGRAPH else cut
        return self._character_cut(_Window(start, max(least, start), high))

    def _before_title(self, cut: int, fresh: int) -> int:
        """Return the cut, or the break before it if between them stands what looks like a title."""
        body = self._text[fresh:cut].rstrip()
        at = body.rfind("\n\n")
        tail = body[at + 2 :].strip()
        looks_like_title = 0 < len(tail) <= _TITLE_LENGTH and "\n" not in tail and tail[-1].isalnum()
        return fresh + at + 2 if at > 0 and looks_like_title else cut

    def _from(self, start: int, share: float) -> int:
        return start + int(self._size * share)

    def _section_cut(self, window: _Window) -> int | None:
        """Return the last heading's start in the window, if there is one."""
        at = bisect_right(self._sections, window.high) - 1
        return self._sections[at] if at >= 0 and self._sections[at] > window.low else None

    def _last(self, pattern: re.Pattern[str], window: _Window) -> int | None:
        """Return the last match's end in the window; a match may reach beyond it with its white space."""
        cut = None
        for found in pattern.finditer(self._text, window.low, window.high + 2):
            edge = found.start() + len(found.group().rstrip())
            if edge <= window.high and edge > window.start and self._whole(found.end()):
                cut = max(edge, min(found.end(), window.high))
        return cut if cut is not None and cut > window.low else None

    def _whole(self, position: int) -> bool:
        """Whether a cut here leaves no combining mark without its letter."""
        return not regex.match(r"[\p{M}\u200d]", self._text, pos=position)

    def _character_cut(self, window: _Window) -> int:
        """Return the last end of a whole grapheme in the window; the window's end if there is none."""
        cut = window.high
        for found in _GRAPHEME.finditer(self._text, window.start, window.high + 8):
            if found.end() > window.high:
                break
            cut = found.end()
        return cut if cut > window.low else window.high

    def _in_rows(self, position: int) -> bool:
        at = bisect_right(self._row_starts, position) - 1
        return at >= 0 and position < self._row_ends[at]

    def _overlapping_start(self, start: int, end: int, following: int) -> int:
        """Return where the next chunk starts: a line, sentence or word within the overlap, or `following`."""
        # There must be room for something new behind what is repeated and the white space after it.
        earliest = max(end - self._overlap, start + 1, following + 1 - self._size)
        at = bisect_left(self._sections, earliest)
        if earliest >= end or (at < len(self._sections) and self._sections[at] <= following):
            return following
        in_rows = self._in_rows(end - 1)
        half = end - self._overlap // 2
        for pattern, latest in (
            ((_LINE, end),) if in_rows else ((_SENTENCE, half), (_LINE, half), (_WORD, end))
        ):
            found = self._first(pattern, earliest, latest)
            if found is not None:
                return found
        if in_rows or _WORD.search(self._text, start, end):
            return following
        found = self._grapheme_start(earliest, end)
        return following if found is None else found

    def _first(self, pattern: re.Pattern[str], earliest: int, latest: int) -> int | None:
        """Return the first match's end from `earliest` to before `latest`."""
        for found in pattern.finditer(self._text, max(earliest - 1, 0), latest):
            if earliest <= found.end() < latest and self._whole(found.end()):
                return found.end()
        return None

    def _grapheme_start(self, earliest: int, end: int) -> int | None:
        for found in _GRAPHEME.finditer(self._text, max(0, earliest - 32), end):
            if found.start() >= earliest:
                return int(found.start())
        return None


def _with_marks(text: str, position: int) -> int:
    """Return a heading's start with the `#` marks before it, if nothing else stands on its line."""
    lead = text[max(0, position - 16) : position]
    begin = position - len(lead) + len(lead.rstrip("# \t"))
    return begin if begin == 0 or text[begin - 1] == "\n" else position
