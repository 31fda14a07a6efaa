"""Word documents, through docling."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import ParseError

from loreline.processors.parsers.archives import check_container, read_member, rewritten
from loreline.processors.parsers.assembly import Assembly, Kind
from loreline.processors.parsers.office_markup import plainer
from loreline.schemas.errors import DocumentError
from loreline.schemas.records import ParsedDocument

MAX_PARAGRAPHS = 100_000
_BODY = "word/document.xml"
_MAX_BODY_BYTES = 128 * 1024 * 1024
_KINDS: dict[str, Kind] = {"code": "code", "caption": "caption", "list_item": "list"}


def read_docx(data: bytes, *, suffix: str) -> ParsedDocument:
    """Read `.docx`: tracked insertions are text, tracked deletions are not; pages are unknown.

    Raises:
        DocumentError: `corrupt`, `encrypted` or `too_large`.
    """
    check_container(data)
    body = read_member(data, _BODY, limit_bytes=_MAX_BODY_BYTES)
    if len(re.findall(rb"<w:p[ />]", body)) > MAX_PARAGRAPHS:
        raise DocumentError(
            "too_large", f"The document has over {MAX_PARAGRAPHS} paragraphs; split it into parts."
        )
    document, version = _converted(data)
    assembly = Assembly()
    titled = any(_label(item) == "title" for item in document.texts)
    _Walk(assembly, document, top_level=2 if titled else 1).children(document.body)
    return assembly.document(reader=f"docling-docx/{version}")


def _converted(data: bytes) -> tuple[Any, str]:
    from importlib.metadata import version

    from docling.datamodel.base_models import DocumentStream, InputFormat
    from docling.document_converter import DocumentConverter
    from docling.exceptions import ConversionError

    converter = DocumentConverter(allowed_formats=[InputFormat.DOCX])
    source = DocumentStream(name="document.docx", stream=io.BytesIO(rewritten(data, plainer)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return converter.convert(source).document, version("docling-slim")
    except (ConversionError, ParseError, RuntimeError, KeyError, ValueError) as error:
        raise DocumentError(
            "corrupt", "The document could not be opened; open it in a word processor and save it again."
        ) from error


def _label(item: Any) -> str:
    return str(getattr(getattr(item, "label", None), "value", ""))


def _words(item: Any) -> str:
    return str(getattr(item, "text", None) or "")


class _Walk:
    """Docling's tree in reading order, as blocks."""

    def __init__(self, assembly: Assembly, document: Any, *, top_level: int) -> None:
        self._assembly = assembly
        self._document = document
        self._top_level = top_level
        self._last_was_list = False

    def children(self, node: Any, *, indent: int = -1) -> None:
        for reference in node.children:
            self._item(reference.resolve(self._document), indent=indent)

    def _item(self, item: Any, *, indent: int) -> None:
        label = _label(item)
        layer = str(getattr(getattr(item, "content_layer", None), "value", "body"))
        if layer != "body":
            return
        if label == "inline":
            self._add("paragraph", _joined(self._inline_texts(item)))
            return
        if label in ("list", "ordered_list"):
            self.children(item, indent=indent + 1)
            return
        if label == "table":
            self._add("table", _table_text(item, self._document))
            return
        self._text(item, label, indent)
        if item.children and not self._is_inline_wrapper(item):
            self.children(item, indent=indent)

    def _is_inline_wrapper(self, item: Any) -> bool:
        """Whether the item's own text stands in an inline group below it (list items with links)."""
        first = item.children[0].resolve(self._document) if item.children else None
        if _label(first) != "inline" or _words(item):
            return False
        for reference in item.children[1:]:
            self._item(reference.resolve(self._document), indent=0)
        return True

    def _inline_texts(self, item: Any) -> list[str]:
        texts: list[str] = []
        for reference in item.children:
            child = reference.resolve(self._document)
            texts.append(_words(child))
            texts.extend(self._inline_texts(child))
        return texts

    def _text(self, item: Any, label: str, indent: int) -> None:
        text = _words(item)
        if not text and item.children:
            first = item.children[0].resolve(self._document)
            text = _joined(self._inline_texts(first)) if _label(first) == "inline" else ""
        if label == "title":
            self._add("heading", text, level=1)
        elif label == "section_header":
            self._add("heading", text, level=item.level + self._top_level - 1)
        elif label == "list_item":
            marker = (item.marker or "-").strip() or "-"
            self._add("list", f"{'  ' * max(indent, 0)}{marker} {text}" if text.strip() else "")
        else:
            self._add(_KINDS.get(label, "paragraph"), text)

    def _add(self, kind: Kind, text: str, *, level: int | None = None) -> None:
        if not text.strip():
            return
        gap = "\n" if kind == "list" and self._last_was_list else "\n\n"
        self._last_was_list = kind == "list"
        text = text.rstrip() if kind in ("list", "code") else text.strip()
        if kind == "heading":
            text = " ".join(text.split())
        self._assembly.add(kind, text, gap=gap, level=level)


def _joined(pieces: Iterable[str]) -> str:
    """Runs of one paragraph with a space between, none before closing punctuation or after an opening one."""
    joined = ""
    for piece in (piece.strip() for piece in pieces if piece.strip()):
        glued = not joined or piece[0] in ".,;:!?)]}’”%" or joined[-1] in "([{“‘/"
        joined += piece if glued else f" {piece}"
    return joined


def _table_text(table: Any, document: Any) -> str:
    """One line a row, cells parted by ` | `; a cell spanning several places is written once."""
    rows: list[str] = []
    for row in table.data.grid:
        cells: list[str] = []
        seen: set[int] = set()
        for cell in row:
            if id(cell) in seen:
                continue
            seen.add(id(cell))
            cells.append(" ".join(str(cell._get_text(doc=document)).split()))
        if any(cells):
            rows.append(" | ".join(cells))
    return "\n".join(rows)
