"""Events of a corpus (`lore.rag.corpus.main.*`): operations on it and the profiles it is kept under."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import Field

from loreline.schemas.events.payload import Payload, Private
from loreline.schemas.ids import Code, Hex

OperationKind = Literal["ingest", "build", "export", "restore"]


class OperationRequested(Payload):
    """Somebody asked for an operation; one a corpus at a time. Discover follows for `ingest`."""

    kind: OperationKind
    run: UUID
    reingest: bool = False
    force: bool = False
    again: bool = False


class OperationStarted(Payload):
    """The operation began, filling `profile`."""

    kind: OperationKind
    run: UUID
    profile: Hex


class OperationPlanned(Payload):
    """Discover knows what there is to do: `plan` is the blob of the (file, version) pairs."""

    run: UUID
    profile: Hex
    plan: Hex
    n_planned: int = Field(ge=0)
    n_discovered: int = Field(ge=0)
    n_skipped: int = Field(ge=0)
    n_unsupported: int = Field(ge=0)
    n_missing: int = Field(ge=0)


class OperationCompleted(Payload):
    """Every planned item is embedded, without text, failed, parked, superseded or deleted."""

    run: UUID
    n_ingested: int = Field(ge=0)
    n_no_text: int = Field(ge=0)
    n_failed: int = Field(ge=0)
    n_dropped: int = Field(ge=0)
    n_chunks: int = Field(ge=0)


class Reason(Private):
    """Why, in words, and what to do about it."""

    reason: str


class OperationFailed(Payload):
    """The operation as a whole could not go on."""

    run: UUID
    code: Code
    private: Reason


class OperationCancelled(Payload):
    """Somebody stopped the operation; work already committed stays."""

    run: UUID


class ProfileSettings(Private):
    """The settings that shape chunks, in words: name -> value."""

    settings: dict[str, str]


class ProfileDefined(Payload):
    """An ingest profile exists from here on; views hold one index a profile."""

    profile: Hex
    dim: int = Field(ge=1)
    private: ProfileSettings


class ProfileActivated(Payload):
    """Questions are answered from this profile from here on."""

    profile: Hex
