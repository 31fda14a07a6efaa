from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loreline.processors.models.bundled import frames_of


@given(st.lists(st.text(max_size=12), max_size=30), st.integers(1, 5), st.integers(1, 20))
def test_frames_keep_every_text_in_order_and_within_limits(texts: list[str], most: int, chars: int) -> None:
    frames = list(frames_of(texts, max_texts=most, max_chars=chars))
    assert [text for frame in frames for text in frame] == texts
    for frame in frames:
        assert 1 <= len(frame) <= most
        assert len(frame) == 1 or sum(map(len, frame)) <= chars
