"""The environment, read once: where things are, which models to use, and the knobs' first values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from loreline.processors.delivery import RetryPolicy
from loreline.processors.models import EmbedderBackend, EmbedderSettings, LanguageModelSettings
from loreline.schemas.errors import InputError
from loreline.schemas.settings import KNOBS, resolve


@dataclass(frozen=True)
class Config:
    """Everything a stack is started with.

    Attributes:
        data: the data directory. docs, graph_docs: the corpora.
        host, port: where the edge listens; port None for a free one.
        knobs: the environment's values of the settings that can change at run time.
        log_max_bytes: where the log refuses appends.
        llm_context_tokens, llm_max_tokens: the model's context, and the longest answer.
        retry: how patient the stages are.
    """

    data: Path = Path(".loreline")
    docs: Path = Path("docs")
    graph_docs: Path = Path("graph-docs")
    host: str = "127.0.0.1"
    port: int | None = None
    knobs: Mapping[str, str] = field(default_factory=dict)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    llm: LanguageModelSettings = field(default_factory=LanguageModelSettings)
    llm_context_tokens: int = 4096
    llm_max_tokens: int = 768
    log_max_bytes: int = 64 * 1024**3
    parse_workers: int = 1
    retry: RetryPolicy = field(default_factory=RetryPolicy)


def read_environment(environment: Mapping[str, str] | None = None) -> Config:
    """The configuration the environment asks for. Raises InputError naming the variable at fault."""
    given = dict(os.environ if environment is None else environment)
    knobs = {name: given[name] for name in KNOBS if name in given}
    resolve(knobs, {})
    return Config(
        data=Path(given.get("LORELINE_DATA", ".loreline")),
        docs=Path(given.get("LORELINE_DOCS", "docs")),
        graph_docs=Path(given.get("LORELINE_GRAPH_DOCS", "graph-docs")),
        port=_optional(given, "LORELINE_PORT"),
        knobs=knobs,
        embedder=EmbedderSettings(
            backend=cast("EmbedderBackend", given.get("EMBEDDER", "bundled")),
            url=given.get("EMBEDDER_URL"),
            model=given.get("EMBEDDER_MODEL"),
            api_key=given.get("EMBEDDER_API_KEY"),
        ),
        llm=LanguageModelSettings(
            url=given.get("LLM_API_URL"), model=given.get("LLM_MODEL", ""), api_key=given.get("LLM_API_KEY")
        ),
        llm_context_tokens=_number(given, "LLM_CONTEXT_TOKENS", 4096),
        llm_max_tokens=_number(given, "LLM_MAX_TOKENS", 768),
        log_max_bytes=_number(given, "LOG_MAX_BYTES", 64 * 1024**3),
        parse_workers=_number(given, "PARSE_WORKERS", 1),
    )


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    number = _optional(given, name)
    return default if number is None else number


def _optional(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name, "").strip()
    if text and not text.isdigit():
        raise InputError("invalid_settings", f"{name}={text!r} will not do: it must be a whole number")
    return int(text) if text else None
