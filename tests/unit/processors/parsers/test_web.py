from __future__ import annotations

import pytest

from loreline.processors.parsers import read
from loreline.processors.parsers.web import decoded

PAGE = """<!DOCTYPE html><html><head><title> Fares &amp;
 times </title><style>p {color: red}</style><script>var a = "<p>not text</p>";</script></head>
<body><nav><a href="/">Home</a></nav><h1>Fares</h1><p>An <b>adult</b> single costs 7<sup>.20</sup>
pounds.<br>Children pay half.</p><div hidden>hidden words</div><!-- a comment -->
<ul><li>first<ul><li>inner</li></ul></li><li><p>second</p></li></ul><ol><li>one</li><li>two</li></ol>
<h2>Times</h2><table><caption>Summer</caption><tr><th>From</th><th>To</th></tr>
<tr><td>07:10</td><td><p>07:55</p></td></tr></table>
<pre>
  keep   this
</pre>tail words</body></html>"""


def test_a_page_becomes_headings_paragraphs_lists_and_rows() -> None:
    doc = read(PAGE.encode(), suffix=".html")
    assert doc.title == "Fares & times"
    assert [(b.kind, b.level, doc.text[b.start : b.end]) for b in doc.blocks] == [
        ("heading", 1, "Fares"),
        ("paragraph", None, "An adult single costs 7.20 pounds.\nChildren pay half."),
        ("list", None, "- first"),
        ("list", None, "  - inner"),
        ("list", None, "- second"),
        ("list", None, "1. one"),
        ("list", None, "2. two"),
        ("heading", 2, "Times"),
        ("table", None, "Summer\nFrom | To\n07:10 | 07:55"),
        ("code", None, "  keep   this"),
        ("paragraph", None, "tail words"),
    ]


def test_a_layout_table_is_read_as_text_and_a_table_in_it_as_rows() -> None:
    page = "<table><tr><td><h1>Menu</h1><table><tr><td>a</td><td>b</td></tr></table></td></tr></table>"
    doc = read(page.encode(), suffix=".htm")
    assert [(b.kind, doc.text[b.start : b.end]) for b in doc.blocks] == [
        ("heading", "Menu"),
        ("table", "a | b"),
    ]


@pytest.mark.parametrize("depth", [500, 3000, 100_000])
def test_no_word_is_lost_however_deep_the_nesting(depth: int) -> None:
    page = f"<p>before</p>{'<div>' * depth}deep{'</div>' * depth}<script>no</script><p>after</p>"
    assert read(page.encode(), suffix=".html").text.split() == ["before", "deep", "after"]


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<script>", "<table><tr><td>x", "<a href='", "</p>", "<li>", "&amp"]
)
def test_a_page_of_broken_markup_ends_soon(piece: str) -> None:
    read(f"<html>{piece * 50_000}".encode(), suffix=".html")


def test_the_declared_encoding_is_used_where_its_bytes_agree() -> None:
    meta = '<meta http-equiv="Content-Type" content="text/html; charset={}"><p>{}</p>'
    assert "Łódź" in decoded(meta.format("iso-8859-2", "Łódź").encode("iso-8859-2"))
    assert "“quoted”" in decoded(meta.format("iso-8859-1", "“quoted”").encode("cp1252"))
    assert "Größe" in decoded(meta.format("shift_jis-wrong", "Größe").encode())
    assert "Größe" in decoded(meta.format("utf-8", "Größe und Übermut").encode("cp1252"))
    assert "Größe" in decoded(meta.format("hex", "Größe").encode())


def test_xhtml_with_a_declaration_is_read() -> None:
    page = '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml"><body><p>Größe</p></body></html>'
    assert read(page.encode(), suffix=".xhtml").text == "Größe"


def test_utf16_without_a_mark_is_read() -> None:
    page = "<html><body><p>The ferry leaves at nine, says the board.</p></body></html>"
    assert read(page.encode("utf-16-le"), suffix=".html").text == "The ferry leaves at nine, says the board."
