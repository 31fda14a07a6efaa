"""The stages with their ports, and the app that serves them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import psycopg

from loreline.events.bootstrap import check_floor, ensure_stage, hand_back
from loreline.events.folds.corpus import CORPUS
from loreline.processors.app import ProcessorApp, Served
from loreline.processors.chat.answer import Generation
from loreline.processors.chat.frames import StatsThrottle
from loreline.processors.chat.turns import ChatPorts, chat
from loreline.processors.chunkers import CHUNKERS
from loreline.processors.delivery import Gate, Probe, StageRunner
from loreline.processors.ingest.discover import discover
from loreline.processors.ingest.index import embed, situate
from loreline.processors.ingest.ports import IngestPorts
from loreline.processors.ingest.profiles import activation, define, profile_id, profile_settings
from loreline.processors.ingest.read import chunk, parse
from loreline.processors.retrieval.search import Sources
from loreline.processors.stage import Stage
from loreline.projectors.host import ViewHost
from loreline.projectors.reads import DOCUMENTS, KnownFile
from loreline.schemas.errors import DependencyDown, LogError, NotReady
from loreline.schemas.ids import RAG_CORPUS
from loreline.wiring.core import Core, monotonic, now
from loreline.wiring.environment import Config
from loreline.wiring.hooks import Hooks
from loreline.wiring.models import Models
from loreline.wiring.resume import oldest_open
from loreline.wiring.views import Views

VIEW_PATIENCE_S = 60.0


async def ensure_profile(core: Core, models: Models) -> None:
    """Define the profile that the settings name and let it answer, as long as the corpus holds nothing."""
    state = await core.appender.state(RAG_CORPUS, CORPUS)
    if state.active is not None and await core.log.last("lore.rag.file.*.discovered") is not None:
        return
    settings = await core.settings()
    named = profile_settings(settings.ingest, embedder=models.embedder.identity, dim=models.embedder.dim)
    profile = profile_id(core.keys, named)
    await define(core.appender, profile, settings=named, actor="wiring")
    if state.active not in (None, profile):
        await core.appender.execute(activation(profile, causation=uuid4()))


def ingest_ports(
    core: Core, models: Models, views: Views, host: ViewHost, *, corpus_root: Path
) -> IngestPorts:
    """The ingest stages' world."""

    async def known_files(seq: int) -> Sequence[KnownFile]:
        if not await host.wait(seq, views=(DOCUMENTS,), timeout_s=VIEW_PATIENCE_S):
            raise DependencyDown("documents", "the documents view is behind the log; waiting for it")
        return await views.documents.known_files()

    return IngestPorts(
        appender=core.appender,
        blobs=core.blobs,
        recordings=core.recordings,
        keys=core.keys,
        live=core.live,
        corpus_root=corpus_root,
        read=models.reader.read,
        chunkers=CHUNKERS,
        count_tokens=models.count_tokens,
        embedder=models.embedder,
        settings=core.settings,
        known_files=known_files,
        seconds=monotonic,
    )


def chat_ports(core: Core, models: Models, views: Views, config: Config) -> ChatPorts:
    """The chat stage's world."""

    def generation() -> Generation:
        return Generation(
            context_tokens=config.llm_context_tokens,
            max_tokens=config.llm_max_tokens,
            temperature=0.0,
            count_tokens=models.count_tokens,
            shows=StatsThrottle(clock=monotonic).lets,
        )

    return ChatPorts(
        appender=core.appender,
        blobs=core.blobs,
        live=core.live,
        sources=Sources(views.passages, views.lexical, models.embedder),
        quoting=models.embedder.interactive(),
        model=models.llm,
        generation=generation,
        stem=models.stem,
        settings=core.settings,
        clock=now,
        seconds=monotonic,
    )


def build_app(
    core: Core,
    models: Models,
    views: Views,
    host: ViewHost,
    config: Config,
    *,
    url: str,
    corpus_root: Path,
    hooks: Hooks,
    gate: Gate,
) -> ProcessorApp:
    """Every stage behind the wrapper, on its durable."""
    ports = ingest_ports(core, models, views, host, corpus_root=corpus_root)
    stages = (
        discover(ports),
        parse(ports),
        chunk(ports),
        situate(ports),
        embed(ports),
        chat(chat_ports(core, models, views, config)),
    )

    def runner(stage: Stage) -> StageRunner:
        return StageRunner(
            stage,
            log=core.log,
            codec=core.codec,
            appender=core.appender,
            gate=gate,
            policy=config.retry,
            on_damage=core.damage.note,
            before_ack=hooks.before_ack,
        )

    async def ensure(stage: Stage) -> bool:
        consumer = stage.consumer(
            ack_wait_s=config.retry.ack_wait_s, start_seq=await oldest_open(core, stage)
        )
        try:
            await check_floor(core.nats, consumer, last_seq=(await core.log.info()).last_seq)
        except LogError as error:
            core.damage.note(error)
            raise
        return await ensure_stage(core.nats, consumer)

    async def hand_over(stage: Stage) -> int:
        # The lock on the data directory says that no other process serves a stage of this log.
        return await hand_back(core.nats, stage.consumer(ack_wait_s=config.retry.ack_wait_s))

    served = [Served(stage, runner(stage)) for stage in stages]
    return ProcessorApp(url, served, ensure=ensure, hand_back=hand_over)


def probes(models: Models, views: Views) -> Mapping[str, Probe]:
    """How to find out whether a dependency is back."""

    async def embedder() -> bool:
        return await _answers(models.embedder.probe)

    async def postgres() -> bool:
        return await _answers(lambda: views.database.fetch("SELECT 1"))

    return {"embedder": embedder, "postgres": postgres}


async def _answers(ask: Callable[[], Awaitable[object]]) -> bool:
    try:
        await ask()
    except (DependencyDown, NotReady, psycopg.Error, OSError):
        return False
    return True
