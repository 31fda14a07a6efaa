"""Discover: looks through the corpus folder and appends what has to be worked on, and the plan of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.corpus import CORPUS, CorpusState
from loreline.processors.ingest.look import ACTOR, Tally, miss, take
from loreline.processors.ingest.ports import IngestPorts
from loreline.processors.ingest.profiles import define, profile_id, profile_settings, uses
from loreline.processors.ingest.scan import Scan, scan
from loreline.processors.stage import Commands, Stage
from loreline.schemas.events import corpus
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import (
    APP_OWNER,
    RAG_CORPUS,
    derived_key,
)

BATCH = 50


def discover(ports: IngestPorts) -> Stage:
    """The stage: one ingest request in; discovered, missing and planned events out."""

    async def run(event: Stored[Payload], _attempt: int) -> Commands:
        request = event.event.payload
        if not isinstance(request, corpus.OperationRequested) or request.kind != "ingest":
            return []
        state = await ports.appender.state(RAG_CORPUS, CORPUS)
        if state.holder is None or state.holder.run != request.run or state.holder.plan is not None:
            return []
        profile = await _target(ports, state, reingest=request.reingest)
        if profile is None:
            return [_refuse(event, request.run)]
        await ports.appender.execute(_started(event, request.run, profile))
        settings = await ports.settings()
        looked = await asyncio.to_thread(scan, ports.corpus_root, settings.upload.extensions)
        tally = Tally()
        for start in range(0, len(looked.files), BATCH):
            await take(ports, event, request, profile, looked.files[start : start + BATCH], tally)
        await miss(ports, event, request, profile, tally)
        return [await _plan(ports, event, request.run, profile, tally, looked)]

    return Stage("discover", ("lore.rag.corpus.main.operation_requested",), run)


async def _target(ports: IngestPorts, state: CorpusState, *, reingest: bool) -> str | None:
    """The profile to fill: the active one, or for a re-ingest the one the settings now name.

    None when the active profile's vectors come from another embedder than the one that runs.
    """
    identity, dim = ports.embedder.identity, ports.embedder.dim
    active = state.profiles.get(state.active or "")
    if active is not None and not reingest:
        return active.id if uses(active, identity) else None
    settings = await ports.settings()
    named = profile_settings(settings.ingest, embedder=identity, dim=dim)
    profile = profile_id(ports.keys, named)
    await define(ports.appender, profile, settings=named, actor=ACTOR)
    return profile


def _started(event: Stored[Payload], run: UUID, profile: str) -> Command[CorpusState]:
    def decide(state: CorpusState) -> Sequence[Payload]:
        if state.holder is None or state.holder.run != run or state.holder.state != "requested":
            return []
        return [corpus.OperationStarted(kind="ingest", run=run, profile=profile)]

    return _command(event, "started", decide)


def _refuse(event: Stored[Payload], run: UUID) -> Command[CorpusState]:
    reason = (
        "the corpus was embedded by another model than the one that runs now; "
        "start with that model again, or ingest with reingest to embed everything anew"
    )
    failed = corpus.OperationFailed(run=run, code="embedder_mismatch", private=corpus.Reason(reason=reason))
    return _command(event, "refused", lambda _: [failed])


async def _plan(
    ports: IngestPorts,
    event: Stored[Payload],
    run: UUID,
    profile: str,
    tally: Tally,
    looked: Scan,
) -> Command[CorpusState]:
    address = await ports.blobs.put(
        APP_OWNER, encode_plan(tally.planned, [*looked.unsupported, *tally.unread])
    )
    planned = corpus.OperationPlanned(
        run=run,
        profile=profile,
        plan=address,
        n_planned=len(tally.planned),
        n_discovered=len(looked.files),
        n_skipped=tally.skipped,
        n_unsupported=len(looked.unsupported) + len(tally.unread),
        n_missing=tally.missing,
    )

    def decide(state: CorpusState) -> Sequence[Payload]:
        holder = state.holder
        return [planned] if holder is not None and holder.run == run and holder.plan is None else []

    return _command(event, "planned", decide)


def _command(
    event: Stored[Payload], step: str, decide: Callable[[CorpusState], Sequence[Payload]]
) -> Command[CorpusState]:
    return Command(
        RAG_CORPUS,
        CORPUS,
        derived_key(event.event.id, f"discover.{step}"),
        decide,
        actor=ACTOR,
        correlation=event.event.correlation,
        causation=event.event.id,
    )


def encode_plan(planned: Iterable[tuple[str, str]], unsupported: Iterable[tuple[str, str]] = ()) -> bytes:
    """A plan as its blob holds it: (file id, version) pairs, and (path, reason) of what is not taken in."""
    held = {"planned": [list(pair) for pair in planned], "unsupported": [list(pair) for pair in unsupported]}
    return json.dumps(held).encode()


def decode_plan(data: bytes) -> list[tuple[str, str]]:
    """The (file id, version) pairs of a plan's blob."""
    return [(file_id, version) for file_id, version in json.loads(data)["planned"]]


def decode_unsupported(data: bytes) -> list[tuple[str, str]]:
    """The (path, reason) pairs of a plan's blob: files that are there and are not taken in."""
    return [(path, reason) for path, reason in json.loads(data)["unsupported"]]
