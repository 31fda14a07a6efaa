"""From a stream of HTML tags and words to blocks. Pure: it knows neither bytes nor a parser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from loreline.processors.parsers.assembly import Assembly, Kind

NOISE = frozenset(
    {
        "script", "style", "template", "noscript", "nav", "svg", "iframe", "object", "select",
        "button", "canvas", "audio", "video",
    }
)  # fmt: skip
VOID = frozenset(
    {
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link",
        "meta", "source", "track", "wbr",
    }
)  # fmt: skip
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details",
        "dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form",
        "header", "hgroup", "hr", "html", "legend", "li", "main", "ol", "option",
        "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr",
        "ul",
    }
)  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_SPACE = re.compile(r"[ \t\n\r\f\u00a0]+")


@dataclass
class _List:
    ordered: bool
    number: int = 0


@dataclass
class _Table:
    rows: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    in_cell: bool = False


class Flow:
    """Takes `start`, `end` and `words` in document order and fills an assembly."""

    def __init__(self, assembly: Assembly) -> None:
        self.title = ""
        self._assembly = assembly
        self._pieces: list[str] = []
        self._lists: list[_List] = []
        self._table: _Table | None = None
        self._kind: Kind = "paragraph"
        self._level: int | None = None
        self._marker = ""
        self._after_list_item = False
        self._preformatted = 0
        self._in_title = False

    def start(self, tag: str, *, data_table: bool = False) -> None:
        """Open a tag; `data_table` says that a `table` holds rows of data, not layout."""
        if tag == "title":
            self._in_title = True
        elif tag == "br":
            self._pieces.append("\n")
        elif self._table is not None:
            self._start_in_table(tag)
        elif tag in _HEADINGS:
            self.flush()
            self._kind, self._level = "heading", _HEADINGS[tag]
        elif tag == "table" and data_table:
            self.flush()
            self._table = _Table()
        elif tag in _LISTS:
            self.flush()
            self._lists.append(_List(ordered=tag == "ol"))
        elif tag == "li":
            self.flush()
            self._open_item()
        elif tag in ("td", "th"):
            self._pieces.append(" ")
        elif tag in _BLOCKS:
            self._break()
            self._preformatted += tag == "pre"
            self._kind = "code" if tag == "pre" else self._kind

    def end(self, tag: str) -> None:
        """Close a tag."""
        if tag == "title":
            self._in_title = False
        elif self._table is not None:
            self._end_in_table(tag)
        elif tag in _LISTS:
            self.flush()
            if self._lists:
                self._lists.pop()
        elif tag in _HEADINGS or tag == "li":
            self.flush()
        elif tag in _BLOCKS:
            self._break()
            if tag == "pre":
                self._preformatted = max(0, self._preformatted - 1)

    def words(self, text: str) -> None:
        """Take text between tags."""
        if self._in_title:
            self.title += text
        else:
            self._pieces.append(text if self._preformatted else _SPACE.sub(" ", text))

    def flush(self) -> None:
        """End the block that is open."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if self._preformatted:
            text = text.strip("\n").rstrip()
        else:
            text = "\n".join(_SPACE.sub(" ", line).strip() for line in text.split("\n")).strip()
        if text:
            self._emit(text)
        self._kind, self._level, self._marker = "paragraph", None, ""

    def _emit(self, text: str) -> None:
        in_list = bool(self._lists) and self._kind == "paragraph"
        kind: Kind = "list" if in_list else self._kind
        if in_list:
            depth = "  " * min(len(self._lists) - 1, 8)
            text = depth + (self._marker or "  ") + text
        if kind == "heading":
            text = " ".join(text.split())
        gap = "\n" if in_list and self._after_list_item else "\n\n"
        self._assembly.add(kind, text, gap=gap, level=self._level)
        self._after_list_item = in_list

    def _break(self) -> None:
        # A block inside a heading or a list item parts words, it does not end the item.
        if self._kind == "heading" or (self._marker and not "".join(self._pieces).strip()):
            self._pieces.append(" ")
        else:
            self.flush()

    def _open_item(self) -> None:
        if not self._lists:
            self._lists.append(_List(ordered=False))
        current = self._lists[-1]
        current.number += 1
        self._marker = f"{current.number}. " if current.ordered else "- "

    def _start_in_table(self, tag: str) -> None:
        table = self._table
        if table is None:
            return
        if tag == "tr":
            self._end_row(table)
        elif tag in ("td", "th"):
            self._end_cell(table)
            table.in_cell = True
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._pieces.append(" ")

    def _end_in_table(self, tag: str) -> None:
        table = self._table
        if table is None:
            return
        if tag in ("td", "th"):
            self._end_cell(table)
        elif tag in ("tr", "table"):
            self._end_row(table)
        elif tag == "caption":
            self._end_cell(table, always=True)
            self._end_row(table)
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._pieces.append(" ")
        if tag == "table":
            self._table = None
            self._assembly.add("table", "\n".join(table.rows))
            self._after_list_item = False

    def _end_cell(self, table: _Table, *, always: bool = False) -> None:
        text = " ".join("".join(self._pieces).split())
        self._pieces.clear()
        if table.in_cell or (always and text):
            table.cells.append(text)
        table.in_cell = False

    def _end_row(self, table: _Table) -> None:
        self._end_cell(table)
        if any(table.cells):
            table.rows.append(" | ".join(table.cells))
        table.cells.clear()
