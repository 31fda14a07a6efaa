"""Models and readers: opened from the configuration, closed with the stack."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

from loreline.processors.chunkers.tokens import cl100k_counter
from loreline.processors.models import (
    RunningEmbedder,
    RunningLanguageModel,
    open_embedder,
    open_language_model,
)
from loreline.processors.parsers.isolation import Reader
from loreline.projectors.lexical.porter import porter_stem
from loreline.schemas.errors import DependencyDown
from loreline.schemas.ports import CountTokens, Stem
from loreline.wiring.environment import Config

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Models:
    """Everything that computes on texts."""

    embedder: RunningEmbedder
    llm: RunningLanguageModel | None
    reader: Reader
    count_tokens: CountTokens
    stem: Stem


async def open_models(stack: AsyncExitStack, config: Config) -> Models:
    """Open the models. An embedder by HTTP is waited for until it says which model it is."""
    embedder = open_embedder(config.embedder)
    stack.push_async_callback(embedder.close)
    await embedder.start()
    while config.embedder.backend == "http":
        try:
            await embedder.probe()
            break
        except DependencyDown as error:
            _log.warning("waiting for the embedder: %s", error)
            await asyncio.sleep(1.0)
    llm = open_language_model(config.llm)
    if llm is not None:
        stack.push_async_callback(llm.close)
    reader = Reader(config.parse_workers)
    stack.push_async_callback(reader.close)
    counter = await asyncio.to_thread(cl100k_counter)
    return Models(embedder, llm, reader, counter, porter_stem)
