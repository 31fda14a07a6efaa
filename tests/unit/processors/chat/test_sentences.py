from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loreline.processors.chat.sentences import MAX_SENTENCE_CHARS, split_sentences

PIECES = st.sampled_from(
    [
        "Dr. Aske ",
        "Hello. ",
        "3.14 ",
        "\n",
        "\n\n",
        "- item",
        "a | b",
        "Key: value",
        "=====",
        "# Head",
        "。你好",
        "؟ نعم",
        "। यह",
        "e.g. this",
        "!",
        " ",
        "\t",
        "x" * 300,
        "J. S. Bach",
        "”",
        "...",
        "\u2028",
        "\r\n",
    ]
)


def texts(content: str) -> list[str]:
    return [content[s.start : s.end] for s in split_sentences(content)]


@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=200))
def test_every_visible_character_lies_in_exactly_one_sentence(content: str) -> None:
    end = 0
    for sentence in split_sentences(content):
        assert sentence.start >= end
        assert content[end : sentence.start].strip() == ""
        text = content[sentence.start : sentence.end]
        assert text
        assert text == text.strip()
        assert len(text) <= max(MAX_SENTENCE_CHARS, 0) or sentence.kind in ("heading", "ornament")
        end = sentence.end
    assert content[end:].strip() == ""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("He paid $4.50. Fine! Is v1.2.3 ok?", ["He paid $4.50.", "Fine!", "Is v1.2.3 ok?"]),
        ("Dr. J. Smith met Mr. Brown at 3 p.m. on Jan. 5. It rained.",
         ["Dr. J. Smith met Mr. Brown at 3 p.m. on Jan. 5.", "It rained."]),
        ('"Why?" he asked. "Because." She left.', ['"Why?" he asked.', '"Because."', "She left."]),
        ("See e.g. The Times. Then stop.", ["See e.g. The Times.", "Then stop."]),
        ("Am 3. Oktober 1990 war es z. B. so. Danach nicht.",
         ["Am 3. Oktober 1990 war es z. B. so.", "Danach nicht."]),
        ("船出发了。下一班呢？八点！", ["船出发了。", "下一班呢？", "八点！"]),
        ("هل أبحرت السفينة؟ نعم.", ["هل أبحرت السفينة؟", "نعم."]),
        ("नाव चली गई। अगली कब?", ["नाव चली गई।", "अगली कब?"]),
        ("1. Open the valve. Wait.\n2. Close it.", ["1. Open the valve.", "Wait.", "2. Close it."]),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_ends_them(content: str, expected: list[str]) -> None:
    assert texts(content) == expected


def test_a_wrapped_line_is_joined_and_a_list_item_is_not() -> None:
    content = "The ferry leaves from the north\nquay at eight.\n- dogs travel free\n- bicycles pay"
    assert texts(content) == [
        "The ferry leaves from the north\nquay at eight.",
        "- dogs travel free",
        "- bicycles pay",
    ]


def test_a_table_row_stands_alone_and_its_rule_is_an_ornament() -> None:
    kinds = [s.kind for s in split_sentences("| boat | seats |\n|---|---|\n| Kittiwake | 120 |")]
    assert kinds == ["row", "ornament", "row"]


def test_lines_of_fields_are_one_record_and_a_lone_field_is_a_sentence() -> None:
    record = split_sentences("Author: Oda Fenwright\nCreated: 2024-03-14\nStatus: final")
    assert [s.kind for s in record] == ["record"]
    assert texts("Note: the pier is closed. Use the quay.") == ["Note: the pier is closed.", "Use the quay."]


def test_headings_are_told_by_mark_by_underline_and_by_standing_alone() -> None:
    content = "# Fares\n\nWhat is it?\n-----------\n\nOpening hours\n\nThe office opens at nine."
    assert [s.kind for s in split_sentences(content)] == [
        "heading",
        "heading",
        "ornament",
        "heading",
        "sentence",
    ]


def test_a_run_without_any_stop_is_cut_to_what_can_be_quoted() -> None:
    assert max(map(len, texts("ทดสอบ " * 400))) <= MAX_SENTENCE_CHARS
    assert max(map(len, texts("x" * 5000))) <= MAX_SENTENCE_CHARS
