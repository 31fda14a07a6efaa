"""Markdown. The parsed text is the decoded source, so that what is quoted is what was written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from loreline.processors.parsers.assembly import Kind, Run, parsed
from loreline.processors.parsers.encodings import decode
from loreline.schemas.records import ParsedDocument

if TYPE_CHECKING:
    from markdown_it.token import Token

READER = "markdown/1"
_KINDS: dict[str, Kind] = {
    "paragraph_open": "paragraph",
    "blockquote_open": "paragraph",
    "html_block": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
}
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?P<body>(?:[^\n]*\n){0,200}?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TITLE_FIELD = re.compile(r"^title:[ \t]*(?P<title>[^\n]+)$", re.MULTILINE)
_CLOSING_HASHES = re.compile(r"[ \t]+#+[ \t]*$")


def read_markdown(data: bytes, *, suffix: str) -> ParsedDocument:
    """Read `.md` by CommonMark with tables; a heading's block covers its words, not its `#` or underline.

    A `#` inside a fence or an indented code block is code. Front matter stays in the text without a block;
    its `title` becomes the document's.

    Raises:
        DocumentError: `binary_content`.
    """
    text = decode(data).text
    front = _FRONT_MATTER.match(text)
    body_start = front.end() if front and ":" in front["body"] else 0
    runs = _runs(text, body_start)
    field = _TITLE_FIELD.search(text, 0, body_start) if body_start else None
    title = field["title"].strip().strip("'\"") if field else None
    return parsed(text, runs, reader=READER, title=title)


def _runs(text: str, body_start: int) -> list[Run]:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    # Inline parsing would cost most of the time and nothing here needs it.
    parser.core.ruler.enableOnly(["normalize", "block"])
    body = text[body_start:]
    starts = [body_start, *(body_start + m.end() for m in re.finditer("\n", body)), len(text) + 1]
    runs: list[Run] = []
    for token in parser.parse(body):
        if token.level or token.map is None or token.nesting < 0:
            continue
        first, last = token.map
        start, end = starts[first], min(starts[min(last, len(starts) - 1)] - 1, len(text))
        if token.type == "heading_open":
            runs.extend(_heading(text, token, start, end))
        elif token.type in _KINDS:
            runs.extend(_trimmed(text, _KINDS[token.type], start, end))
    return runs


def _trimmed(text: str, kind: Kind, start: int, end: int) -> list[Run]:
    piece = text[start:end].rstrip()
    return [Run(kind, start, start + len(piece))] if piece else []


def _heading(text: str, token: Token, start: int, end: int) -> list[Run]:
    source = text[start:end]
    if token.markup.startswith("#"):
        begin = source.index("#") + len(token.markup)
        finish = len(_CLOSING_HASHES.sub("", source.rstrip()))
    else:
        begin, finish = 0, source.rstrip().rfind("\n")
    words = source[begin:finish]
    begin += len(words) - len(words.lstrip())
    if not words.strip():
        return []
    return [
        Run("heading", start + begin, start + begin + len(words.strip()), level=int(token.tag[1:])),
    ]
