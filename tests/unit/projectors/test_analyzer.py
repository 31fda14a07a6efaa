"""The analyzer keeps to Lucene's english chain and makes names and unspaced scripts findable."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loreline.projectors.lexical.analyzer import STOP_WORDS, Analyzer, words
from loreline.projectors.lexical.fields import CHAINS, FIELDS, count_terms, query_terms


@pytest.fixture(scope="module")
def analyzer() -> Analyzer:
    return Analyzer()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The quick brown fox's den", ["The", "quick", "brown", "fox's", "den"]),
        ("can't O’Neill 3.14 1,000;2 a,b", ["can't", "O’Neill", "3.14", "1,000;2", "a", "b"]),
        ("v1.2.3 www.example.com a:b x_y _z_ __", ["v1.2.3", "www.example.com", "a:b", "x_y", "_z_", "__"]),
        ("end. 'quoted' a--b e-mail", ["end", "quoted", "a", "b", "e", "mail"]),
        ("naïve café", ["naïve", "café"]),
        ("Привет, мир", ["Привет", "мир"]),
        ("漢字かなカタカナ", ["漢", "字", "か", "な", "カタカナ"]),
        ("한국어 책", ["한국어", "책"]),
        ("ภาษาไทย", ["ภาษาไทย"]),
        ('צה"ל', ['צה"ל']),
        ("ok 👩\u200d🚀🏽 done", ["ok", "👩\u200d🚀🏽", "done"]),
    ],
)
def test_words_follow_unicode_segmentation(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text(alphabet="aB9_.:',; -\n", max_size=40))
def test_the_ascii_fast_path_cuts_as_the_unicode_path(text: str) -> None:
    # An ideograph after a space forces the other path and changes no other word of its line.
    slow = [word for line in text.split("\n") for word in words(line + " 漢")[:-1]]
    assert words(text) == slow


def test_words_over_255_characters_are_cut() -> None:
    assert [len(word) for word in words("x" * 600)] == [255, 255, 90]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The running dogs' and the Dog's ponies", ["run", "dog", "dog", "poni"]),
        ("generalizations relational hopping", ["gener", "relat", "hop"]),
        ("Ερωσ İstanbul ΟΔΟΣ", ["ερωσ", "istanbul", "οδοσ"]),
        ("the of and", []),
        ("__ \x00 \ud800", []),
        ("a\x00b", ["b"]),
    ],
)
def test_english_terms(analyzer: Analyzer, text: str, expected: list[str]) -> None:
    assert analyzer.analyze(text) == expected


def test_the_stop_words_are_lucenes_33(analyzer: Analyzer) -> None:
    assert len(STOP_WORDS) == 33
    assert analyzer.analyze(" ".join(STOP_WORDS)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ERR_2041", ["err", "2041"]),
        ("v1.2.3", ["v1", "2", "3"]),
        ("newDiffExecutor", ["new", "diff", "executor"]),
        ("std::io.readLine", ["std", "io", "read", "line"]),
        ("parseHTTP2Response", ["pars", "http2", "respons"]),
    ],
)
def test_identifiers_fall_into_their_parts(analyzer: Analyzer, text: str, expected: list[str]) -> None:
    assert analyzer.identifiers(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", []),
        ("東京都 is a 市", ["東京", "京都", "市"]),
        ("ｶﾞラス", ["ガラ", "ラス"]),
        ("漢字とかな", ["漢字", "字と", "とか", "かな"]),
    ],
)
def test_cjk_runs_become_pairs(analyzer: Analyzer, text: str, expected: list[str]) -> None:
    assert analyzer.cjk(text) == expected


AWKWARD_TEXT = st.text(alphabet=st.sampled_from("ab'S s_.\n 漢\u0301\u200dЖ9"), max_size=30)


@given(AWKWARD_TEXT, AWKWARD_TEXT)
def test_counting_a_contextualized_text_in_two_parts_changes_nothing(content: str, context: str) -> None:
    analyzer = Analyzer()
    whole = context + "\n\n" + content
    counted = dict(zip(FIELDS, count_terms(analyzer, content, whole), strict=True))
    for name, chain in CHAINS.items():
        assert sorted(counted["contextualized", name].elements()) == sorted(chain(analyzer, whole))


@given(st.text(max_size=200))
def test_any_text_is_analyzed_and_again_alike(text: str) -> None:
    analyzer = Analyzer()
    for chain in CHAINS.values():
        assert chain(analyzer, text) == chain(analyzer, text)


@pytest.mark.parametrize(
    "unit",
    ["_", "a.", "'", "\u0301", "漢", "aB", ".:", "1,", "\u200d", "a\u0301", "_\u0301", "🚀\u200d", '"א'],
)
def test_a_megabyte_is_analyzed_in_linear_time(analyzer: Analyzer, unit: str) -> None:
    started = time.process_time()
    query_terms(analyzer, unit * (1_000_000 // len(unit)))
    words(unit * (300_000 // len(unit)))
    assert time.process_time() - started < 3.0
