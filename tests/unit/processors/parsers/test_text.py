from __future__ import annotations

from loreline.processors.parsers import read
from loreline.schemas.records import ParsedDocument


def headings(doc: ParsedDocument) -> list[tuple[int | None, str]]:
    return [(b.level, doc.text[b.start : b.end]) for b in doc.blocks if b.kind == "heading"]


def test_a_text_file_is_its_own_text_in_paragraphs() -> None:
    doc = read(b"one\ntwo\n\n  \nthree\r\n", suffix=".txt")
    assert doc.text == "one\ntwo\n\n  \nthree\n"
    assert [doc.text[b.start : b.end] for b in doc.blocks] == ["one\ntwo", "three"]


def test_rst_levels_follow_the_order_of_adornments() -> None:
    source = (
        "=====\nGuide\n=====\n\nIntro.\n\nBoats\n-----\n\nTwo boats.\n\nKittiwake\n~~~~~~~~~\n\n"
        "Large.\n\nFares\n-----\n\n7.20 pounds.\n"
    )
    doc = read(source.encode(), suffix=".rst")
    assert doc.text == source
    assert doc.title == "Guide"
    assert headings(doc) == [(1, "Guide"), (2, "Boats"), (3, "Kittiwake"), (2, "Fares")]


def test_an_rst_table_rule_or_transition_is_no_heading() -> None:
    doc = read(b"====  ====\nA     B\n====  ====\n1     2\n====  ====\n\n----\n\nwords\n", suffix=".rst")
    assert headings(doc) == []


def test_markdown_hashes_in_code_are_not_headings() -> None:
    source = (
        "# Install\n\n## Linux ##\n\n```bash\n# refresh first\napt-get install foo\n```\n\n~~~\n# no\n~~~\n\n"
        "    # indented code\n\n# Second part\n\nNotes\n-----\n\nIt listens on port 8091.\n"
    )
    doc = read(source.encode(), suffix=".md")
    assert doc.text == source
    assert doc.title == "Install"
    assert headings(doc) == [(1, "Install"), (2, "Linux"), (1, "Second part"), (2, "Notes")]
    assert [b.kind for b in doc.blocks].count("code") == 3


def test_front_matter_stays_in_the_text_and_gives_the_title() -> None:
    source = "---\ntitle: 'Rules of the club'\ndate: 2024-01-01\n---\n# Rules\n\nOne vote each.\n"
    doc = read(source.encode(), suffix=".md")
    assert (doc.text, doc.title) == (source, "Rules of the club")
    assert headings(doc) == [(1, "Rules")]


def test_a_markdown_rule_at_the_top_is_not_front_matter() -> None:
    doc = read(b"---\n\n# Title\n\nwords\n\n---\n", suffix=".md")
    assert headings(doc) == [(1, "Title")]


def test_markdown_tables_and_lists_are_blocks() -> None:
    doc = read(b"| a | b |\n|---|---|\n| 1 | 2 |\n\n- x\n- y\n\n> quoted\n", suffix=".md")
    assert [b.kind for b in doc.blocks] == ["table", "list", "paragraph"]


def test_a_heading_inside_a_quotation_opens_no_section() -> None:
    assert headings(read(b"> # quoted\n\n- # item\n", suffix=".md")) == []


def test_a_file_of_millions_of_lines_does_not_make_millions_of_blocks() -> None:
    doc = read(b"x\n\n" * 60_000, suffix=".txt")
    assert len(doc.blocks) < 1000
    assert doc.text.count("x") == 60_000
