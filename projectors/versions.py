"""Which versions of files come and go, as passages and lexical both see it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loreline.events.envelope import Stored
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload


@dataclass(frozen=True)
class Added:
    """A version became searchable under a profile at `seq`."""

    seq: int
    file_id: str
    payload: file.FileEmbedded
    stored: Stored[Payload]


@dataclass(frozen=True)
class Retired:
    """Rows older than `seq` stop being live: of one version or all, under one profile or all."""

    seq: int
    file_id: str
    profile: str | None = None
    version: str | None = None

    def covers(self, *, profile: str, file_id: str, version: str, from_seq: int) -> bool:
        """Whether a row is among them."""
        return (
            self.file_id == file_id
            and from_seq < self.seq
            and self.profile in (None, profile)
            and self.version in (None, version)
        )


VersionChange = Added | Retired


def version_changes(events: Iterable[Stored[Payload]]) -> list[VersionChange]:
    """The changes a run of events makes, in order."""
    changes: list[VersionChange] = []
    for stored in events:
        payload, file_id = stored.event.payload, stored.event.aggregate.id
        match payload:
            case file.FileEmbedded():
                changes.append(Retired(stored.seq, file_id, profile=payload.profile))
                changes.append(Added(stored.seq, file_id, payload, stored))
            case file.FileNoText() | file.FileFailed():
                changes.append(Retired(stored.seq, file_id, profile=payload.profile))
            case file.FileSuperseded():
                changes.append(Retired(stored.seq, file_id, version=payload.version))
            case file.FileDeleted():
                changes.append(Retired(stored.seq, file_id))
    return changes
