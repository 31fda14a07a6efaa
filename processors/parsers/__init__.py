"""Readers: a file's bytes in, one text with its blocks out.

To add a format, add a line to `PARSERS` and, if its bytes have a signature, a line to `sniffing`.
The readers' libraries are imported when a reader is called, never with this table.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from loreline.processors.parsers.sniffing import Kind, sniff
from loreline.schemas.errors import DocumentError
from loreline.schemas.records import ParsedDocument

MAX_BYTES = 256 * 1024 * 1024


class ReadFunction(Protocol):
    """Reads one family of formats."""

    def __call__(self, data: bytes, *, suffix: str) -> ParsedDocument:
        """Return the document; empty text if there is none to read.

        Raises:
            DocumentError: the document's own fault, with a code.
        """
        ...


class Parser(NamedTuple):
    """A family of formats: the endings its files have (lower case, with the dot) and its reader."""

    suffixes: tuple[str, ...]
    read: ReadFunction


def _text(data: bytes, *, suffix: str) -> ParsedDocument:
    from loreline.processors.parsers.text import read_text

    return read_text(data, suffix=suffix)


def _rst(data: bytes, *, suffix: str) -> ParsedDocument:
    from loreline.processors.parsers.text import read_rst

    return read_rst(data, suffix=suffix)


def _markdown(data: bytes, *, suffix: str) -> ParsedDocument:
    from loreline.processors.parsers.markdown import read_markdown

    return read_markdown(data, suffix=suffix)


def _web(data: bytes, *, suffix: str) -> ParsedDocument:
    from loreline.processors.parsers.web import read_html

    return read_html(data, suffix=suffix)


def _docx(data: bytes, *, suffix: str) -> ParsedDocument:
    from loreline.processors.parsers.office import read_docx

    return read_docx(data, suffix=suffix)


def _pdf(data: bytes, *, suffix: str) -> ParsedDocument:
    from loreline.processors.parsers.pdf import read_pdf

    return read_pdf(data, suffix=suffix)


PARSERS: dict[Kind, Parser] = {
    "text": Parser((".txt",), _text),
    "rst": Parser((".rst",), _rst),
    "markdown": Parser((".md",), _markdown),
    "web": Parser((".html", ".htm", ".xhtml"), _web),
    "docx": Parser((".docx",), _docx),
    "pdf": Parser((".pdf",), _pdf),
}
"""Every format that can be read."""


def kind_by_suffix(parsers: dict[Kind, Parser] = PARSERS) -> dict[str, Kind]:
    """Return ending -> family; the keys are all endings that a corpus may hold."""
    return {suffix: kind for kind, parser in parsers.items() for suffix in parser.suffixes}


def read(data: bytes, *, suffix: str) -> ParsedDocument:
    """Read a file by its content; the ending (`.md`, any case) only tells plain-text formats apart.

    An empty file is a document with empty text.

    Raises:
        DocumentError: `unsupported`, `binary_content`, `wrong_content`, `encrypted`, `corrupt`, `too_large`.
    """
    named = kind_by_suffix().get(suffix.lower())
    if named is None:
        endings = " ".join(sorted(kind_by_suffix()))
        raise DocumentError("unsupported", f"Files ending in {suffix!r} cannot be read; these can: {endings}")
    if len(data) > MAX_BYTES:
        raise DocumentError("too_large", f"The file is over {MAX_BYTES // 2**20} MB; split it into parts.")
    if not data.strip():
        return ParsedDocument(text="", blocks=(), reader="empty/1")
    return PARSERS[sniff(data, named)].read(data, suffix=suffix.lower())


__all__ = ["PARSERS", "Kind", "Parser", "ReadFunction", "kind_by_suffix", "read", "sniff"]
