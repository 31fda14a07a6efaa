"""What a terminal shows of an answer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loreline.cli.terminal import PlainWords, plain_words


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        (r"5 \* 4 is \[20\] [1]", "5 * 4 is [20] [1]"),
        (r"1\. is no list", "1. is no list"),
        ("`a\\*b` and \\`c\\`", "`a\\*b` and `c`"),
        ("```\nC:\\\\temp\\[1\\]\n```", "```\nC:\\\\temp\\[1\\]\n```"),
        (r"C:\temp", r"C:\temp"),
        ("a lone ` stays", "a lone ` stays"),
        ("ends with \\", "ends with \\"),
    ],
)
def test_escapes_go_and_code_stays(markdown: str, plain: str) -> None:
    assert plain_words(markdown) == plain


@given(st.text(alphabet="ab*[\\` \n"), st.lists(st.integers(0, 40)))
@example("[[`\\[`", [5])
def test_however_an_answer_is_cut_the_same_words_are_shown(text: str, cuts: list[int]) -> None:
    plain = PlainWords()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert "".join(map(plain.feed, pieces)) + plain.close() == plain_words(text)


def test_a_code_span_that_never_ends_does_not_hold_back_the_answer() -> None:
    plain = PlainWords()
    shown = "".join(plain.feed(word) for word in ["open ` ", *["word "] * 1000])
    assert len(shown) > 2000
