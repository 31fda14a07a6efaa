"""Word's markup made plainer before docling reads it, so that no word is split, lost or refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.etree import _Element

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
# Docling makes a piece of each run that looks different and forgets whether a space stood between them.
_LOOKS = tuple(_W + name for name in ("b", "bCs", "i", "iCs", "u", "strike", "dstrike", "vertAlign"))


def plainer(name: str, content: bytes) -> bytes:
    """Return a member of a Word file without comments; the body also without looks and links.

    Docling takes an XML comment for an element and fails; it leaves out a table that does not say how
    many columns it has, which Word accepts. Members that are not well-formed XML are returned as they are.
    """
    if not (name.startswith("word/") and name.endswith(".xml")):
        return content
    content = _COMMENT.sub(b"", content) if b"<!--" in content else content
    return _body(content) if name == "word/document.xml" else content


def _body(content: bytes) -> bytes:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError:
        return content
    etree.strip_tags(root, _W + "hyperlink")
    for properties in root.iter(_W + "rPr"):
        for look in [child for child in properties if child.tag in _LOOKS]:
            properties.remove(look)
    for table in root.iter(_W + "tbl"):
        if table.find(_W + "tblGrid") is None:
            _add_grid(table)
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True))


def _add_grid(table: _Element) -> None:
    rows = table.findall(_W + "tr")
    columns = max((sum(map(_columns, row.findall(_W + "tc"))) for row in rows), default=0)
    grid = table.makeelement(_W + "tblGrid")
    grid.extend(table.makeelement(_W + "gridCol") for _ in range(min(columns, 1000)))
    first = table.find(_W + "tblPr")
    table.insert(0 if first is None else table.index(first) + 1, grid)


def _columns(cell: _Element) -> int:
    span = cell.find(f"{_W}tcPr/{_W}gridSpan")
    wide = "1" if span is None else span.get(_W + "val", "1")
    return int(wide) if wide.isdecimal() and len(wide) < 4 else 1
