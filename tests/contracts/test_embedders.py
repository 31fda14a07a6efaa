"""The contract of the Embedder port, run over every adapter: the bundled model, a server, and word hashes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import numpy as np
import pytest

from loreline.processors.models import EMBEDDERS, EmbedderSettings, RunningEmbedder, open_embedder
from loreline.processors.models.hashing import hash_vector
from tests.servers.scripted import Exchange, scripted

TEXTS = [
    "The last ferry leaves at nine.",
    "",
    "\0",
    "a\0b",
    "\ud800",
    "🚢" * 40,
    "word " * 600,
    "\x01\u202e",
]


async def served(exchange: Exchange) -> None:
    rows = [
        {"index": place, "embedding": (7 * hash_vector(text, dim=24)).tolist()}
        for place, text in enumerate(exchange.json()["input"])
    ]
    await exchange.send_json({"data": rows})


@pytest.fixture(params=sorted(EMBEDDERS))
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[RunningEmbedder]:
    async with AsyncExitStack() as stack:
        settings = EmbedderSettings(backend=request.param)
        if request.param == "http":
            server = await stack.enter_async_context(scripted(served))
            settings = EmbedderSettings(backend="http", url=server.url, model="m")
        opened = open_embedder(settings)
        stack.push_async_callback(opened.close)
        await opened.start()
        await opened.probe()
        yield opened


async def test_an_embedder_keeps_its_promises(embedder: RunningEmbedder) -> None:
    vectors = await embedder.embed_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)
    assert np.isfinite(vectors).all()

    query = await embedder.embed_query("When does the ferry leave?")
    assert (query.shape, query.dtype) == ((embedder.dim,), np.dtype(np.float32))
    assert np.linalg.norm(query) == pytest.approx(1, rel=1e-4)
    assert (await embedder.embed_query("\0")).shape == (embedder.dim,)
    assert (await embedder.embed_passages([])).shape == (0, embedder.dim)

    singly = np.concatenate([await embedder.embed_passages([text]) for text in TEXTS[:2]])
    np.testing.assert_allclose(singly, vectors[:2], atol=2e-3)  # in order, and alone as in company
    again = await embedder.embed_passages(TEXTS[:4])
    np.testing.assert_allclose(again, vectors[:4], atol=2e-3)

    quick = await embedder.interactive().embed_query("When does the ferry leave?")
    np.testing.assert_allclose(quick, query, atol=1e-6)
    assert embedder.interactive().identity == embedder.identity == await embedder.probe()
    assert embedder.identity.fingerprint
