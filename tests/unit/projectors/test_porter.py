"""Our stemmer against the reference implementation in NLTK, which the program itself does not load."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from loreline.projectors.lexical.porter import porter_stem

reference = PorterStemmer(mode=PorterStemmer.MARTIN_EXTENSIONS).stem

ENDINGS = re.findall(
    r"\w+",
    "s sses ies ed ing eed ational tional enci anci izer bli abli alli entli eli ousli ization ation ator "
    "alism iveness fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance "
    "ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize e ll y",
)
beginnings = st.text(alphabet="aeiouybcdlrstwxz", min_size=0, max_size=7)
endings = st.lists(st.sampled_from(ENDINGS), max_size=2).map("".join)


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("feed", "feed"),
        ("agreed", "agre"),
        ("motoring", "motor"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("archaeology", "archaeolog"),
        ("possibly", "possibl"),
        ("adoption", "adopt"),
        ("controlling", "control"),
        ("is", "is"),
        ("SKIES", "ski"),
        ("naïve", "naïv"),
    ],
)
def test_words_fall_to_the_stems_of_the_paper_and_its_authors_changes(word: str, stem: str) -> None:
    assert porter_stem(word) == stem


@given(beginnings, endings)
def test_a_stem_is_the_one_the_reference_gives(beginning: str, ending: str) -> None:
    word = beginning + ending
    assert porter_stem(word) == reference(word)


def test_a_long_run_of_one_letter_takes_no_time() -> None:
    assert porter_stem("y" * 255)
