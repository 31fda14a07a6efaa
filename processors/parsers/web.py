"""HTML: headings, paragraphs, lists and tables of the page; scripts, styles and navigation left out.

An own reader rather than docling's, which recurses (a nesting of 500 ends it) and needs minutes for ten
megabytes of small tags; this one is a flat walk over events.
"""

from __future__ import annotations

import codecs
import html
import re
from typing import TYPE_CHECKING

from loreline.processors.parsers.assembly import Assembly
from loreline.processors.parsers.encodings import decode, normalise_newlines
from loreline.processors.parsers.web_flow import NOISE, VOID, Flow
from loreline.schemas.errors import DocumentError
from loreline.schemas.records import ParsedDocument

if TYPE_CHECKING:
    from lxml.etree import _Element

READER = "web/1"
MAX_BYTES = 64 * 1024 * 1024
# libxml2 drops what is nested deeper than 2048, and what follows it.
_DEEP = 2000
_META = re.compile(rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)
_XML = re.compile(rb"\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_TOKEN = re.compile(r"<!--|-->|<(?P<close>/?)(?P<tag>[A-Za-z][A-Za-z0-9]*)[^<>]*>|[^<-]+|[<-]")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def read_html(data: bytes, *, suffix: str) -> ParsedDocument:
    """Read `.html`, `.htm`, `.xhtml`; a table row is one line with its cells parted by ` | `.

    Raises:
        DocumentError: `binary_content` or `too_large`.
    """
    if len(data) > MAX_BYTES:
        raise DocumentError("too_large", f"The page is over {MAX_BYTES // 2**20} MB; split it into parts.")
    source = _DECLARATION.sub("", decoded(data)).replace("\x00", "")
    assembly = Assembly()
    flow = Flow(assembly)
    if source.strip() and not _walk(source, flow):
        assembly = Assembly()
        flow = Flow(assembly)
        _flat(source, flow)
    flow.flush()
    return assembly.document(reader=READER, title=flow.title)


def decoded(data: bytes) -> str:
    """Return the page's text, by byte-order mark, by what it declares if its bytes agree, by heuristics."""
    marked = data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE))
    declared = _META.search(data[:8192]) or _XML.match(data[:512])
    if not marked and declared and b"\x00" not in data[:8192]:
        name = declared[1].decode("ascii").lower()
        # Browsers read these two as their Windows supersets (WHATWG Encoding Standard, section 4.2).
        name = {"iso-8859-1": "cp1252", "latin1": "cp1252", "iso-8859-9": "cp1254"}.get(name, name)
        try:
            if not name.startswith(("utf-16", "utf-32")) and codecs.lookup(name)._is_text_encoding:
                return normalise_newlines(data.decode(name))
        except (LookupError, UnicodeError):
            pass
    return decode(data).text


def _walk(source: str, flow: Flow) -> bool:
    """Feed the page's elements to the flow; False if it is nested too deep for the parser."""
    import lxml.html
    from lxml import etree

    parser = lxml.html.HTMLParser(huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = lxml.html.document_fromstring(source, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return False
    depth = 0
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = str(element.tag).rpartition("}")[2].lower()
        if event == "start":
            depth += 1
            if depth >= _DEEP:
                return False
            if _is_noise(element, tag):
                walk.skip_subtree()
                continue
            flow.start(tag, data_table=tag == "table" and element.find(".//table") is None)
            if element.text:
                flow.words(element.text)
            continue
        depth -= 1
        if not _is_noise(element, tag):
            flow.end(tag)
        if element.tail:
            flow.words(element.tail)
    return True


def _is_noise(element: _Element, tag: str) -> bool:
    if tag in NOISE:
        return True
    get = element.get
    return (
        get("hidden") is not None
        or get("aria-hidden") == "true"
        or get("role") in ("navigation", "search", "menu", "menubar")
        or bool(_HIDDEN_STYLE.search(get("style") or ""))
    )


def _flat(source: str, flow: Flow) -> None:
    """Read tags as they come, without a tree: structure may suffer, no word is lost."""
    skipping = ""
    for token in _TOKEN.finditer(source):
        tag = (token["tag"] or "").lower()
        if skipping:
            ends = token.group() == "-->" if skipping == "<!--" else bool(token["close"]) and tag == skipping
            skipping = "" if ends else skipping
        elif token.group() == "<!--":
            skipping = "<!--"
        elif not tag:
            flow.words(html.unescape(token.group()))
        elif tag in NOISE and not token["close"]:
            skipping = tag
        elif token["close"]:
            flow.end(tag)
        elif tag not in VOID or tag == "br":
            flow.start(tag)
