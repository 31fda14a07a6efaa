"""A file as the fold of its events: which version is in work under which profile, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal
from uuid import UUID

from loreline.events.append import Fold
from loreline.events.envelope import Stored
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload

Reached = Literal["discovered", "parsed", "chunked", "situated", "embedded", "no_text", "failed"]

TERMINAL: frozenset[Reached] = frozenset({"embedded", "no_text", "failed"})

_REACHED: Mapping[type[Payload], Reached] = {
    file.FileParsed: "parsed",
    file.FileChunked: "chunked",
    file.FileSituated: "situated",
    file.FileEmbedded: "embedded",
    file.FileNoText: "no_text",
    file.FileFailed: "failed",
}


@dataclass(frozen=True)
class Pass:
    """One passage of a version through the stages under a profile.

    Attributes:
        seq: sequence of its `discovered` event.
        reached: the last stage it came through.
    """

    version: str
    run: UUID
    seq: int
    reached: Reached

    @property
    def is_over(self) -> bool:
        """Whether no stage will work on it any more."""
        return self.reached in TERMINAL


@dataclass(frozen=True)
class FileState:
    """What is known of a file.

    Attributes:
        newest: the event that discovered the newest version; None before the first.
        version: the newest version, None when there never was one.
        live: the version views hold, None when they hold none.
        is_deleted: whether a user deleted it; an upload or another content brings it back.
        missing: whether the last scan did not find it.
        awaited: the version that was uploaded and has not been seen in the corpus folder yet.
        passes: by profile, the newest pass.
    """

    newest: file.FileDiscovered | None = None
    version: str | None = None
    live: str | None = None
    is_deleted: bool = False
    missing: bool = False
    awaited: str | None = None
    passes: Mapping[str, Pass] = field(default_factory=lambda: MappingProxyType({}))

    def expects(self, profile: str, version: str, run: UUID, *, at: Reached) -> bool:
        """Whether a stage's result for this version, profile and run is still wanted."""
        current = self.passes.get(profile)
        return (
            not self.is_deleted
            and current is not None
            and (current.version, current.run, current.reached) == (version, run, at)
        )

    def lacks(self, version: str) -> bool:
        """Whether it is news that this version lies in the corpus folder."""
        return not self.is_deleted and (self.missing or self.awaited == version)

    def settled(self, version: str) -> list[Payload]:
        """What to append beside a version's terminal event: the older live version gives way."""
        if self.live is not None and self.live != version:
            return [file.FileSuperseded(version=self.live, by=version)]
        return []


def evolve(state: FileState, stored: Stored[Payload]) -> FileState:
    """The file after one more event."""
    payload = stored.event.payload
    match payload:
        case file.FileUploaded():
            return replace(state, is_deleted=False, missing=False, awaited=payload.version)
        case file.FileDiscovered():
            current = Pass(payload.version, payload.run, stored.seq, "discovered")
            return replace(
                state,
                newest=payload,
                version=payload.version,
                is_deleted=False,
                missing=False,
                awaited=None,
                passes=_with(state.passes, payload.profile, current),
            )
        case file.FileMissing():
            return replace(state, missing=True, awaited=None)
        case file.FileFound():
            return replace(state, missing=False, awaited=None)
        case file.FileDeleted():
            return replace(state, is_deleted=True, live=None, awaited=None, passes=MappingProxyType({}))
        case file.FileSuperseded():
            return replace(state, live=None if state.live == payload.version else state.live)
        case (
            file.FileParsed()
            | file.FileChunked()
            | file.FileSituated()
            | file.FileEmbedded()
            | file.FileNoText()
            | file.FileFailed()
        ):
            return _reach(state, payload.profile, _REACHED[type(payload)])
    return state


def _reach(state: FileState, profile: str, reached: Reached) -> FileState:
    current = state.passes.get(profile)
    if current is None:
        return state
    live = current.version if reached in TERMINAL else state.live
    return replace(state, live=live, passes=_with(state.passes, profile, replace(current, reached=reached)))


def _with(passes: Mapping[str, Pass], profile: str, value: Pass) -> Mapping[str, Pass]:
    return MappingProxyType({**passes, profile: value})


FILE: Fold[FileState] = Fold("file", FileState(), evolve)
"""The fold of a file."""
