from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from typing import cast

import httpx
import pytest

from loreline.processors.models import LanguageModelSettings, RunningLanguageModel, open_language_model
from loreline.schemas.errors import ContextTooLong, DependencyDown
from loreline.schemas.ports import ChatMessage, Delta, GenerationEvent, Timings, Usage
from tests.servers.llm import LlmServer, missing_parts, smollm2_server

pytestmark = [
    pytest.mark.llm,
    pytest.mark.skipif(missing_parts() is not None, reason=f"language-model engine {missing_parts()}"),
]

STORY = [ChatMessage("user", "Write a long story about a ferry and its captain.")]


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with smollm2_server() as server:
        yield server


@pytest.fixture
async def model(server: LlmServer) -> AsyncIterator[RunningLanguageModel]:
    model = open_language_model(LanguageModelSettings(url=server.url))
    assert model is not None
    await model.probe()
    yield model
    await model.close()


async def busy_slots(server: LlmServer) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        slots = (await client.get(f"{server.url}/slots")).json()
    return sum(slot["is_processing"] for slot in slots)


def story(model: RunningLanguageModel) -> AsyncGenerator[GenerationEvent, None]:
    stream = model.stream(STORY, max_tokens=900, temperature=0.0)
    return cast("AsyncGenerator[GenerationEvent, None]", stream)


async def test_the_engine_streams_tokens_with_its_own_timings(model: RunningLanguageModel) -> None:
    events = [event async for event in model.stream(STORY, max_tokens=12, temperature=0.0)]
    tokens = [event for event in events if isinstance(event, Delta)]
    timings = [event for event in events if isinstance(event, Timings)]
    assert len(tokens) > 5
    assert {delta.kind for delta in tokens} == {"token"}
    assert len(timings) > 5
    assert all(timing.tokens_per_second > 0 for timing in timings)
    assert [isinstance(event, Usage) for event in events].index(True) == len(events) - 1
    usage = events[-1]
    assert isinstance(usage, Usage)
    assert usage.completion_tokens == 12
    assert usage.prompt_tokens is not None
    assert usage.prompt_tokens > 10
    assert usage.tokens_per_second == timings[-1].tokens_per_second
    assert usage.finish_reason == "length"


async def test_closing_the_stream_stops_the_engine(model: RunningLanguageModel, server: LlmServer) -> None:
    async with aclosing(story(model)) as events:
        for _ in range(10):
            await anext(events)
        assert await busy_slots(server) == 1
    stopped = time.monotonic()
    async with asyncio.timeout(5):
        while await busy_slots(server):
            await asyncio.sleep(0.02)
    assert time.monotonic() - stopped < 2, "the whole story takes ten times as long"


async def test_the_next_question_is_answered_promptly_after_one_was_given_up(
    model: RunningLanguageModel,
) -> None:
    async def read() -> None:
        async with aclosing(story(model)) as events:
            async for _ in events:
                begun.set()

    begun = asyncio.Event()
    reading = asyncio.create_task(read())
    await begun.wait()
    reading.cancel()
    async with asyncio.timeout(5):
        events = [event async for event in model.stream(STORY, max_tokens=3, temperature=0.0)]
    assert isinstance(events[-1], Usage)


async def test_tokens_are_counted_by_the_model_itself(model: RunningLanguageModel) -> None:
    assert await model.count_tokens("") == 0
    few, many = await model.count_tokens("hello there"), await model.count_tokens("hello there " * 50)
    assert few is not None
    assert many is not None
    assert 0 < few < 10 < many


async def test_the_identity_is_that_of_the_loaded_weights(model: RunningLanguageModel) -> None:
    assert model.identity.name == "smollm2"
    assert len(model.identity.fingerprint) == 64


async def test_a_prompt_beyond_the_context_is_told_with_both_lengths(model: RunningLanguageModel) -> None:
    long = [ChatMessage("user", "ferry " * 3000)]
    with pytest.raises(ContextTooLong) as caught:
        _ = [event async for event in model.stream(long, max_tokens=5, temperature=0.0)]
    assert caught.value.context_tokens == 1024
    assert caught.value.prompt_tokens is not None
    assert caught.value.prompt_tokens > 1024


async def test_odd_characters_reach_the_engine_as_text(model: RunningLanguageModel) -> None:
    odd = [ChatMessage("system", "\0\ud800"), ChatMessage("user", "🙂 naïve \x01")]
    events = [event async for event in model.stream(odd, max_tokens=3, temperature=0.0)]
    assert isinstance(events[-1], Usage)


async def test_an_engine_killed_in_the_middle_of_an_answer_is_an_outage() -> None:
    with smollm2_server() as doomed:
        model = open_language_model(LanguageModelSettings(url=doomed.url, between_tokens_timeout_s=10.0))
        assert model is not None
        events = model.stream(STORY, max_tokens=900, temperature=0.0)
        assert isinstance(await anext(events), Delta)
        os.kill(doomed.pid, signal.SIGKILL)
        with pytest.raises(DependencyDown):
            _ = [event async for event in events]
        await model.close()
