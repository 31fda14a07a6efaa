"""Discover: looks through the corpus folder and appends what has to be worked on, and the plan of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.corpus import CORPUS, CorpusState
from loreline.events.folds.file import FILE, FileState
from loreline.processors.ingest.ports import IngestPorts
from loreline.processors.ingest.profiles import define, profile_id, profile_settings, uses
from loreline.processors.ingest.scan import Found, Scan, scan
from loreline.processors.stage import Commands, Stage
from loreline.schemas.events import corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import (
    APP_OWNER,
    RAG_CORPUS,
    content_hash_of,
    derived_key,
    doc_id_of,
    file_aggregate,
    file_id_of,
    owner_of,
    version_of,
)

ACTOR = "stage.discover"
BATCH = 200


@dataclass(frozen=True)
class Candidate:
    """A found file with the identities its content gives it."""

    found: Found
    file_id: str
    version: str
    identity: file.FileIdentity
    data: bytes


@dataclass
class Tally:
    """What a look through the folder came to."""

    planned: list[tuple[str, str]]
    skipped: int = 0
    unreadable: int = 0


def wanted(state: FileState, *, version: str, profile: str, run: UUID, reingest: bool, again: bool) -> bool:
    """Whether a version found on disk has to go through the stages under the profile.

    A deleted file is left alone until its content changes or `again` is said. A version that failed is
    tried again; one that is embedded or has no text is not, unless `reingest`.
    """
    if state.is_deleted and state.version == version and not again:
        return False
    current = state.passes.get(profile)
    if current is None or current.version != version:
        return True
    if current.run == run:
        return False
    return reingest or current.reached == "failed" or not current.is_over


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
        tally = Tally([])
        for start in range(0, len(looked.files), BATCH):
            await _take(ports, event, request, profile, looked.files[start : start + BATCH], tally)
        missing = await _missing(ports, event, request.run, looked)
        return [await _plan(ports, event, request.run, profile, tally, looked, missing)]

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


async def _take(
    ports: IngestPorts,
    event: Stored[Payload],
    request: corpus.OperationRequested,
    profile: str,
    files: Sequence[Found],
    tally: Tally,
) -> None:
    """Discover one batch of files: read, decide, keep the bytes, append together."""
    app_key = ports.keys.current(APP_OWNER).secret
    ids = [file_id_of(app_key, found.relative_path) for found in files]
    await asyncio.to_thread(ports.keys.ensure, [owner_of(file_aggregate(file_id)) for file_id in ids])
    commands: list[Command[FileState]] = []
    for found, file_id in zip(files, ids, strict=True):
        candidate = await asyncio.to_thread(_read, ports, found, file_id)
        if candidate is None:
            tally.unreadable += 1
            continue
        state = await ports.appender.state(file_aggregate(file_id), FILE)
        current = state.passes.get(profile)
        if current is not None and (current.version, current.run) == (candidate.version, request.run):
            tally.planned.append((file_id, candidate.version))  # a former delivery got this far
        elif wanted(
            state,
            version=candidate.version,
            profile=profile,
            run=request.run,
            reingest=request.reingest,
            again=request.again,
        ):
            source = await ports.blobs.put(owner_of(file_aggregate(file_id)), candidate.data)
            commands.append(_discovered(event, request, profile, candidate, source))
            tally.planned.append((file_id, candidate.version))
        else:
            tally.skipped += 1
    if commands:
        await ports.appender.execute_together(commands)


def _read(ports: IngestPorts, found: Found, file_id: str) -> Candidate | None:
    """The file's bytes and identities; None when it is gone or cannot be read."""
    try:
        data = found.path.read_bytes()
    except OSError:
        return None
    content_hash = content_hash_of(data)
    doc_id = doc_id_of(found.relative_path, content_hash)
    owner_key = ports.keys.current(owner_of(file_aggregate(file_id))).secret
    identity = file.FileIdentity(
        relative_path=found.relative_path,
        doc_id=doc_id,
        content_hash=content_hash,
        file_created_at=found.created_at,
        file_modified_at=found.modified_at,
    )
    return Candidate(found, file_id, version_of(owner_key, doc_id), identity, data)


def _discovered(
    event: Stored[Payload],
    request: corpus.OperationRequested,
    profile: str,
    candidate: Candidate,
    source: str,
) -> Command[FileState]:
    payload = file.FileDiscovered(
        version=candidate.version,
        profile=profile,
        run=request.run,
        source=source,
        size_bytes=len(candidate.data),
        force=request.force,
        private=candidate.identity,
    )

    def decide(state: FileState) -> Sequence[Payload]:
        current = state.passes.get(profile)
        done = current is not None and (current.version, current.run) == (candidate.version, request.run)
        return [] if done else [payload]

    return Command(
        file_aggregate(candidate.file_id),
        FILE,
        derived_key(event.event.id, "discover", f"{candidate.file_id}.{candidate.version}"),
        decide,
        actor=ACTOR,
        correlation=request.run,
        causation=event.event.id,
    )


async def _missing(ports: IngestPorts, event: Stored[Payload], run: UUID, looked: Scan) -> int:
    """Note the known files that are not on the disk any more; how many there are."""
    present = {found.relative_path for found in looked.files}
    known = await ports.known_files(event.seq)
    gone = [each for each in known if each.relative_path not in present and not each.is_awaited]
    for each in gone:
        if each.is_missing:
            continue
        payload = file.FileMissing(version=each.version, run=run)

        def decide(state: FileState, payload: file.FileMissing = payload) -> Sequence[Payload]:
            return [] if state.missing or state.is_deleted else [payload]

        key = derived_key(event.event.id, "missing", each.file_id)
        aggregate = file_aggregate(each.file_id)
        await ports.appender.execute(
            Command(aggregate, FILE, key, decide, actor=ACTOR, correlation=run, causation=event.event.id)
        )
    return len(gone)


async def _plan(
    ports: IngestPorts,
    event: Stored[Payload],
    run: UUID,
    profile: str,
    tally: Tally,
    looked: Scan,
    missing: int,
) -> Command[CorpusState]:
    address = await ports.blobs.put(APP_OWNER, encode_plan(tally.planned))
    planned = corpus.OperationPlanned(
        run=run,
        profile=profile,
        plan=address,
        n_planned=len(tally.planned),
        n_discovered=len(looked.files),
        n_skipped=tally.skipped,
        n_unsupported=len(looked.unsupported) + tally.unreadable,
        n_missing=missing,
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


def encode_plan(planned: Iterable[tuple[str, str]]) -> bytes:
    """A plan as its blob holds it: (file id, version) pairs."""
    return json.dumps([list(pair) for pair in planned]).encode()


def decode_plan(data: bytes) -> list[tuple[str, str]]:
    """The plan of a blob."""
    return [(file_id, version) for file_id, version in json.loads(data)]
