from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from loreline.processors.models import LanguageModelSettings, open_language_model
from loreline.processors.models.http_llm import HttpLanguageModel, listed_identity
from loreline.schemas.errors import ContextTooLong, DependencyDown, ModelRefused
from loreline.schemas.ports import ChatMessage, Delta, GenerationEvent, Usage
from tests.servers.scripted import Exchange, ScriptedServer, scripted

ASK = [ChatMessage("user", "Where is the ferry?")]


def token(text: str, finish: str | None = None) -> str:
    return f"data: {json.dumps({'choices': [{'delta': {'content': text}, 'finish_reason': finish}]})}\n\n"


def model_for(server: ScriptedServer, waits: list[float] | None = None, **more: Any) -> HttpLanguageModel:
    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    client = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=5.0), trust_env=False)
    return HttpLanguageModel(client, url=server.url, sleep=sleep, **more)


def ask(model: HttpLanguageModel) -> AsyncGenerator[GenerationEvent, None]:
    return model.stream(ASK, max_tokens=16, temperature=0.0)


async def answer_of(model: HttpLanguageModel) -> list[GenerationEvent]:
    try:
        return [event async for event in ask(model)]
    finally:
        await model.close()


async def test_an_answer_without_timings_streams_and_ends_with_one_usage() -> None:
    async def plain(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for byte in (
            token("At the ") + ": ping\r\n\r\n" + token("piér.") + token("", "stop") + "data: [DONE]\n\n"
        ).encode():
            await exchange.send_piece(bytes([byte]))
        await exchange.end_stream()

    async with scripted(plain) as server:
        events = await answer_of(model_for(server, model="m", api_key="sesame"))
    assert events == [Delta("token", "At the "), Delta("token", "piér."), Usage(None, None, None, "stop")]
    asked = server.seen[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sesame"
    assert asked.json() == {
        "model": "m",
        "messages": [{"role": "user", "content": "Where is the ferry?"}],
        "max_tokens": 16,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_tokens_arrive_before_the_answer_is_complete() -> None:
    more = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send_piece(token("At"))
        await more.wait()
        await exchange.send_piece(token(" sea", "stop") + "data: [DONE]\n\n")
        await exchange.end_stream()

    async with scripted(slow) as server:
        model = model_for(server)
        async with aclosing(ask(model)) as events:
            assert await anext(events) == Delta("token", "At")
            more.set()
            assert [event async for event in events] == [
                Delta("token", " sea"),
                Usage(None, None, None, "stop"),
            ]
        await model.close()


@pytest.mark.parametrize("how", ["close the iterator", "cancel the reader"])
async def test_giving_up_closes_the_connection_at_once(how: str) -> None:
    gone = asyncio.Event()

    async def endless(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send_piece(token("At"))
        await exchange.client_gone()
        gone.set()

    async with scripted(endless) as server:
        model = model_for(server)
        events = ask(model)
        assert await anext(events) == Delta("token", "At")
        if how == "cancel the reader":
            reading = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        else:
            await events.aclose()
        await asyncio.wait_for(gone.wait(), timeout=2)
        await model.close()


@pytest.mark.parametrize("proper_end", [True, False])
async def test_a_stream_cut_in_the_middle_is_an_outage_after_the_tokens_that_came(proper_end: bool) -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send_piece(token("At"))
        if proper_end:
            await exchange.end_stream()

    async with scripted(cut) as server:
        model = model_for(server)
        events = ask(model)
        assert await anext(events) == Delta("token", "At")
        with pytest.raises(DependencyDown, match=r"cut the answer short|broke off") as caught:
            await anext(events)
        await model.close()
    assert caught.value.dependency == "llm"
    assert len(server.seen) == 1, "an answer that has begun is never asked twice"


@pytest.mark.parametrize("nonsense", ["<html>\n\n", "data: {broken\n\n", '{"choices": []}\n\n'])
async def test_nonsense_instead_of_events_is_an_outage_with_words(nonsense: str) -> None:
    async def babble(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send_piece(nonsense)
        await exchange.end_stream()

    async with scripted(babble) as server:
        with pytest.raises(DependencyDown, match="OpenAI-compatible"):
            await answer_of(model_for(server))


async def test_silence_before_the_first_token_and_between_tokens_is_an_outage() -> None:
    async def mute(exchange: Exchange) -> None:
        await exchange.client_gone()

    async def only_pings(exchange: Exchange) -> None:
        await exchange.begin_stream()
        while True:
            await exchange.send_piece(": ping\n\n")
            await asyncio.sleep(0.02)

    async def stuck(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send_piece(token("At"))
        await exchange.client_gone()

    async def only_pings_after_one(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send_piece(token("At"))
        while True:
            await exchange.send_piece(": ping\n\n")
            await asyncio.sleep(0.02)

    cases = [
        (mute, "to a question", 0.2),
        (only_pings, "to a question", 0.2),
        (stuck, "in the middle", 30.0),
        (only_pings_after_one, "in the middle", 30.0),
    ]
    for script, words, first_s in cases:
        async with scripted(script) as server:
            model = model_for(server, first_token_timeout_s=first_s, between_tokens_timeout_s=0.2)
            with pytest.raises(DependencyDown, match=f"silent {words}"):
                await answer_of(model)
        assert len(server.seen) == 1


async def test_a_slow_reader_is_not_taken_for_a_silent_server() -> None:
    async def quick(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send_piece(token("At"))
        await exchange.send_piece(token(" sea", "stop"))
        await exchange.end_stream()

    async with scripted(quick) as server:
        model = model_for(server, between_tokens_timeout_s=0.3)
        events = ask(model)
        assert await anext(events) == Delta("token", "At")
        await asyncio.sleep(0.4)
        assert await anext(events) == Delta("token", " sea")
        await events.aclose()
        await model.close()


async def test_a_busy_server_is_asked_again_before_the_answer_begins() -> None:
    async def busy(exchange: Exchange) -> None:
        if exchange.number < 2:
            await exchange.send_json({}, status=[503, 429][exchange.number], headers={"Retry-After": "2"})
            return
        await exchange.begin_stream()
        await exchange.send_piece(token("At", "stop"))
        await exchange.end_stream()

    waits: list[float] = []
    async with scripted(busy) as server:
        events = await answer_of(model_for(server, waits))
    assert events[0] == Delta("token", "At")
    assert waits == [2.0, 2.0]


async def test_a_server_that_stays_busy_or_is_not_there_is_an_outage() -> None:
    async def busy(exchange: Exchange) -> None:
        await exchange.send_json({"error": {"message": "loading model"}}, status=503)

    async with scripted(busy) as server:
        with pytest.raises(DependencyDown, match="loading model"):
            await answer_of(model_for(server))
    assert len(server.seen) == 3
    with pytest.raises(DependencyDown, match="does not answer"):
        await answer_of(model_for(server))


@pytest.mark.parametrize(
    "error",
    [
        {"type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 9000, "n_ctx": 1024},
        {"code": "context_length_exceeded", "message": "This model's maximum context length is 1024 tokens"},
        {"message": "This model's maximum context length is 1024 tokens. You asked for 9000."},
    ],
)
async def test_a_prompt_that_does_not_fit_is_told_apart(error: dict[str, Any]) -> None:
    async def small(exchange: Exchange) -> None:
        await exchange.send_json({"error": error}, status=400)

    async with scripted(small) as server:
        with pytest.raises(ContextTooLong, match="fewer or shorter passages") as caught:
            await answer_of(model_for(server))
    assert caught.value.context_tokens == error.get("n_ctx")


async def test_any_other_refusal_is_no_outage() -> None:
    async def refusing(exchange: Exchange) -> None:
        await exchange.send_json({"error": {"message": "temperature is out of range"}}, status=422)

    async with scripted(refusing) as server:
        with pytest.raises(ModelRefused, match="temperature is out of range"):
            await answer_of(model_for(server))
    assert len(server.seen) == 1


async def test_a_server_that_cannot_count_tokens_says_none() -> None:
    async def other(exchange: Exchange) -> None:
        await exchange.send_json({"error": "no such route"}, status=404)

    async with scripted(other) as server:
        model = model_for(server)
        assert await model.count_tokens("hello") is None
        assert await model.count_tokens("hello") is None
    assert len(server.seen) == 1, "asked once, then known"
    assert await model_for(server).count_tokens("hello") is None
    await model.close()


async def test_the_probe_names_the_model_or_says_which_there_are() -> None:
    async def listing(exchange: Exchange) -> None:
        await exchange.send_json(
            {"data": [{"id": "small:latest", "created": exchange.number}, {"id": "big"}]}
        )

    async with scripted(listing) as server:
        unnamed = model_for(server)
        first = await unnamed.probe()
        assert first.name == "small:latest"
        assert await unnamed.probe() == first
        named = model_for(server, model="small")
        assert (await named.probe()).fingerprint == first.fingerprint
        missing = model_for(server, model="huge")
        with pytest.raises(DependencyDown, match="has no model `huge`; it has: big, small:latest"):
            await missing.probe()
        for model in (unnamed, named, missing):
            await model.close()


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[]", b'{"data": [1]}', b'{"data": null}'])
def test_an_answer_that_lists_no_models_is_an_outage(content: bytes) -> None:
    with pytest.raises(DependencyDown, match="lists no models"):
        listed_identity(content, model="", any_name=False)


async def test_no_url_means_no_model() -> None:
    assert open_language_model(LanguageModelSettings()) is None
    model = open_language_model(LanguageModelSettings(url="http://127.0.0.1:1/v1", api_key="sesame"))
    assert model is not None
    await model.close()
