from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.processors.chat.conftest import make_passage

from loreline.processors.chat.prompts import (
    NO_PASSAGES,
    SYSTEM,
    TITLE_CHARS,
    answer_prompt,
    fit_history,
    fit_passages,
    passage_block,
    title_from_question,
)
from loreline.schemas.ports import ChatMessage


def count(text: str) -> int:
    return len(text.split())


def test_passages_are_numbered_by_final_rank_with_their_place() -> None:
    messages = answer_prompt(
        "When?",
        [make_passage("At eight.", rank=3, file_name="plan.pdf", page=2, heading="Summer > Boats")],
        history=[ChatMessage("user", "Hello"), ChatMessage("assistant", "Hi")],
    )
    assert [m.role for m in messages] == ["system", "user", "assistant", "user"]
    assert messages[0].content == SYSTEM
    assert "[3] plan.pdf, page 2, Summer > Boats\nAt eight." in messages[-1].content
    assert messages[-1].content.endswith("Question: When?")


def test_a_slide_is_called_a_slide() -> None:
    assert passage_block(1, make_passage("x", file_name="talk.pptx", page=4)).startswith(
        "[1] talk.pptx, slide 4\n"
    )


def test_without_passages_the_prompt_says_so() -> None:
    assert NO_PASSAGES in answer_prompt("When?", [])[-1].content


def test_two_passages_of_one_rank_are_refused() -> None:
    with pytest.raises(ValueError, match="two passages have the mark 1"):
        answer_prompt("When?", [make_passage("a"), make_passage("b")])


@given(st.lists(st.integers(1, 40), max_size=8), st.integers(0, 120))
def test_what_fits_is_within_the_budget_and_in_order(sizes: list[int], budget: int) -> None:
    given_ = [make_passage("word " * size, rank=rank) for rank, size in enumerate(sizes, start=1)]
    kept = fit_passages(given_, budget_tokens=budget, count=count)
    blocks = [passage_block(p.trace.final_rank, p) for p in kept if p.trace]
    assert sum(map(count, blocks)) <= budget
    assert [p.chunk_id for p in kept] == [
        p.chunk_id for p in given_ if p.chunk_id in {k.chunk_id for k in kept}
    ]


def test_a_passage_too_long_is_passed_over_and_numbers_do_not_shift() -> None:
    given_ = [
        make_passage("one two.", rank=1),
        make_passage("long " * 50, rank=2),
        make_passage("three.", rank=3),
    ]
    kept = fit_passages(given_, budget_tokens=12, count=count)
    assert [p.trace and p.trace.final_rank for p in kept] == [1, 3]


def test_the_only_passage_is_cut_after_a_whole_sentence() -> None:
    kept = fit_passages([make_passage("One two. Three four. Five six.")], budget_tokens=7, count=count)
    assert [p.content for p in kept] == ["One two. Three four."]
    assert fit_passages([make_passage("One two.")], budget_tokens=1, count=count) == []


def test_history_keeps_the_latest_turns_and_opens_with_a_question() -> None:
    turns = [ChatMessage("user", "a b c"), ChatMessage("assistant", "d e"), ChatMessage("user", "f"),
             ChatMessage("assistant", "g")]  # fmt: skip
    assert fit_history(turns, budget_tokens=4, count=count) == turns[2:]
    assert fit_history(turns, budget_tokens=99, count=count) == turns


@given(st.text(max_size=200))
def test_a_title_is_one_short_line(question: str) -> None:
    title = title_from_question(question)
    assert 0 < len(title) <= TITLE_CHARS
    assert title == title.strip()
    assert title.isprintable()


def test_a_long_title_is_cut_between_words() -> None:
    title = title_from_question("How many members did the Tarnwick Ferry Cooperative have in the year 2024?")
    assert title == "How many members did the Tarnwick Ferry Cooperative have in…"
    assert title_from_question("  When\ndoes it leave? ") == "When does it leave?"
    assert title_from_question(" \n") == "Untitled"
    assert title_from_question("é" * 80) == "é" * 59 + "…"
