from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from loreline.processors.models import EmbedderSettings, RetryPolicy, open_embedder
from loreline.processors.models.http_embedder import HttpEmbedder, probe_hash
from loreline.schemas.errors import ContextTooLong, DependencyDown, InputError, ModelRefused
from tests.servers.scripted import Exchange, ScriptedServer, scripted

DIM = 8


def vector_of(text: str) -> list[float]:
    return [float((sum(text.encode()) * (place + 3)) % 17 - 8.5) for place in range(DIM)]


async def well_behaved(exchange: Exchange) -> None:
    texts = exchange.json()["input"]
    rows = [{"index": place, "embedding": vector_of(text)} for place, text in enumerate(texts)]
    await exchange.send_json({"data": rows[::-1]})


def embedder_for(server: ScriptedServer, waits: list[float] | None = None, **more: Any) -> HttpEmbedder:
    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    client = httpx.AsyncClient(timeout=httpx.Timeout(5.0), trust_env=False)
    return HttpEmbedder(client, url=server.url, model="e5", sleep=sleep, **more)


def unit(text: str) -> Any:
    vector = np.array(vector_of(text), dtype=np.float32)
    return vector / np.linalg.norm(vector)


async def test_batches_are_limited_ordered_by_index_prefixed_and_made_unit_length() -> None:
    async with scripted(well_behaved) as server:
        embedder = embedder_for(server, batch_size=2, api_key="sesame")
        vectors = await embedder.embed_passages(["a", "b", "c\0"])
        question = await embedder.embed_query("a")
        assert (await embedder.embed_passages([])).shape == (0, DIM)
        await embedder.close()
    np.testing.assert_allclose(
        vectors, [unit("passage: a"), unit("passage: b"), unit("passage: c ")], rtol=1e-5
    )
    np.testing.assert_allclose(question, unit("query: a"), rtol=1e-5)
    asked = [exchange.json()["input"] for exchange in server.seen[1:]]
    assert asked == [["passage: a", "passage: b"], ["passage: c "], ["query: a"]]
    assert {exchange.path for exchange in server.seen} == {"/v1/embeddings"}
    assert {exchange.headers["authorization"] for exchange in server.seen} == {"Bearer sesame"}


async def test_the_probe_tells_models_apart_but_not_float_noise() -> None:
    async def noisy(exchange: Exchange) -> None:
        noise = 1e-5 * exchange.number
        rows = [
            {"index": 0, "embedding": [value + noise for value in vector_of(exchange.json()["input"][0])]}
        ]
        await exchange.send_json({"data": rows})

    async with scripted(noisy) as server:
        embedder = embedder_for(server)
        with pytest.raises(DependencyDown, match="has not answered yet"):
            _ = embedder.identity
        with pytest.raises(DependencyDown, match="has not answered yet"):
            _ = embedder.dim
        first = await embedder.probe()
        assert await embedder.probe() == first == embedder.identity
        assert embedder.dim == DIM
        await embedder.close()
    assert first.backend == "http"
    assert first.fingerprint != probe_hash(unit("another model"))


async def test_a_busy_server_is_asked_again_after_the_pause_it_asks_for() -> None:
    async def busy_twice(exchange: Exchange) -> None:
        if exchange.number == 0:
            await exchange.send_json({"error": "busy"}, status=429, headers={"Retry-After": "3"})
        elif exchange.number == 1:
            await exchange.send_json({"error": "busy"}, status=503)
        else:
            await well_behaved(exchange)

    waits: list[float] = []
    async with scripted(busy_twice) as server:
        embedder = embedder_for(server, waits, retry=RetryPolicy(first_wait_s=0.5))
        await embedder.embed_query("a")
        await embedder.close()
    assert waits == [3.0, 1.0]


async def test_a_pause_longer_than_allowed_is_handed_to_the_caller_at_once() -> None:
    async def away(exchange: Exchange) -> None:
        await exchange.send_json({}, status=429, headers={"Retry-After": "600"})

    waits: list[float] = []
    async with scripted(away) as server:
        embedder = embedder_for(server, waits)
        with pytest.raises(DependencyDown, match="429") as caught:
            await embedder.embed_query("a")
        await embedder.close()
    assert (waits, caught.value.retry_after_s, caught.value.dependency) == ([], 600.0, "embedder")
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 429, 401, 404])
async def test_a_server_that_stays_down_is_an_outage_after_the_allowed_tries(status: int) -> None:
    async def down(exchange: Exchange) -> None:
        await exchange.send_json({"error": {"message": "no luck"}}, status=status)

    async with scripted(down) as server:
        embedder = embedder_for(server)
        with pytest.raises(DependencyDown, match=f"{status}: no luck"):
            await embedder.embed_query("a")
        await embedder.close()
    assert len(server.seen) == 3


async def test_nobody_listening_is_an_outage() -> None:
    async with scripted(well_behaved) as server:
        pass
    embedder = embedder_for(server)
    with pytest.raises(DependencyDown, match="does not answer"):
        await embedder.embed_query("a")
    await embedder.close()


async def test_a_connection_cut_while_answering_is_tried_again() -> None:
    async def cut_once(exchange: Exchange) -> None:
        if exchange.number:
            await well_behaved(exchange)

    async with scripted(cut_once) as server:
        embedder = embedder_for(server)
        assert (await embedder.embed_query("a")).shape == (DIM,)
        await embedder.close()


async def test_a_server_that_never_answers_is_an_outage_and_not_asked_again() -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.client_gone()

    async with scripted(silent) as server:
        settings = EmbedderSettings(backend="http", url=server.url, model="e5", timeout_s=0.2)
        embedder = open_embedder(settings)
        with pytest.raises(DependencyDown, match="timed out"):
            await embedder.embed_query("a")
        await embedder.close()
    assert len(server.seen) == 1


async def test_a_refusal_is_told_from_an_outage_and_not_repeated() -> None:
    async def refusing(exchange: Exchange) -> None:
        await exchange.send_json({"error": {"message": "unknown field"}}, status=400)

    async def too_long(exchange: Exchange) -> None:
        words = "input is too large to process. increase the physical batch size"
        await exchange.send_json({"error": {"code": 500, "message": words}}, status=500)

    for script, error in ((refusing, ModelRefused), (too_long, ContextTooLong)):
        async with scripted(script) as server:
            embedder = embedder_for(server)
            with pytest.raises(error):
                await embedder.embed_query("a")
            await embedder.close()
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}, "2 numbers where the model has 8"),
        ({"data": []}, "0 vectors where 1"),
        ({"data": [{"index": 1, "embedding": [1.0] * DIM}]}, "where 1 were asked for"),
        ('{"data": [{"index": 0, "embedding": [NaN, 1, 1, 1, 1, 1, 1, 1]}]}', "not finite"),
        ({"data": [{"index": 0, "embedding": [0.0] * DIM}]}, "all zero"),
        ({"data": [{"index": 0, "embedding": [None] * DIM}]}, "not finite"),
        ({"data": [{"index": 0, "embedding": ["x"] * DIM}]}, "not a list"),
        ({"vectors": []}, "not a list"),
        ([], "not a list"),
    ],
)
async def test_unusable_vectors_are_refused_with_words(answer: Any, words: str) -> None:
    async def odd(exchange: Exchange) -> None:
        await exchange.send_json(answer)

    async with scripted(odd) as server:
        embedder = embedder_for(server, dim=DIM)
        with pytest.raises(ModelRefused, match=words):
            await embedder.embed_query("a")
        await embedder.close()


async def test_something_that_is_no_embeddings_server_is_said_to_be_so() -> None:
    async def page(exchange: Exchange) -> None:
        await exchange.send_json("<html>hello</html>")

    async with scripted(page) as server:
        embedder = embedder_for(server)
        with pytest.raises(DependencyDown, match="not an embeddings server"):
            await embedder.embed_query("a")
        await embedder.close()


@pytest.mark.parametrize(
    "settings",
    [
        EmbedderSettings(backend="http"),
        EmbedderSettings(backend="http", url="localhost:80", model="e5"),
        EmbedderSettings(backend="http", url="http://", model="e5"),
        EmbedderSettings(backend="other"),  # type: ignore[arg-type]
    ],
)
def test_incomplete_settings_are_refused_with_words(settings: EmbedderSettings) -> None:
    with pytest.raises(InputError):
        open_embedder(settings)


def test_keys_are_never_printed() -> None:
    assert "sesame" not in repr(EmbedderSettings(api_key="sesame"))
