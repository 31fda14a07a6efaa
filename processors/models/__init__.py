"""Model backends behind the Embedder and LanguageModel ports. To add an embedder, add a line to EMBEDDERS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import httpx

from loreline.processors.models.bundled import BundledEmbedder
from loreline.processors.models.hashing import HashEmbedder
from loreline.processors.models.http_embedder import HttpEmbedder
from loreline.processors.models.http_llm import HttpLanguageModel
from loreline.processors.models.settings import EmbedderBackend, EmbedderSettings, LanguageModelSettings
from loreline.processors.models.transport import RetryPolicy
from loreline.schemas.errors import InputError
from loreline.schemas.ports import Embedder, LanguageModel, ModelIdentity

__all__ = [
    "EMBEDDERS",
    "EmbedderBackend",
    "EmbedderSettings",
    "LanguageModelSettings",
    "RetryPolicy",
    "RunningEmbedder",
    "RunningLanguageModel",
    "open_embedder",
    "open_language_model",
]


class RunningEmbedder(Embedder, Protocol):
    """An embedder with a life: what wiring starts, health probes, and shutdown closes."""

    async def start(self) -> None:
        """Begin whatever takes time, without waiting for it."""
        ...

    async def probe(self) -> ModelIdentity:
        """The identity, once the model has answered; DependencyDown if it cannot."""
        ...

    def interactive(self) -> Embedder:
        """The same model for texts somebody waits for: they never queue behind an ingest."""
        ...

    async def close(self) -> None:
        """Free processes and connections; within two seconds."""
        ...


class RunningLanguageModel(LanguageModel, Protocol):
    """A language model with a life: what health probes and shutdown closes."""

    async def probe(self) -> ModelIdentity:
        """The identity, once the server has answered; DependencyDown if it cannot."""
        ...

    async def close(self) -> None:
        """Free connections."""
        ...


def open_embedder(settings: EmbedderSettings) -> RunningEmbedder:
    """The embedder that `settings` name, not started. Raises InputError when a needed setting is missing."""
    if settings.backend not in EMBEDDERS:
        raise InputError(
            "unknown_embedder",
            f"There is no embedder `{settings.backend}`; choose one of: {', '.join(EMBEDDERS)}.",
        )
    return EMBEDDERS[settings.backend](settings)


def open_language_model(settings: LanguageModelSettings) -> RunningLanguageModel | None:
    """A client of the chat model that `settings` name; None when they name none."""
    if not settings.url:
        return None
    return HttpLanguageModel(
        # Reads are timed by the stream itself, which knows the first token from the next.
        _client(
            settings.url,
            connect_timeout_s=settings.connect_timeout_s,
            read_timeout_s=None,
            proxy_url=settings.proxy_url,
        ),
        url=settings.url,
        model=settings.model,
        api_key=settings.api_key,
        first_token_timeout_s=settings.first_token_timeout_s,
        between_tokens_timeout_s=settings.between_tokens_timeout_s,
        retry=settings.retry,
    )


def _bundled(settings: EmbedderSettings) -> RunningEmbedder:
    return BundledEmbedder(
        batch_size=settings.batch_size, threads=settings.threads, timeout_s=settings.timeout_s
    )


def _hash(settings: EmbedderSettings) -> RunningEmbedder:
    return HashEmbedder(dim=settings.dim or 384)


def _http(settings: EmbedderSettings) -> RunningEmbedder:
    if not settings.url or not settings.model:
        raise InputError("embedder_incomplete", "An embedder by HTTP needs a URL and a model name; set both.")
    return HttpEmbedder(
        _client(
            settings.url,
            connect_timeout_s=settings.connect_timeout_s,
            read_timeout_s=settings.timeout_s,
            proxy_url=settings.proxy_url,
        ),
        url=settings.url,
        model=settings.model,
        api_key=settings.api_key,
        query_prefix=settings.query_prefix,
        passage_prefix=settings.passage_prefix,
        dim=settings.dim,
        batch_size=settings.batch_size,
        max_chars=settings.max_chars,
        retry=settings.retry,
    )


def _client(
    url: str, *, connect_timeout_s: float, read_timeout_s: float | None, proxy_url: str | None
) -> httpx.AsyncClient:
    """An HTTP client that reads nothing from the environment. Raises InputError for a URL that is none."""
    try:
        parsed = httpx.URL(url.strip())
        usable = parsed.scheme in {"http", "https"} and bool(parsed.host)
    except httpx.InvalidURL:
        usable = False
    if not usable:
        raise InputError(
            "bad_model_url", f"{url!r} is no URL of a model server; write `http://host:port/v1`."
        )
    timeout = httpx.Timeout(read_timeout_s, connect=connect_timeout_s, write=60.0, pool=None)
    return httpx.AsyncClient(timeout=timeout, trust_env=False, proxy=proxy_url)


EMBEDDERS: Mapping[EmbedderBackend, Callable[[EmbedderSettings], RunningEmbedder]] = {
    "bundled": _bundled,
    "http": _http,
    "hash": _hash,
}
