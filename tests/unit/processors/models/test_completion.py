from __future__ import annotations

import json
from typing import Any

import pytest

from loreline.processors.models.completion import CompletionReader
from loreline.processors.models.sse import SseEvent
from loreline.schemas.errors import ContextTooLong, DependencyDown
from loreline.schemas.ports import Delta, GenerationEvent, Timings, Usage


def read(*chunks: dict[str, Any] | str, name: str = "message") -> list[GenerationEvent]:
    reader = CompletionReader(dependency="llm")
    events: list[GenerationEvent] = []
    for chunk in chunks:
        events += reader.feed(SseEvent(name, chunk if isinstance(chunk, str) else json.dumps(chunk)))
    return events + reader.finish()


def token(text: str | None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def test_tokens_timings_and_usage_come_in_stream_order() -> None:
    timings = {"predicted_n": 2, "predicted_per_second": 40.5}
    events = read(
        token(None),
        token("Hel"),
        token("lo", timings=timings),
        END,
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}, "timings": timings},
        "[DONE]",
    )
    assert events == [
        Delta("token", "Hel"),
        Delta("token", "lo"),
        Timings(2, 40.5),
        Timings(2, 40.5),
        Usage(9, 2, 40.5, "stop"),
    ]


def test_a_server_without_timings_or_usage_gives_neither() -> None:
    assert read(token("Hi"), END, "[DONE]") == [Delta("token", "Hi"), Usage(None, None, None, "stop")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_reasoning_field_and_think_tags_give_the_same_kind(field: str) -> None:
    thought = {"choices": [{"delta": {field: "hm", "content": None}}]}
    assert read(thought, token("Yes"), END)[:2] == [Delta("reasoning", "hm"), Delta("token", "Yes")]
    assert read(token("<think>hm</th"), token("ink>Yes"), END)[:2] == [
        Delta("reasoning", "hm"),
        Delta("token", "Yes"),
    ]


def test_the_first_token_has_no_rate_and_impossible_rates_are_dropped() -> None:
    for timings in (
        {"predicted_n": 1, "predicted_per_second": 0.0},
        {"predicted_n": 5, "predicted_per_second": None},
    ):
        assert read(token("a", timings=timings), END)[1:] == [Usage(None, None, None, "stop")]


@pytest.mark.parametrize("end", [[END], ["[DONE]"]])
def test_either_a_finish_reason_or_done_ends_an_answer(end: list[Any]) -> None:
    assert isinstance(read(token("a"), *end)[-1], Usage)


def test_a_stream_without_an_end_is_an_outage() -> None:
    with pytest.raises(DependencyDown, match="cut the answer short"):
        read(token("a"))


@pytest.mark.parametrize("bad", ["{", "[1]", '"x"', "null", ""])
def test_a_malformed_chunk_is_an_outage_with_words(bad: str) -> None:
    with pytest.raises(DependencyDown, match="malformed chunk"):
        read(bad)


@pytest.mark.parametrize("odd", [{}, {"choices": None}, {"choices": [None]}, {"choices": [{"delta": None}]}])
def test_chunks_without_text_are_skipped(odd: dict[str, Any]) -> None:
    assert read(odd, END) == [Usage(None, None, None, "stop")]


def test_an_error_in_the_stream_is_told_apart() -> None:
    with pytest.raises(DependencyDown, match="out of memory"):
        read(token("a"), {"error": {"message": "out of memory"}})
    with pytest.raises(DependencyDown, match="oops"):
        read({"message": "oops"}, name="error")
    with pytest.raises(ContextTooLong):
        read({"error": {"type": "exceed_context_size_error", "message": "too long"}})
