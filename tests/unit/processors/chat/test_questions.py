from __future__ import annotations

import pytest

from loreline.processors.chat.questions import (
    AnswerKind,
    answer_kinds,
    asked_words,
    carries,
    content_terms,
    languages,
    words,
)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who was the first chair?", "person"),
        ("Wann wurde sie gegründet?", "time"),
        ("¿Cuántos barcos hay?", "number"),
        ("Где причал?", "place"),
        ("本赛季谁最好？", "person"),
        ("有多少人？", "number"),
        ("كم عدد السفن؟", "number"),
    ],
)
def test_a_question_word_tells_the_kind_of_answer(question: str, kind: str) -> None:
    assert kind in answer_kinds(question)


def test_german_wie_does_not_ask_for_a_person() -> None:
    assert "person" not in answer_kinds("Wie heißt das Boot?")


@pytest.mark.parametrize(
    ("sentence", "kind", "expected"),
    [
        ("She was built in 1964.", "time", True),
        ("She was built in 1987.", "time", False),
        ("The crew is twelve.", "number", True),
        ("In 1987 she sank.", "number", False),
        ("The first chair was Marit Pell.", "person", True),
        ("The boat was old.", "person", False),
    ],
)
def test_only_what_the_question_does_not_already_say_can_answer_it(
    sentence: str, kind: AnswerKind, expected: bool
) -> None:
    asked = asked_words("What happened in 1987?")
    assert carries(sentence, kind, asked=asked) is expected


def test_content_terms_leave_out_the_words_that_only_ask() -> None:
    assert content_terms("How many members did the cooperative have?", stem=str) == ["members", "cooperative"]


def test_a_question_of_function_words_keeps_them() -> None:
    assert content_terms("What is it?", stem=str) == ["what", "is", "it"]


def test_words_split_identifiers_and_pair_unspaced_scripts() -> None:
    assert words("maxEvents max_events") == ["max", "events", "max", "events"]
    assert words("渡轮船票") == ["渡轮", "轮船", "船票"]


def test_languages_are_told_by_their_small_words() -> None:
    assert languages("The boat leaves from the north quay at eight.") == {"en"}
    assert languages("Das Boot fährt um acht vom Nordkai ab und ist nicht voll.") == {"de"}
    assert languages("渡轮八点出发。") == {"unspaced"}
    assert languages("Kittiwake") == frozenset()
