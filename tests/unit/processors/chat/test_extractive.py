from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.processors.chat.conftest import HashEmbedder, RealEmbedder, make_passage

from loreline.processors.chat.extractive import NOT_FOUND, TUNING, ExtractiveAnswer, answer_extractively
from loreline.processors.chat.quotes import plain_text, render
from loreline.projectors.lexical.porter import porter_stem
from loreline.schemas.ports import Embedder
from loreline.schemas.records import RetrievedChunk

STEM = porter_stem

LIGHTHOUSE = """# The Skerry lighthouse

The Skerry lighthouse was lit for the first time on 3 October 1871. It was designed by Agnes Mallory, an
engineer from Dunmore, and cost 14,200 crowns. The tower is 38 metres high and stands on the north reef.

## Keepers

Until 1979 three keepers lived in the tower with their families. The last keeper was Tobias Renn.
He kept a diary of every ship that passed. The diary is now in the harbour museum.

## Visiting

Visitors may climb the tower on Sundays from May to September. A ticket costs 6 crowns. On the day bring:

- sturdy shoes
- a warm jacket
- a torch
"""

BAKERY = """The bakery on Mill Street opens at six in the morning. Its rye bread is baked with a sourdough
that is older than the shop. On Fridays the bakers make plaited buns with cardamom."""

LAMP = """Opened: 1871
Lamp: paraffin, later electric
Range: 22 nautical miles
Owner: Harbour Board"""


def corpus() -> list[RetrievedChunk]:
    return [
        make_passage(LIGHTHOUSE, rank=1, file_name="lighthouse.md"),
        make_passage(BAKERY, rank=2, file_name="bakery.txt"),
        make_passage(LAMP, rank=3, file_name="lamp.txt"),
    ]


async def ask(
    question: str, passages: list[RetrievedChunk], embedder: Embedder, *, max_sentences: int = 3
) -> ExtractiveAnswer:
    return await answer_extractively(
        question, passages, embedder=embedder, stem=STEM, max_sentences=max_sentences
    )


@pytest.mark.parametrize(
    ("question", "gold"),
    [
        ("When was the lighthouse lit for the first time?", "3 October 1871"),
        ("Who designed the lighthouse?", "Agnes Mallory"),
        ("How high is the tower?", "38 metres"),
        ("Who was the last keeper?", "Tobias Renn"),
        ("Where is the diary now?", "harbour museum"),
        ("What should visitors bring?", "a warm jacket"),
        ("What spice is in the buns on Friday?", "cardamom"),
        ("What is the range of the lamp?", "22 nautical miles"),
        ("Wie hoch ist der Turm des Leuchtturms?", "38 metres"),
        ("Combien coûte un billet ?", "6 crowns"),
    ],
)
async def test_the_bundled_model_finds_the_sentence_that_answers(
    question: str, gold: str, real_embedder: RealEmbedder
) -> None:
    answer = await ask(question, corpus(), real_embedder)
    assert answer.found
    assert gold in plain_text(answer.text)


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of France?",
        "How do I reset my password?",
        "Who won the chess final in 2018?",
        "Wie funktioniert Photosynthese?",
    ],
)
async def test_what_the_documents_do_not_hold_is_not_answered(
    question: str, real_embedder: RealEmbedder
) -> None:
    assert await ask(question, corpus(), real_embedder) == ExtractiveAnswer(NOT_FOUND, (), found=False)


async def test_the_same_question_gives_the_same_answer(real_embedder: RealEmbedder) -> None:
    question = "Who kept a diary of the ships?"
    assert await ask(question, corpus(), real_embedder) == await ask(question, corpus(), real_embedder)


async def test_every_quote_is_an_exact_substring_with_the_mark_of_its_passage(
    hash_embedder: HashEmbedder,
) -> None:
    passages = [make_passage(BAKERY, rank=2), make_passage(LIGHTHOUSE, rank=5)]
    answer = await ask("When does the bakery on Mill Street open?", passages, hash_embedder)
    by_id = {passage.chunk_id: passage for passage in passages}
    assert answer.citations
    for citation in answer.citations:
        passage = by_id[citation.chunk_id]
        assert citation.quote is not None
        assert citation.quote in passage.content
        assert passage.trace is not None
        assert citation.mark == passage.trace.final_rank
        assert f"[{citation.mark}]" in answer.text


async def test_a_sentence_that_leans_on_the_one_before_brings_it_along(hash_embedder: HashEmbedder) -> None:
    answer = await ask(
        "Who kept a diary of every ship that passed?", corpus(), hash_embedder, max_sentences=1
    )
    assert "Tobias Renn.\nHe kept a diary" in (answer.citations[0].quote or "")


async def test_a_sentence_that_announces_a_list_brings_its_items(hash_embedder: HashEmbedder) -> None:
    answer = await ask("What to bring on the day?", corpus(), hash_embedder, max_sentences=1)
    assert answer.text == "On the day bring:\n- sturdy shoes\n- a warm jacket\n- a torch [1]"


async def test_a_heading_answers_by_what_stands_below(hash_embedder: HashEmbedder) -> None:
    content = "## What members get\n\n- half fare\n- a free berth\n\n## Leaving\n\nMembers may leave."
    answer = await ask("What do members get?", [make_passage(content)], hash_embedder, max_sentences=1)
    assert answer.text == "- half fare\n- a free berth [1]"


async def test_the_same_sentence_in_two_passages_is_quoted_once(hash_embedder: HashEmbedder) -> None:
    twice = [make_passage(BAKERY, rank=1), make_passage(BAKERY, rank=2)]
    answer = await ask("When does the bakery on Mill Street open in the morning?", twice, hash_embedder)
    assert answer.text.count("opens at six") == 1


async def test_no_more_is_embedded_than_a_second_allows(hash_embedder: HashEmbedder) -> None:
    many = [make_passage("The bakery opens at six. " * 40, rank=rank) for rank in range(1, 11)]
    await ask("When does the bakery open?", many, hash_embedder)
    assert len(hash_embedder.embedded) <= TUNING.max_candidates
    assert sum(len(text.encode()) for text in hash_embedder.embedded) <= TUNING.max_embed_bytes


@pytest.mark.parametrize("passages", [[], [make_passage("   "), make_passage("=====\n-----", rank=2)]])
async def test_without_a_sentence_nothing_is_found_and_nothing_embedded(
    passages: list[RetrievedChunk], hash_embedder: HashEmbedder
) -> None:
    assert not (await ask("When?", passages, hash_embedder)).found
    assert hash_embedder.embedded == []


@pytest.mark.parametrize("question", ["", "?", "\x00", "a" * 5000, "who " * 500])
async def test_an_odd_question_is_answered_or_not_but_never_fails(
    question: str, hash_embedder: HashEmbedder
) -> None:
    await ask(question, corpus(), hash_embedder)


def test_a_quote_shows_its_words_and_not_its_markup() -> None:
    assert render("Call __init__ with *args\nor [3] and <b>.", mark=2) == (
        r"Call \_\_init\_\_ with \*args or \[3\] and \<b\>. [2]"
    )
    assert render("a snake_case name", mark=1) == "a snake_case name [1]"
    assert render("# not a heading", mark=1) == r"\# not a heading [1]"
    assert render("2. Oil", mark=1) == r"2\. Oil [1]"
    assert render("Opened: 1871\nRange: 22", mark=1) == "Opened: 1871  \nRange: 22 [1]"


@given(st.text(alphabet="ab *_`[]<>#1.\\~&;-", min_size=1, max_size=30).filter(lambda text: text.strip()))
def test_a_terminal_shows_a_quote_without_escapes(text: str) -> None:
    line = " ".join(text.split())
    if line[:2] not in ("- ", "* "):  # a list item gets the list sign of Markdown
        assert plain_text(render(line, mark=1)) == f"{line} [1]"
