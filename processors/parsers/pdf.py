"""PDF text layers, through PDFium: pages, lines with boxes, reading order.

PDFium is not thread-safe: read in processes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

from loreline.processors.parsers.assembly import Assembly
from loreline.processors.parsers.pdf_layout import (
    Line,
    cleaned,
    continues_heading,
    heading_levels,
    is_heading,
    is_usable,
    joined,
    line_pitch,
    reading_order,
    rounded,
    same_row,
    starts_paragraph,
)
from loreline.schemas.errors import DocumentError
from loreline.schemas.records import Box, ParsedDocument

READER = "pdfium-text/1"
MAX_PAGES = 10_000
_HYPHEN = "\ufffe"
_PASSWORD_ERRORS = (4, 5)


class _Placed(NamedTuple):
    line: Line
    box: Box


def read_pdf(data: bytes, *, suffix: str) -> ParsedDocument:
    """Read the text layer, one block a line, with its box in user space of the unrotated page.

    A page whose text layer is missing or made of non-characters adds no block; the pages skipped are
    `page_count` less the distinct pages of the blocks. A word broken by a hyphen at the end of a line is
    whole in the text.

    Raises:
        DocumentError: `encrypted`, `corrupt` or `too_large`.
    """
    document = _opened(data)
    try:
        count = len(document)
        if count > MAX_PAGES:
            raise DocumentError("too_large", f"The PDF has over {MAX_PAGES} pages; split it into parts.")
        pages = [(number, placed) for number in range(1, count + 1) if (placed := _page(document, number))]
        title = document.get_metadata_value("Title")
    finally:
        document.close()
    assembly = Assembly()
    levels = heading_levels([placed.line for _, page in pages for placed in page])
    for number, page in pages:
        _add_page(assembly, number, page, levels)
    return assembly.document(reader=READER, title=_useful_title(title), page_count=count)


def _opened(data: bytes) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) in _PASSWORD_ERRORS:
            raise DocumentError(
                "encrypted", "The PDF is password protected; save a copy without a password."
            ) from error
        raise DocumentError(
            "corrupt", "The PDF is damaged or cut off; open it in a viewer and print it to a new PDF."
        ) from error


def _useful_title(title: str) -> str | None:
    words = title.strip()
    generated = words.lower().startswith(
        ("microsoft word", "untitled", "(anonymous)", "powerpoint")
    ) or words.lower().endswith(
        (".doc", ".docx", ".tex", ".dvi", ".indd", ".pdf"),
    )
    return None if generated or not is_usable(words) else cleaned(words)


def _page(document: Any, number: int) -> list[_Placed]:
    """Return the lines of one page in reading order; none if the page cannot be read."""
    import pypdfium2

    try:
        page = document[number - 1]
    except pypdfium2.PdfiumError:
        return []
    try:
        text_page = page.get_textpage()
        try:
            raw = list(_lines(text_page, number, page.get_rotation() // 90 % 4))
        finally:
            text_page.close()
    except pypdfium2.PdfiumError:
        return []
    finally:
        page.close()
    if not is_usable("".join(placed.line.words for placed in raw)):
        return []
    placed_by_line = {id(placed.line): placed for placed in raw}
    return [placed_by_line[id(line)] for line in reading_order([placed.line for placed in raw])]


class _Run:
    """Characters of one line as they come."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.boxes: list[tuple[float, float, float, float]] = []

    def placed(self, page: int, turns: int, *, joins: bool) -> _Placed | None:
        words = "".join(self.text).rstrip()
        if not words.strip() or not self.boxes:
            return None
        x0, y0 = min(b[0] for b in self.boxes), min(b[1] for b in self.boxes)
        x1, y1 = max(b[2] for b in self.boxes), max(b[3] for b in self.boxes)
        shown = _shown((x0, y0, x1, y1), turns)
        heights = sorted(_shown(b, turns)[3] - _shown(b, turns)[1] for b in self.boxes)
        line = Line(words, *shown, size=heights[len(heights) // 2], joins=joins)
        return _Placed(line, Box(page=page, x0=x0, y0=y0, x1=x1, y1=y1))


def _shown(box: tuple[float, float, float, float], turns: int) -> tuple[float, float, float, float]:
    """Turn a box of the unrotated page clockwise by `turns` quarters, about the origin."""
    x0, y0, x1, y1 = box
    if turns == 1:
        return y0, -x1, y1, -x0
    if turns == 2:
        return -x1, -y1, -x0, -y0
    if turns == 3:
        return -y1, x0, -y0, x1
    return box


def _lines(text_page: Any, page: int, turns: int) -> Iterator[_Placed]:
    """Yield the page's lines in the file's order, split where a column's gap stands inside one."""
    run = _Run()
    for character, box in _characters(text_page):
        wide_gap = box is not None and run.boxes and _is_gap(run.boxes[-1], box, turns)
        if character in "\r\n" or character == _HYPHEN or wide_gap:
            placed = run.placed(page, turns, joins=character == _HYPHEN)
            if placed is not None:
                yield placed
            run = _Run()
            if character in "\r\n" or character == _HYPHEN:
                continue
        run.text.append(character)
        if box is not None:
            run.boxes.append(box)
    last = run.placed(page, turns, joins=False)
    if last is not None:
        yield last


def _is_gap(
    before: tuple[float, float, float, float], box: tuple[float, float, float, float], turns: int
) -> bool:
    """Whether two neighbours of a line are further apart than words of one sentence are."""
    left, right = _shown(before, turns), _shown(box, turns)
    height = max(left[3] - left[1], right[3] - right[1], 4.0)
    return right[0] - left[2] > 1.5 * height


def _characters(
    text_page: Any,
) -> Iterator[tuple[str, tuple[float, float, float, float] | None]]:
    """Yield each character with its cell; None for those PDFium made up (spaces, line ends)."""
    from pypdfium2 import raw

    rect = raw.FS_RECTF()
    high = 0
    for index in range(max(0, raw.FPDFText_CountChars(text_page))):
        code = raw.FPDFText_GetUnicode(text_page, index)
        if 0xD800 <= code <= 0xDBFF:
            high = code
            continue
        if 0xDC00 <= code <= 0xDFFF:
            code = 0x10000 + ((high - 0xD800) << 10) + code - 0xDC00 if high else 0xFFFD
        high = 0
        character = _HYPHEN if code in (0xFFFE, 0x2) else chr(code)
        if character.isspace() or character == _HYPHEN or raw.FPDFText_IsGenerated(text_page, index) == 1:
            yield character, None
            continue
        known = raw.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(rect))
        yield character, (rect.left, rect.bottom, rect.right, rect.top) if known else None


def _add_page(assembly: Assembly, number: int, page: list[_Placed], levels: dict[float, int]) -> None:
    pitch = line_pitch([placed.line for placed in page])
    before: Line | None = None
    lines = list(_with_whole_headings(page, levels))
    for (line, box), after in zip(lines, [*lines[1:], None], strict=True):
        words = cleaned(line.words).strip()
        if before is None:
            gap = "\n\n"
        elif before.joins:
            gap = ""
        elif same_row(before, line):
            gap = "  "
        else:
            gap = "\n\n" if starts_paragraph(before, line, pitch=pitch) else "\n"
        alone = gap == "\n\n" and not (after and same_row(line, after.line))
        if alone and is_heading(line, levels):
            assembly.add("heading", words, gap=gap, level=levels[rounded(line.size)], page=number, box=box)
        else:
            assembly.add("line", words, gap=gap, page=number, box=box)
        before = line if words else before


def _with_whole_headings(page: list[_Placed], levels: dict[float, int]) -> Iterator[_Placed]:
    """Yield the page's lines with the lines of one long heading joined."""
    held: _Placed | None = None
    for placed in page:
        if held is not None and continues_heading(held.line, placed.line, levels):
            held = _Placed(joined(held.line, placed.line), _union(held.box, placed.box))
            continue
        if held is not None:
            yield held
        held = placed
    if held is not None:
        yield held


def _union(one: Box, other: Box) -> Box:
    return Box(
        page=one.page,
        x0=min(one.x0, other.x0),
        y0=min(one.y0, other.y0),
        x1=max(one.x1, other.x1),
        y1=max(one.y1, other.y1),
    )
