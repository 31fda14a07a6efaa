"""From lines on PDF pages to reading order, paragraphs and headings. Pure geometry; no PDF library.

Coordinates here are those of the page as it is shown: x to the right, y upward, in points.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

_MIN_COLUMN_LINES = 5
_MIN_COLUMN_CHARACTERS = 18
_HEADING_RATIO = 1.15
_PRESENTATION = re.compile("[\ufb00-\ufb4f\ufb50-\ufdff\ufe70-\ufefc\u2e80-\u2fdf\uf900-\ufaff]+")
_BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\ufffe\uffff\ue000-\uf8ff]")
MAX_BAD_SHARE = 0.1


class Line(NamedTuple):
    """A run of characters on one base line.

    Attributes:
        words: its text; `joins` says that its last word goes on in the next line.
        x0, y0, x1, y1: where it stands on the page as shown.
        size: height of its characters' cells, which follows the font size.
    """

    words: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    joins: bool = False


def cleaned(text: str) -> str:
    """Ligatures and presentation forms as plain letters (NFKC for those alone), controls left out.

    NFKC on everything would turn `3½` into `31⁄2` and `x²` into `x2`.
    """
    text = _PRESENTATION.sub(lambda found: unicodedata.normalize("NFKC", found.group()), text)
    text = text.replace("\u00ad", "").replace("\u00a0", " ").replace("\t", " ")
    return _BAD.sub("", text)


def is_usable(text: str) -> bool:
    """Whether a page's text layer can be read: something visible, at most a tenth of it not characters."""
    visible = [c for c in text if not c.isspace()]
    bad = len(_BAD.findall("".join(visible)))
    return bool(visible) and bad < len(visible) and bad <= MAX_BAD_SHARE * len(visible)


def reading_order(lines: Sequence[Line]) -> list[Line]:
    """Lines as a person reads them: the file's own order unless it runs across two columns of prose.

    Columns are read one after the other between the lines that span both; tables, whose cells are short,
    keep their rows.
    """
    gutter = _gutter(lines)
    if gutter is None:
        return list(lines)
    ordered: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for line in sorted(lines, key=lambda one: -(one.y0 + one.y1)):
        if line.x1 <= gutter:
            left.append(line)
        elif line.x0 >= gutter:
            right.append(line)
        else:
            ordered += [*left, *right, line]
            left, right = [], []
    return [*ordered, *left, *right]


def _gutter(lines: Sequence[Line]) -> float | None:
    """The x of a gap between two columns of prose, if the file's order jumps between them line by line."""
    if len(lines) < 2 * _MIN_COLUMN_LINES:
        return None
    middle = (min(line.x0 for line in lines) + max(line.x1 for line in lines)) / 2
    span = max(line.x1 for line in lines) - min(line.x0 for line in lines)
    for x in sorted({line.x0 - 1 for line in lines if abs(line.x0 - middle) < span / 6}):
        left = [line for line in lines if line.x1 <= x]
        right = [line for line in lines if line.x0 >= x]
        if len(left) + len(right) < 0.7 * len(lines):
            continue
        if all(_is_prose(side) for side in (left, right)) and _jumps(lines, x) > 0.25 * len(lines):
            return x
    return None


def _is_prose(side: Sequence[Line]) -> bool:
    return (
        len(side) >= _MIN_COLUMN_LINES and median(len(line.words) for line in side) >= _MIN_COLUMN_CHARACTERS
    )


def _jumps(lines: Sequence[Line], x: float) -> int:
    """How often the order goes from the left of x to its right or back."""
    sides = [line.x0 >= x for line in lines if line.x1 <= x or line.x0 >= x]
    return sum(1 for here, after in pairwise(sides) if here != after)


def starts_paragraph(before: Line, line: Line, *, pitch: float) -> bool:
    """Whether a line opens a paragraph: a wider gap than between lines, another size, or a new column."""
    if before.joins:
        return False
    if abs(line.size - before.size) > 0.12 * max(line.size, before.size):
        return True
    drop = (before.y0 + before.y1) / 2 - (line.y0 + line.y1) / 2
    return drop < -0.5 * line.size or drop > 1.35 * pitch


def line_pitch(lines: Sequence[Line]) -> float:
    """Return the usual distance between the base lines of a page, in points."""
    drops = [(a.y0 + a.y1 - b.y0 - b.y1) / 2 for a, b in pairwise(lines)]
    usual = [drop for drop in drops if drop > 2]
    return median(usual) if usual else 12.0


def heading_levels(lines: Sequence[Line]) -> dict[float, int]:
    """Size (rounded to half a point) -> heading level, for the up to four sizes above the text's."""
    weights: dict[float, int] = {}
    for line in lines:
        weights[rounded(line.size)] = weights.get(rounded(line.size), 0) + len(line.words)
    if not weights:
        return {}
    body = max(weights, key=lambda size: weights[size])
    total = sum(weights.values())
    larger = sorted((size for size in weights if size >= _HEADING_RATIO * body), reverse=True)
    if sum(weights[size] for size in larger) > 0.2 * total:
        return {}
    return {size: level for level, size in enumerate(larger[:4], start=1)}


def is_heading(line: Line, levels: dict[float, int]) -> bool:
    """Whether a line is a heading: larger than the text, short, beginning with a word or a number."""
    return (
        rounded(line.size) in levels
        and len(line.words) <= 160
        and sum(map(str.isalpha, line.words)) >= 2
        and line.words.lstrip()[0].isalnum()
        and not line.joins
    )


def continues_heading(before: Line, line: Line, levels: dict[float, int]) -> bool:
    """Whether both are lines of one heading: of one size, one right below the other."""
    drop = (before.y0 + before.y1 - line.y0 - line.y1) / 2
    return (
        rounded(before.size) == rounded(line.size)
        and 0.5 * line.size < drop < 1.4 * line.size
        and is_heading(before, levels)
        and is_heading(line, levels)
    )


def joined(before: Line, line: Line) -> Line:
    """Two lines of one heading as one."""
    return Line(
        f"{before.words.rstrip()} {line.words.lstrip()}",
        min(before.x0, line.x0),
        min(before.y0, line.y0),
        max(before.x1, line.x1),
        max(before.y1, line.y1),
        line.size,
    )


def same_row(before: Line, line: Line) -> bool:
    """Whether a piece goes on to the right of another on its base line, as the cells of a table do."""
    shared = min(before.y1, line.y1) - max(before.y0, line.y0)
    return shared > 0.5 * min(before.size, line.size) and line.x0 >= before.x1


def rounded(size: float) -> float:
    """Return a size to the half point, so that one font is one size."""
    return round(size * 2) / 2
