from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loreline.processors.models.sse import MAX_BUFFERED_BYTES, SseEvent, SseParser
from loreline.schemas.errors import DependencyDown

LINES = st.sampled_from(
    [
        "data: {}",
        "data:x",
        "data",
        "event: done",
        "id: 7",
        "retry: 10",
        ": ping",
        ":",
        "",
        "",
        "data: é🙂",
        "error: {}",
    ]
)


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser(dependency="llm")
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.finish()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_of_the_standard_is_understood(end: str) -> None:
    text = end.join([": hello", "event: tick", "data: one", "data: two", "", "data:three", "", ""])
    assert parse(text.encode()) == [SseEvent("tick", "one\ntwo"), SseEvent("message", "three")]


def test_a_last_event_without_its_blank_line_counts() -> None:
    assert parse(b"data: [DONE]") == [SseEvent("message", "[DONE]")]
    assert parse(b"data: [DONE]\n") == [SseEvent("message", "[DONE]")]


def test_a_byte_order_mark_and_comments_are_skipped() -> None:
    assert parse(b"\xef\xbb\xbf: ping\n\ndata: a\n\n") == [SseEvent("message", "a")]


def test_an_event_is_given_out_with_its_blank_line() -> None:
    parser = SseParser(dependency="llm")
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [SseEvent("message", "a")]


def test_a_line_that_is_no_field_is_an_error_with_words() -> None:
    with pytest.raises(DependencyDown, match="no server-sent event: '<html>'") as caught:
        parse(b"<html>\n")
    assert caught.value.dependency == "llm"


@pytest.mark.parametrize("end", ["", "\n"])
def test_an_event_without_end_is_an_error_not_a_full_memory(end: str) -> None:
    piece = f"data: {'x' * 1_000_000}{end}".encode()
    with pytest.raises(DependencyDown, match="more than"):
        parse(*[piece] * (MAX_BUFFERED_BYTES // 1_000_000 + 2))


@given(
    lines=st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\r"])), max_size=14),
    data=st.data(),
)
def test_any_cut_of_the_bytes_gives_the_same_events(
    lines: list[tuple[str, str]], data: st.DataObject
) -> None:
    stream = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert parse(*chunks) == parse(stream)
