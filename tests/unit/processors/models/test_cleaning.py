from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loreline.processors.models.cleaning import clean_text, to_unit


def test_nul_and_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert clean_text("a\0b", max_chars=10) == "a b"
    assert clean_text("a\ud800b", max_chars=10) == "a\ufffdb"
    assert clean_text("\ud83d\ude42", max_chars=10) == "🙂"
    assert clean_text("naïve", max_chars=10) == "naïve"
    assert clean_text("abcdef", max_chars=3) == "abc"


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_becomes_valid_and_stays_short(text: str) -> None:
    clean = clean_text(text, max_chars=20)
    clean.encode()
    assert "\0" not in clean
    assert len(clean) <= 20


def test_rows_become_unit_length_and_zeros_stay() -> None:
    unit = to_unit(np.array([[3, 4], [0, 0]], dtype=np.float32))
    np.testing.assert_allclose(unit, np.array([[0.6, 0.8], [0, 0]], dtype=np.float32), rtol=1e-6)
    assert unit.dtype == np.float32
