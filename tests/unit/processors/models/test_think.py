from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loreline.processors.models.think import ThinkSplitter

PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<",
        "</",
        "think>",
        "<thi",
        "nk>",
        " ",
        "\n\n",
        "hm",
        "Yes",
        "é",
        "<b>",
        "the <think> tag",
    ]
)


def split(fragments: list[str], *, starts_inside: bool = False) -> tuple[str, str]:
    splitter = ThinkSplitter(starts_inside=starts_inside)
    deltas = [delta for fragment in fragments for delta in splitter.feed(fragment)] + splitter.finish()
    assert all(delta.text for delta in deltas)
    return (
        "".join(delta.text for delta in deltas if delta.kind == "reasoning"),
        "".join(delta.text for delta in deltas if delta.kind == "token"),
    )


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("Paris.", "", "Paris."),
        ("<think>capital?</think>\n\nParis.", "capital?", "Paris."),
        ("\n<think>\ncapital?\n</think>\n\nParis.\n", "capital?", "Paris.\n"),
        ("<think></think>Paris.", "", "Paris."),
        ("<think>a</think><think>b</think>Paris.", "ab", "Paris."),
        ("<think>never closed", "never closed", ""),
        ("<think>a < b </thin", "a < b </thin", ""),
        ("The <think> tag opens a thought.</think>", "", "The <think> tag opens a thought.</think>"),
        ("<thin", "", "<thin"),
        ("<thinking about it", "", "<thinking about it"),
        ("   ", "", ""),
        ("", "", ""),
    ],
)
def test_thoughts_and_answer_are_told_apart(text: str, reasoning: str, answer: str) -> None:
    assert split([text]) == (reasoning, answer)
    assert split(list(text)) == (reasoning, answer)


def test_a_block_the_prompt_has_opened_is_reasoning_from_the_first_word() -> None:
    assert split(["capital?</think>Paris."], starts_inside=True) == ("capital?", "Paris.")


@given(pieces=st.lists(PIECES, max_size=12), data=st.data(), starts_inside=st.booleans())
def test_any_cut_of_the_text_gives_the_same_reasoning_and_answer(
    pieces: list[str], data: st.DataObject, starts_inside: bool
) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    fragments = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(fragments, starts_inside=starts_inside) == split([text], starts_inside=starts_inside)


def test_an_answer_is_given_out_as_it_comes() -> None:
    splitter = ThinkSplitter()
    assert [delta.text for delta in splitter.feed("Paris")] == ["Paris"]
    assert [delta.text for delta in splitter.feed(" is <")] == [" is <"]
