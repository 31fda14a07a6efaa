"""Plain text and reStructuredText. The parsed text is the decoded source; nothing is rewritten."""

from __future__ import annotations

import re

from loreline.processors.parsers.assembly import Run, paragraph_spans, parsed
from loreline.processors.parsers.encodings import decode
from loreline.schemas.records import ParsedDocument

READER = "text/1"
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*")


def read_text(data: bytes, *, suffix: str) -> ParsedDocument:
    """Read `.txt`: paragraphs are runs of lines between blank lines; there are no headings.

    Raises:
        DocumentError: `binary_content`.
    """
    text = decode(data).text
    return parsed(text, _paragraphs(text), reader=READER)


def read_rst(data: bytes, *, suffix: str) -> ParsedDocument:
    """Read `.rst`: a line underlined (and perhaps overlined) by punctuation opens a section.

    Levels follow the order in which adornment styles first appear (docutils' rule).

    Raises:
        DocumentError: `binary_content`.
    """
    text = decode(data).text
    runs: list[Run] = []
    position = 0
    for start, end, heading in _rst_headings(text):
        runs.extend(_paragraphs(text, start=position, end=start))
        runs.append(heading)
        position = end
    runs.extend(_paragraphs(text, start=position))
    return parsed(text, runs, reader=READER)


def _paragraphs(text: str, *, start: int = 0, end: int | None = None) -> list[Run]:
    return [Run("paragraph", *span) for span in paragraph_spans(text, start=start, end=end)]


def _rst_headings(text: str) -> list[tuple[int, int, Run]]:
    """Return (start, end, heading) per title; start and end take in the lines of punctuation around it."""
    lines: list[tuple[int, int]] = [m.span() for m in re.finditer(r"[^\n]*", text)]
    lines = [span for at, span in enumerate(lines) if at == 0 or span[0] != lines[at - 1][1]]
    styles: list[str] = []
    found: list[tuple[int, int, Run]] = []
    for above, title, below in zip([(0, 0), *lines], lines, lines[1:], strict=False):
        words = text[slice(*title)].rstrip()
        under = text[slice(*below)].rstrip()
        if not words.strip() or not _ADORNMENT.fullmatch(under) or _ADORNMENT.fullmatch(words):
            continue
        over = text[slice(*above)].rstrip() == under
        plain_above = not text[slice(*above)].strip() or above == (0, 0)
        if len(under) < len(words.strip()) or not (over or (plain_above and words[0] not in " \t")):
            continue
        style = under[0] * (2 if over else 1)
        if style not in styles:
            styles.append(style)
        begin = title[0] + len(words) - len(words.lstrip())
        heading = Run("heading", begin, title[0] + len(words), level=styles.index(style) + 1)
        found.append((above[0] if over else title[0], below[1], heading))
    return found
