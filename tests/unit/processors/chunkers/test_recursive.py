from __future__ import annotations

import time
from itertools import pairwise

import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loreline.processors.chunkers import CHUNKERS
from loreline.processors.chunkers.tokens import cl100k_counter
from loreline.processors.parsers import read
from loreline.schemas.records import Block, Box, Chunk, ParsedDocument


def document(text: str, *blocks: Block) -> ParsedDocument:
    return ParsedDocument(text=text, blocks=blocks, reader="made/1")


def chunked(doc: ParsedDocument, size: int, overlap: int = 0) -> list[Chunk]:
    return CHUNKERS["recursive_character"](doc, chunk_size=size, chunk_overlap=overlap, count_tokens=len)


PIECES = st.sampled_from(
    [
        "a",
        "word ",
        "longer-word ",
        ". ",
        "! ",
        "\n",
        "\n\n",
        " \n \n",
        "   ",
        "\t",
        "。",
        "港",
        "e\u0301",
        "👩‍👧",
        "\u0301",
        "# h\n",
    ]
)
TEXTS = st.lists(PIECES, max_size=120).map("".join)


@st.composite
def documents(draw: st.DrawFn) -> ParsedDocument:
    text = draw(TEXTS)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    kinds = st.sampled_from(["paragraph", "heading", "table", "line", "code"])
    return document(
        text,
        *(
            Block(kind=draw(kinds), start=a, end=b, level=draw(st.integers(1, 3)), page=1 + at)
            for at, (a, b) in enumerate(pairwise(cuts))
        ),
    )


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), st.integers(1, 60), st.data())
def test_chunks_are_exact_small_ordered_and_cover_every_word(
    doc: ParsedDocument, size: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    chunks = chunked(doc, size, overlap)
    covered: set[int] = set()
    for at, chunk in enumerate(chunks):
        assert chunk.chunk_index == at
        assert chunk.content == doc.text[chunk.start : chunk.end]
        assert 0 < len(chunk.content) <= size
        assert chunk.content == chunk.content.strip()
        covered.update(range(chunk.start, chunk.end))
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        assert before.end - after.start <= overlap
    assert all(at in covered for at, character in enumerate(doc.text) if not character.isspace())
    assert chunks == chunked(doc, size, overlap)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(st.sampled_from(["e\u0301", "👩‍👩‍👧‍👦", "🇩🇪", "각", "x", "n\u0303\u0323"]), max_size=60).map(
        "".join
    )
)
def test_no_grapheme_is_split_where_it_fits_a_chunk(text: str) -> None:
    edges = {0} | {found.end() for found in regex.finditer(r"\X", text)}
    for chunk in chunked(document(text), 12, 4):
        assert chunk.start in edges
        assert chunk.end in edges


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "\n" * 1_000_000 + "x",
        "a" + " " * 1_000_000 + "b",
        "abc\n" * 250_000,
        "e" + "\u0301" * 1_000_000,
        "港の切符売り場は七時に開きます。" * 60_000,
    ],
    ids=["one word", "newlines", "spaces", "short lines", "one grapheme", "no spaces"],
)
def test_time_is_linear_in_the_text(text: str) -> None:
    began = time.process_time()
    chunks = chunked(document(text), 1600, 200)
    assert time.process_time() - began < 10
    assert len(chunks) <= 2 + len(text) // 700


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, -1), (10, 20)])
def test_sizes_that_make_no_sense_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="chunk_overlap"):
        chunked(document("words"), size, overlap)


def test_white_space_makes_no_chunk() -> None:
    assert chunked(document(" \n\n "), 10) == []
    assert chunked(document(""), 10) == []


def test_paragraphs_come_before_lines_before_sentences_before_words() -> None:
    assert [c.content for c in chunked(document("aa bb\ncc dd\n\nee ff"), 15)] == ["aa bb\ncc dd", "ee ff"]
    assert [c.content for c in chunked(document("aa bb cc\ndd ee ff"), 12)] == ["aa bb cc", "dd ee ff"]
    assert chunked(document("One two. Three four five."), 12)[0].content == "One two."
    assert [c.content for c in chunked(document("one two three four"), 9)] == ["one two", "three", "four"]
    assert [c.content for c in chunked(document("abcdefgh"), 3)] == ["abc", "def", "gh"]


def test_the_overlap_begins_with_a_sentence() -> None:
    text = "First sentence here now. Second sentence is here. Third one follows it."
    chunks = chunked(document(text), 52, 26)
    assert chunks[1].content == "Second sentence is here. Third one follows it."


def test_a_section_starts_its_own_chunk_and_repeats_nothing() -> None:
    source = "# One\n\n" + "Words of one. " * 5 + "\n\n## Two\n\n" + "Words of two. " * 5
    doc = read(source.encode(), suffix=".md")
    first, second = chunked(doc, 100, 40)
    assert second.content.startswith("## Two")
    assert (first.heading_path, second.heading_path) == (("One",), ("One", "Two"))


def test_heading_paths_follow_the_sections() -> None:
    source = (
        "# Install\n\n## Linux\n\n```bash\n# refresh first\napt-get update\napt-get install foo\n```\n\n"
        "# **Second** [part](x)\n\nNotes\n-----\n\nIt listens on port 8091.\n"
    )
    doc = read(source.encode(), suffix=".md")
    chunks = chunked(doc, 100, 20)
    paths = {word: c.heading_path for c in chunks for word in ("install foo", "8091") if word in c.content}
    assert paths == {"install foo": ("Install", "Linux"), "8091": ("Second part", "Notes")}
    assert any("# refresh first" in c.content and "install foo" in c.content for c in chunks)


def test_a_chunk_does_not_begin_in_the_middle_of_a_table_row() -> None:
    rows = [f"Row {at}. It has words. And more. " + "x " * 8 for at in range(20)]
    text = "\n".join(row.strip() for row in rows)
    chunks = chunked(document(text, Block(kind="table", start=0, end=len(text))), 120, 30)
    assert all(chunk.content.startswith("Row") for chunk in chunks)


def test_pages_boxes_and_extraction_come_from_the_blocks() -> None:
    boxes = [Box(page=at, x0=0, y0=0, x1=9, y1=9) for at in (1, 1, 2)]
    doc = document(
        "one line\ntwo line\nthree",
        Block(kind="line", start=0, end=8, page=1, box=boxes[0]),
        Block(kind="line", start=9, end=17, page=1, box=boxes[1]),
        Block(kind="line", start=18, end=23, page=2, box=boxes[2], extraction="ocr_fallback"),
    )
    whole = chunked(doc, 100)[0]
    assert (whole.page, whole.pages, whole.boxes, whole.extraction) == (
        1,
        (1, 2),
        tuple(boxes),
        "ocr_fallback",
    )
    first = chunked(doc, 9)[0]
    assert (first.pages, first.boxes, first.extraction) == ((1,), (boxes[0],), "text")


def test_tokens_are_counted_as_cl100k_does_and_nothing_is_special() -> None:
    count = cl100k_counter()
    assert count("The ferry leaves at nine.") == 6
    assert count("<|endoftext|>") > 1
