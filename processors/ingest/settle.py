"""The decisions every file stage takes: bring a version one stage further, or end its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.file import FILE, FileState, Reached
from loreline.processors.ingest.ports import IngestPorts
from loreline.schemas.errors import DocumentError
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import derived_key
from loreline.schemas.text import keepable


class StageEvent(Protocol):
    """What every stage event of a file says."""

    @property
    def version(self) -> str:
        """The version's public name."""
        ...

    @property
    def profile(self) -> str:
        """The profile the work is done under."""
        ...

    @property
    def run(self) -> UUID:
        """The run it belongs to."""
        ...

    @property
    def private(self) -> file.FileIdentity:
        """The file in words."""
        ...


def failed(payload: StageEvent, stage: str, error: DocumentError) -> file.FileFailed:
    """The event that says a document could not be processed, and why."""
    reason = file.FailureReason(reason=keepable(str(error)), **payload.private.model_dump())
    return file.FileFailed(
        version=payload.version,
        profile=payload.profile,
        run=payload.run,
        stage=stage,
        code=error.code,
        private=reason,
    )


async def expected(ports: IngestPorts, event: Stored[Payload], payload: StageEvent, at: Reached) -> bool:
    """Whether the file still waits for this stage's result: asked before working."""
    state = await ports.appender.state(event.event.aggregate, FILE, at_least=event.seq)
    return state.expects(payload.profile, payload.version, payload.run, at=at)


def advance(
    event: Stored[Payload], source: StageEvent, stage: str, *, at: Reached, payload: Payload
) -> Command[FileState]:
    """The decision to bring a version one stage further; nothing if it was overtaken meanwhile."""

    def decide(state: FileState) -> Sequence[Payload]:
        return [payload] if state.expects(source.profile, source.version, source.run, at=at) else []

    return _command(event, source, stage, decide)


def settle(
    event: Stored[Payload], source: StageEvent, stage: str, *, at: Reached, payload: Payload
) -> Command[FileState]:
    """The decision to end a version's way; an older live version gives way in the same batch."""

    def decide(state: FileState) -> Sequence[Payload]:
        if not state.expects(source.profile, source.version, source.run, at=at):
            return []
        return [payload, *state.settled(source.version)]

    return _command(event, source, stage, decide)


def _command(
    event: Stored[Payload],
    source: StageEvent,
    stage: str,
    decide: Callable[[FileState], Sequence[Payload]],
) -> Command[FileState]:
    return Command(
        event.event.aggregate,
        FILE,
        derived_key(event.event.id, stage),
        decide,
        actor=f"stage.{stage}",
        correlation=source.run,
        causation=event.event.id,
        recent=True,
    )
