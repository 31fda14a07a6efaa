from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.processors.chat.conftest import make_passage

from loreline.processors.chat.citations import CitationStream, check_answer, numbered

THREE = [make_passage(f"text {rank}", rank=rank) for rank in (1, 2, 3)]

PIECES = st.sampled_from(
    [
        "[1]",
        "[2]",
        "[9]",
        "[1, 2]",
        "[1, 9]",
        "[1-3]",
        "[",
        "]",
        "(",
        ")",
        "【2】",
        "［7］",
        "1",
        "9",
        ",",
        " ",
        "\n",
        "\n\n",
        "`",
        "``",
        "```",
        "~~~",
        "\\",
        "a",
        "word",
        "x_y",
        ":",
        ".",
        "!",
        "^",
        "[^1]",
        "[0]",
        "[12",
        "-",
    ]
)
ANSWERS = st.lists(PIECES, max_size=25).map("".join) | st.text(alphabet="[]【】19, `\n\\a.(:-~", max_size=40)


def check(answer: str) -> tuple[str, list[int], tuple[int, ...]]:
    checked = check_answer(answer, THREE)
    return checked.text, [c.mark for c in checked.citations], checked.dropped


@pytest.mark.parametrize(
    ("answer", "text", "marks", "dropped"),
    [
        ("It sails [1].", "It sails [1].", [1], ()),
        ("It sails [9].", "It sails.", [], (9,)),
        ("It sails [9] at noon [2].", "It sails at noon [2].", [2], (9,)),
        ("So [2][1] it is [2].", "So [2][1] it is [2].", [2, 1], ()),
        ("So [1, 3] it is.", "So [1][3] it is.", [1, 3], ()),
        ("So [1; 7] it is.", "So [1] it is.", [1], (7,)),
        ("So [1-3] it is.", "So [1][2][3] it is.", [1, 2, 3], ()),
        ("So [2–4] it is.", "So [2][3] it is.", [2, 3], (4,)),
        ("是的【2】。", "是的[2]。", [2], ()),
        ("是的［ 8 ］。", "是的。", [], (8,)),
        ("Paris[1].", "Paris[1].", [1], ()),
        ("Paris[8].", "Paris.", [], (8,)),
        ("[0] nothing", "nothing", [], (0,)),
    ],
)
def test_valid_marks_stay_and_invalid_ones_go(
    answer: str, text: str, marks: list[int], dropped: tuple[int, ...]
) -> None:
    found, kept, gone = check(answer)
    assert (found.strip(), kept, gone) == (text, marks, dropped)


@pytest.mark.parametrize(
    "answer",
    [
        "Read a[9] first.",
        "Use argv[9] and my_list[7].",
        "Write `x [9]` in code.",
        "Block:\n```\nx [9]\n```\n",
        "Block:\n~~~\nx [9]\n",
        "A [9](https://example.org) link.",
        "A [text][9] link.",
        "A footnote[^9].",
        "[9]: https://example.org",
        "An escaped \\[9].",
        "In [2024] it sank.",
        "On the interval [0, 9].",
        "An open [12",
    ],
)
def test_what_only_looks_like_a_mark_is_left_alone(answer: str) -> None:
    assert check(answer) == (answer, [], ())


def test_a_backtick_that_nothing_closes_hides_no_mark() -> None:
    assert check("Costs 5` only [9].\n\nAnd `code`.") == ("Costs 5` only.\n\nAnd `code`.", [], (9,))


def test_citations_name_the_passages_by_final_rank() -> None:
    passages = [make_passage("a", rank=4), make_passage("b", rank=7)]
    checked = check_answer("One [7], two [4], three [1].", passages)
    assert [(c.mark, c.chunk_id) for c in checked.citations] == [(7, "c7"), (4, "c4")]
    assert checked.dropped == (1,)


def test_passages_without_a_trace_are_numbered_by_place() -> None:
    assert list(
        numbered([make_passage("a", rank=5, traced=False), make_passage("b", rank=6, traced=False)])
    ) == [1, 2]


@settings(max_examples=400)
@given(ANSWERS, st.lists(st.integers(1, 6), min_size=1, max_size=12))
def test_a_stream_says_what_the_whole_answer_says_however_it_is_cut(answer: str, sizes: list[int]) -> None:
    stream = CitationStream(THREE)
    out, at, turn = "", 0, 0
    while at < len(answer):
        size = sizes[turn % len(sizes)]
        out += stream.feed(answer[at : at + size])
        at, turn = at + size, turn + 1
    out += stream.close()
    whole = check_answer(answer, THREE)
    assert (out, stream.citations, stream.dropped) == (whole.text, whole.citations, whole.dropped)


@settings(max_examples=400)
@given(ANSWERS)
def test_no_invalid_mark_is_left_in_a_checked_answer(answer: str) -> None:
    assert check_answer(check_answer(answer, THREE).text, THREE).dropped == ()


@given(ANSWERS)
def test_an_answer_without_marks_is_not_touched(answer: str) -> None:
    plain = "".join(char for char in answer if not char.isdigit())
    assert check_answer(plain, THREE).text == plain


def test_a_stream_shows_text_as_it_comes_and_holds_only_what_is_undecided() -> None:
    stream = CitationStream(THREE)
    assert stream.feed("The ferry leaves") == "The ferry leaves"
    assert stream.feed(" at eight [1") == " at eight"
    assert stream.feed("2") == ""
    assert stream.feed("] daily") == " daily"
    assert stream.close() == ""
    assert stream.dropped == (12,)
