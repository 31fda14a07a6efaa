from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from loreline.processors.parsers import read
from loreline.schemas.errors import DocumentError

DocxMaker = Callable[[str], bytes]


def paragraph(words: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{words}</w:t></w:r></w:p>"


def test_tracked_insertions_are_text_and_deletions_are_not(make_docx: DocxMaker) -> None:
    body = (
        '<w:p><w:r><w:t xml:space="preserve">Notice is </w:t></w:r>'
        '<w:del w:id="1" w:author="A"><w:r><w:delText>thirty</w:delText></w:r></w:del>'
        '<w:ins w:id="2" w:author="A"><w:r><w:t>sixty</w:t></w:r>'
        '<w:del w:id="3" w:author="B"><w:r><w:delText> or ninety</w:delText></w:r></w:del></w:ins>'
        '<w:r><w:t xml:space="preserve"> days.</w:t></w:r></w:p>'
        f"<w:sdt><w:sdtContent>{paragraph('Held by Nordbank.')}</w:sdtContent></w:sdt>"
    )
    doc = read(make_docx(body), suffix=".docx")
    assert "Notice is sixty days." in doc.text
    assert "thirty" not in doc.text
    assert "ninety" not in doc.text
    assert doc.text.count("Held by Nordbank.") == 1


def test_headings_have_levels_and_tables_have_rows(make_docx: DocxMaker) -> None:
    cells = "".join(f"<w:tc>{paragraph(words)}</w:tc>" for words in ("Fuel", "117,500"))
    body = (
        paragraph("Budget", "Heading1")
        + paragraph("Spending", "Heading2")
        + "<!-- a comment that some readers take for an element -->"
        + "<w:tbl><!-- another --><w:tblGrid><w:gridCol/><w:gridCol/></w:tblGrid>"
        + f"<w:tr>{cells}</w:tr><w:tr>{cells}</w:tr></w:tbl>"
        + paragraph("The end.")
    )
    doc = read(make_docx(body), suffix=".docx")
    assert [(b.kind, b.level, doc.text[b.start : b.end]) for b in doc.blocks] == [
        ("heading", 1, "Budget"),
        ("heading", 2, "Spending"),
        ("table", None, "Fuel | 117,500\nFuel | 117,500"),
        ("paragraph", None, "The end."),
    ]
    assert doc.title == "Budget"


def test_a_word_that_changes_looks_halfway_stays_one_word(make_docx: DocxMaker) -> None:
    body = (
        "<w:p><w:r><w:t>H</w:t></w:r><w:r><w:rPr><w:vertAlign w:val='subscript'/></w:rPr><w:t>2</w:t></w:r>"
        "<w:r><w:t>O and ita</w:t></w:r><w:r><w:rPr><w:i/></w:rPr><w:t>lic</w:t></w:r>"
        "<w:hyperlink w:anchor='x'><w:r><w:t>s</w:t></w:r></w:hyperlink><w:r><w:t>.</w:t></w:r></w:p>"
    )
    assert read(make_docx(body), suffix=".docx").text == "H2O and italics."


def test_a_table_without_a_grid_is_read(make_docx: DocxMaker) -> None:
    cells = "".join(f"<w:tc>{paragraph(words)}</w:tc>" for words in ("Fuel", "117,500"))
    assert read(make_docx(f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"), suffix=".docx").text == "Fuel | 117,500"


def code_of(data: bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        read(data, suffix=".docx")
    return caught.value.code


def test_a_bomb_is_refused_before_it_is_unpacked(make_docx: DocxMaker) -> None:
    assert code_of(make_docx(paragraph(" " * 20_000_000))) == "too_large"


def test_too_many_paragraphs_are_refused(make_docx: DocxMaker) -> None:
    assert code_of(make_docx("<w:p/>" * 150_000)) == "too_large"


def test_a_container_without_its_parts_is_corrupt() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", "<w:document")
    assert code_of(out.getvalue()) == "corrupt"
