"""Where a piece of a document stands: its section, its pages, its boxes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from loreline.schemas.records import Block, Box, Extraction, ParsedDocument

_MARKUP = re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)|[*`]+")
_MAX_TITLE = 160


class Placement(NamedTuple):
    """What a chunk tells about its place."""

    heading_path: tuple[str, ...]
    pages: tuple[int, ...]
    boxes: tuple[Box, ...]
    extraction: Extraction


class Placements:
    """Answers where `text[start:end]` of a document stands; built once a document."""

    def __init__(self, doc: ParsedDocument) -> None:
        self._blocks = doc.blocks
        self._starts = [block.start for block in doc.blocks]
        self._ends = [block.end for block in doc.blocks]
        headings = [block for block in doc.blocks if block.kind == "heading"]
        self._heading_starts = [heading.start for heading in headings]
        self._paths = _paths(doc.text, headings)

    def of(self, start: int, end: int) -> Placement:
        """Return the place of `text[start:end]`; its section is that of its first words under a heading."""
        blocks = self._blocks[bisect_right(self._ends, start) : bisect_left(self._starts, end)]
        first_words = next((block.start for block in blocks if block.kind != "heading"), end - 1)
        pages = dict.fromkeys(block.page for block in blocks if block.page is not None)
        boxes = tuple(block.box for block in blocks if block.box is not None)
        kinds = {block.extraction for block in blocks}
        extraction: Extraction = (
            "ocr" if "ocr" in kinds else "ocr_fallback" if "ocr_fallback" in kinds else "text"
        )
        return Placement(self._path_at(max(first_words, start)), tuple(pages), boxes, extraction)

    def _path_at(self, offset: int) -> tuple[str, ...]:
        at = bisect_right(self._heading_starts, offset)
        return self._paths[at - 1] if at else ()


def _paths(text: str, headings: list[Block]) -> list[tuple[str, ...]]:
    """For each heading, the titles of the sections open after it, outermost first."""
    paths: list[tuple[str, ...]] = []
    open_sections: list[tuple[int, str]] = []
    for heading in headings:
        level = heading.level or 1
        while open_sections and open_sections[-1][0] >= level:
            open_sections.pop()
        open_sections.append((level, _title(text[heading.start : heading.end])))
        paths.append(tuple(title for _, title in open_sections))
    return paths


def _title(source: str) -> str:
    """A heading's words on one line, without emphasis, code marks and link targets."""
    return " ".join(_MARKUP.sub(lambda found: found[1] or "", source).split())[:_MAX_TITLE]
