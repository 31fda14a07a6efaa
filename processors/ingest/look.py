"""Looking at the corpus's files one by one: which of them have to be worked on, and which are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.file import FILE, FileState
from loreline.processors.ingest.ports import IngestPorts
from loreline.processors.ingest.scan import Found, read_file
from loreline.schemas.events import corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import (
    APP_OWNER,
    content_hash_of,
    derived_key,
    doc_id_of,
    file_aggregate,
    file_id_of,
    owner_of,
    version_of,
)

ACTOR = "stage.discover"


@dataclass(frozen=True)
class Candidate:
    """The identities that a found file's content gives it."""

    file_id: str
    version: str
    identity: file.FileIdentity


@dataclass
class Tally:
    """What a look through the folder came to: (file id, version) pairs to wait for, paths read, counts."""

    planned: list[tuple[str, str]] = field(default_factory=list)
    present: set[str] = field(default_factory=set)
    skipped: int = 0
    unread: list[tuple[str, str]] = field(default_factory=list)
    missing: int = 0


Wanted = Callable[[FileState, str], bool]
"""Whether a version has to go through the stages, as the run sees it."""


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


def _wants(request: corpus.OperationRequested, profile: str) -> Wanted:
    def wants(state: FileState, version: str) -> bool:
        return wanted(
            state,
            version=version,
            profile=profile,
            run=request.run,
            reingest=request.reingest,
            again=request.again,
        )

    return wants


async def take(
    ports: IngestPorts,
    event: Stored[Payload],
    request: corpus.OperationRequested,
    profile: str,
    files: Sequence[Found],
    tally: Tally,
) -> None:
    """Discover one batch of files: read, decide, keep the bytes, append together.

    A file that needs no work is no event, unless it was not known to lie there.
    """
    app_key = ports.keys.current(APP_OWNER).secret
    ids = [file_id_of(app_key, found.relative_path) for found in files]
    await asyncio.to_thread(ports.keys.ensure, [owner_of(file_aggregate(file_id)) for file_id in ids])
    wants = _wants(request, profile)
    commands: list[Command[FileState]] = []
    chosen: list[tuple[str, str] | None] = []
    for found, file_id in zip(files, ids, strict=True):
        read = await asyncio.to_thread(_read, ports, found, file_id)
        if read is None:
            tally.unread.append((found.relative_path, "it cannot be read, or is gone"))
            continue
        candidate, data = read
        tally.present.add(found.relative_path)
        state = await ports.appender.state(file_aggregate(file_id), FILE)
        current = state.passes.get(profile)
        if current is not None and (current.version, current.run) == (candidate.version, request.run):
            tally.planned.append((file_id, candidate.version))  # a former delivery got this far
        elif wants(state, candidate.version):
            source = await ports.blobs.put(owner_of(file_aggregate(file_id)), data)
            payload = _payload(request, profile, candidate, source, size_bytes=len(data))
            commands.append(_discovered(event, payload, file_id, wants))
            chosen.append((file_id, candidate.version))
        else:
            tally.skipped += 1
            if state.lacks(candidate.version):
                commands.append(_found(event, request, candidate, wants))
                chosen.append(None)
    results = await ports.appender.execute_together(commands) if commands else []
    for pair, stored in zip(chosen, results, strict=True):
        if pair is None:
            continue
        if stored:
            tally.planned.append(pair)
        else:
            tally.skipped += 1  # deleted since it was looked at


def _read(ports: IngestPorts, found: Found, file_id: str) -> tuple[Candidate, bytes] | None:
    """The file's identities and bytes; None when it is gone or cannot be read."""
    try:
        data = read_file(found.path)
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
    return Candidate(file_id, version_of(owner_key, doc_id), identity), data


def _payload(
    request: corpus.OperationRequested, profile: str, candidate: Candidate, source: str, *, size_bytes: int
) -> file.FileDiscovered:
    return file.FileDiscovered(
        version=candidate.version,
        profile=profile,
        run=request.run,
        source=source,
        size_bytes=size_bytes,
        force=request.force,
        private=candidate.identity,
    )


def _discovered(
    event: Stored[Payload], payload: file.FileDiscovered, file_id: str, wants: Wanted
) -> Command[FileState]:
    def decide(state: FileState) -> Sequence[Payload]:
        return [payload] if wants(state, payload.version) else []

    return Command(
        file_aggregate(file_id),
        FILE,
        derived_key(event.event.id, "discover", f"{file_id}.{payload.version}"),
        decide,
        actor=ACTOR,
        correlation=payload.run,
        causation=event.event.id,
    )


def _found(
    event: Stored[Payload], request: corpus.OperationRequested, candidate: Candidate, wants: Wanted
) -> Command[FileState]:
    """The decision to note that a content lies where it was not known to."""
    found = file.FileFound(version=candidate.version, run=request.run)

    def decide(state: FileState) -> Sequence[Payload]:
        return [found] if state.lacks(found.version) and not wants(state, found.version) else []

    return Command(
        file_aggregate(candidate.file_id),
        FILE,
        derived_key(event.event.id, "found", candidate.file_id),
        decide,
        actor=ACTOR,
        correlation=request.run,
        causation=event.event.id,
    )


async def miss(
    ports: IngestPorts,
    event: Stored[Payload],
    request: corpus.OperationRequested,
    profile: str,
    tally: Tally,
) -> None:
    """Note the known files that are not on the disk any more.

    They stay until they are deleted, so a re-ingest takes them in from their blobs: the profile it
    fills must hold all that the one before it holds.
    """
    wants = _wants(request, profile)
    for each in await ports.known_files(event.seq):
        if each.relative_path in tally.present or each.is_awaited:
            continue
        tally.missing += 1
        if each.is_missing and not request.reingest:
            continue

        def decide(state: FileState) -> Sequence[Payload]:
            if state.is_deleted or state.newest is None:
                return []
            missing = file.FileMissing(version=state.newest.version, run=request.run)
            if not request.reingest or not wants(state, state.newest.version):
                return [] if state.missing else [missing]
            update = {"profile": profile, "run": request.run, "force": request.force}
            return [state.newest.model_copy(update=update), missing]

        key = derived_key(event.event.id, "missing", each.file_id)
        stored = await ports.appender.execute(
            Command(
                file_aggregate(each.file_id),
                FILE,
                key,
                decide,
                actor=ACTOR,
                correlation=request.run,
                causation=event.event.id,
            )
        )
        refilled = (one.event.payload for one in stored)
        tally.planned += [
            (each.file_id, one.version) for one in refilled if isinstance(one, file.FileDiscovered)
        ]
