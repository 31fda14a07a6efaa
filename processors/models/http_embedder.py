"""Embeddings from any OpenAI-compatible server: infinity, llama.cpp, vLLM, Ollama, a hosted one."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import numpy as np

from loreline.processors.models.cleaning import clean_text, to_unit
from loreline.processors.models.transport import (
    RetryPolicy,
    api_base,
    auth_headers,
    failure_of,
    unreachable,
    with_retries,
)
from loreline.schemas.errors import DependencyDown, ModelRefused
from loreline.schemas.ports import Embedder, ModelIdentity, Vectors

_DEPENDENCY = "embedder"
_PROBE_TEXT = "The lighthouse keeper wrote down every ship that passed before the storm."
_PROBE_BLOCKS = 4


def probe_hash(vector: Vectors) -> str:
    """Hex sha256 of the outline of one `(dim,)` unit vector.

    The outline is where each quarter of the vector has its largest entry, and its sign: about 30
    bits, enough to tell models apart, and the same when another GPU or batch size moves the last
    digits, so that does not make a new model of an old one.
    """
    outline: list[int] = [len(vector)]
    start = 0
    for block in np.array_split(vector, _PROBE_BLOCKS):
        if len(block):
            peak = int(np.argmax(np.abs(block)))
            outline.append((start + peak) * (1 if block[peak] >= 0 else -1))
        start += len(block)
    return hashlib.sha256(json.dumps(outline).encode()).hexdigest()


def vectors_of(body: Any, *, count: int, dim: int | None) -> Vectors:
    """`(count, dim)` float32, unit length, from an `/embeddings` answer, ordered by `index`.

    dim: what the length must be; None accepts any. Raises ModelRefused when the answer is not
    `count` finite vectors of one length.
    """
    try:
        rows = sorted(body["data"], key=lambda row: row["index"])
        indexes = [row["index"] for row in rows]
        matrix = np.array([row["embedding"] for row in rows], dtype=np.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise _unusable(f"not a list of equally long vectors ({error!r})") from None
    if indexes != list(range(count)) or matrix.ndim != 2:
        raise _unusable(f"{len(rows)} vectors where {count} were asked for")
    if dim is not None and matrix.shape[1] != dim:
        raise _unusable(f"vectors of {matrix.shape[1]} numbers where the model has {dim}")
    if not np.isfinite(matrix).all() or not matrix.any(axis=1).all():
        raise _unusable("vectors that are not finite or all zero")
    return to_unit(matrix)


def _unusable(what: str) -> ModelRefused:
    return ModelRefused(
        _DEPENDENCY,
        f"The embeddings server's answer is unusable: {what}. Check that the URL and the model's name "
        "are those of an embedding model; a changed model needs a new ingest.",
    )


class HttpEmbedder:
    """An embeddings server behind the Embedder port.

    The first call, or `probe`, asks the server for one vector and learns the dimension and the
    fingerprint from it; until then `identity` and `dim` raise DependencyDown.

    Args:
        client: owned by this object from here on; `close` closes it.
        url: the API's base, `http://host:port/v1`; `/v1` is added to a bare host.
        model: the name the server knows the model by.
        query_prefix: put before questions; E5 models need `query: ` (Wang et al. 2022).
        passage_prefix: put before passages; E5 models need `passage: `, the instruct kinds nothing.
        dim: what the dimension must be, None: whatever the server answers.
        batch_size: most texts in one request.
        max_chars: what lies beyond in a text is not sent; some servers fail on long ones.
        retry: tries within one call.
        sleep: how to wait between tries.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        url: str,
        model: str,
        api_key: str | None = None,
        query_prefix: str = "query: ",
        passage_prefix: str = "passage: ",
        dim: int | None = None,
        batch_size: int = 32,
        max_chars: int = 8_000,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._url = f"{api_base(url)}/embeddings"
        self._model = model
        self._headers = auth_headers(api_key)
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._dim = dim
        self._batch_size = batch_size
        self._max_chars = max_chars
        self._retry = retry or RetryPolicy()
        self._sleep = sleep
        self._identity: ModelIdentity | None = None

    @property
    def identity(self) -> ModelIdentity:
        """Model name and probe hash; raises DependencyDown before the server was reached once."""
        if self._identity is None:
            raise DependencyDown(
                _DEPENDENCY,
                f"The embeddings server at {self._url} has not answered yet, so its model is unknown. "
                "Start it, or correct its URL.",
            )
        return self._identity

    @property
    def dim(self) -> int:
        """Length of every vector; raises DependencyDown while unknown."""
        if self._dim is None:
            _ = self.identity
        assert self._dim is not None
        return self._dim

    async def start(self) -> None:
        """Nothing to start: the server is not ours."""

    async def probe(self) -> ModelIdentity:
        """Ask for the probe's vector now; sets `dim` and `identity`."""
        vectors = vectors_of(await self._post([self._passage_prefix + _PROBE_TEXT]), count=1, dim=self._dim)
        self._dim = int(vectors.shape[1])
        self._identity = ModelIdentity(backend="http", name=self._model, fingerprint=probe_hash(vectors[0]))
        return self._identity

    def interactive(self) -> Embedder:
        """This embedder: whoever runs it decides who waits."""
        return self

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """`(len(texts), dim)` float32, unit length, in order. Raises DependencyDown, ModelRefused."""
        return await self._embed([self._passage_prefix + self._clean(text) for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        """`(dim,)` float32, unit length. Raises DependencyDown, ModelRefused."""
        return np.asarray((await self._embed([self._query_prefix + self._clean(text)]))[0])

    def _clean(self, text: str) -> str:
        return clean_text(text, max_chars=self._max_chars)

    async def _embed(self, texts: list[str]) -> Vectors:
        if self._identity is None:
            await self.probe()
        parts = []
        for start in range(0, len(texts), self._batch_size):
            batch = texts[start : start + self._batch_size]
            parts.append(vectors_of(await self._post(batch), count=len(batch), dim=self.dim))
        return np.concatenate(parts) if parts else np.zeros((0, self.dim), dtype=np.float32)

    async def _post(self, texts: list[str]) -> Any:
        return await with_retries(lambda: self._post_once(texts), self._retry, sleep=self._sleep)

    async def _post_once(self, texts: list[str]) -> Any:
        request = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            response = await self._client.post(self._url, json=request, headers=self._headers)
        except httpx.TransportError as error:
            raise unreachable(_DEPENDENCY, self._url, error) from error
        if response.status_code != 200:
            raise failure_of(response, dependency=_DEPENDENCY)
        try:
            return response.json()
        except ValueError:
            raise DependencyDown(
                _DEPENDENCY,
                f"What answers at {self._url} is not an embeddings server: it sent no JSON. Correct its URL.",
            ) from None
