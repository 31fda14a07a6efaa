"""Which models to use: the small frozen sections that wiring fills and the factories read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from loreline.processors.models.transport import RetryPolicy

EmbedderBackend = Literal["bundled", "http", "hash"]


@dataclass(frozen=True)
class EmbedderSettings:
    """Which embedder, and how to reach it. A changed backend, model, dimension or prefix makes vectors stale.

    Attributes:
        backend: `bundled` (in child processes, no network), `http` (a server), `hash` (no model).
        url: the server's base, `http://host:port/v1`; `http` only, needed there.
        model: the name the server knows the model by; `http` only, needed there.
        api_key: sent as a bearer token, never printed; `http` only.
        dim: what the dimension must be; None: the model's own, 384 for `hash`.
        batch_size: most passages in one request or frame; 16 keeps turns short on a small machine.
        query_prefix, passage_prefix: what the model wants before each text; `http` only. The
            defaults are those of the E5 family; set both to "" for a model without.
        max_chars: what lies beyond in a text is not embedded; `http` only.
        connect_timeout_s: `http` only.
        timeout_s: longest wait for the answer to one batch.
        threads: processor threads of each `bundled` process; None: one a core.
        proxy_url: `http` only; proxies named in the environment are not used.
        retry: tries within one `http` call.
    """

    backend: EmbedderBackend = "bundled"
    url: str | None = None
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    dim: int | None = None
    batch_size: int = 16
    query_prefix: str = "query: "
    passage_prefix: str = "passage: "
    max_chars: int = 8_000
    connect_timeout_s: float = 5.0
    timeout_s: float = 300.0
    threads: int | None = None
    proxy_url: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True)
class LanguageModelSettings:
    """Which chat model, if any. Changing it changes later answers only.

    Attributes:
        url: the server's base, `http://host:port/v1`; None or empty: no model, answers are extractive.
        model: the name the server knows the model by; empty: the first it lists.
        api_key: sent as a bearer token, never printed.
        connect_timeout_s: longest wait for a connection.
        first_token_timeout_s: longest wait for the first piece of an answer, reading the prompt
            included: minutes on a small machine.
        between_tokens_timeout_s: longest silence after that.
        proxy_url: proxies named in the environment are not used.
        retry: tries before the first piece has come.
    """

    url: str | None = None
    model: str = ""
    api_key: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 5.0
    first_token_timeout_s: float = 300.0
    between_tokens_timeout_s: float = 60.0
    proxy_url: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
