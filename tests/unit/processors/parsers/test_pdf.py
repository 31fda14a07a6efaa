from __future__ import annotations

from collections.abc import Callable

import pytest

from loreline.processors.parsers import read
from loreline.processors.parsers.pdf_layout import cleaned, is_usable

PdfMaker = Callable[..., bytes]

LEFT = [f"Left line {at} tells of the harbour" for at in range(8)]
RIGHT = [f"Right line {at} tells of the island" for at in range(8)]


def test_lines_have_pages_and_boxes_in_user_space(make_pdf: PdfMaker) -> None:
    doc = read(
        make_pdf([(72, 700, 12, "First page words.")], [(100, 300, 12, "Second page words.")]), suffix=".pdf"
    )
    assert doc.page_count == 2
    assert [(b.page, doc.text[b.start : b.end]) for b in doc.blocks] == [
        (1, "First page words."),
        (2, "Second page words."),
    ]
    box = doc.blocks[1].box
    assert box is not None
    assert (box.page, round(box.x0)) == (2, 100)
    assert box.y0 <= 300 <= box.y1 <= 316
    assert 180 < box.x1 < 220


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_boxes_of_a_rotated_page_stay_in_unrotated_user_space(make_pdf: PdfMaker, rotate: int) -> None:
    doc = read(make_pdf([(72, 700, 12, "Turned words.")], rotate=rotate), suffix=".pdf")
    box = doc.blocks[0].box
    assert box is not None
    assert (round(box.x0), doc.text) == (72, "Turned words.")
    assert box.y0 <= 700 <= box.y1


def test_two_columns_drawn_row_by_row_are_read_one_after_the_other(make_pdf: PdfMaker) -> None:
    rows = [
        (x, 700 - 14 * at, 10, words) for at in range(8) for x, words in ((60, LEFT[at]), (320, RIGHT[at]))
    ]
    doc = read(make_pdf([(60, 740, 10, "A line across both columns, " + "wide " * 14), *rows]), suffix=".pdf")
    assert [doc.text.index(words) for words in [*LEFT, *RIGHT]] == sorted(
        doc.text.index(words) for words in [*LEFT, *RIGHT]
    )


def test_a_table_keeps_its_rows(make_pdf: PdfMaker) -> None:
    rows = [
        (x, 700 - 14 * at, 10, words)
        for at in range(8)
        for x, words in ((60, f"Item {at}"), (300, f"{at} pounds"))
    ]
    assert "Item 3  3 pounds\nItem 4  4 pounds" in read(make_pdf(rows), suffix=".pdf").text


def test_larger_lines_are_headings_and_a_long_one_is_whole(make_pdf: PdfMaker) -> None:
    body = [
        (72, 600 - 14 * at, 10, f"Body line {at} with a good many words in it to read.") for at in range(6)
    ]
    page = [
        (72, 760, 20, "A long title that"),
        (72, 736, 20, "needs two lines"),
        (72, 640, 14, "1. Engine"),
        *body,
    ]
    doc = read(make_pdf(page), suffix=".pdf")
    assert [(b.level, doc.text[b.start : b.end]) for b in doc.blocks if b.kind == "heading"] == [
        (1, "A long title that needs two lines"),
        (2, "1. Engine"),
    ]
    assert doc.title == "A long title that needs two lines"


def test_a_page_without_text_is_counted_and_a_file_of_them_is_empty(make_pdf: PdfMaker) -> None:
    doc = read(make_pdf([], [(72, 700, 12, "Words.")]), suffix=".pdf")
    assert (doc.page_count, {b.page for b in doc.blocks}) == (2, {2})
    assert read(make_pdf([], []), suffix=".pdf").text == ""


def test_a_useful_title_is_taken_and_a_generated_one_is_not(make_pdf: PdfMaker) -> None:
    page = [(72, 700, 12, "Words.")]
    assert read(make_pdf(page, title="Engine manual"), suffix=".pdf").title == "Engine manual"
    assert read(make_pdf(page, title="Microsoft Word - draft7.docx"), suffix=".pdf").title is None


def test_ligatures_become_letters_and_fractions_stay() -> None:
    assert cleaned("e\ufb03cient \ufb01sh 3½ x² \u00ad") == "efficient fish 3½ x² "


def test_a_page_of_non_characters_is_not_usable() -> None:
    assert is_usable("Hello there")
    assert not is_usable("\ue001\ue002\ue003 ab \ue004")
    assert not is_usable(" \n")
