"""A corpus as the fold of its events: the operation that holds it, and the profiles it is kept under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal
from uuid import UUID

from loreline.events.append import Fold
from loreline.events.envelope import Stored
from loreline.schemas.events import corpus
from loreline.schemas.events.payload import Payload


@dataclass(frozen=True)
class Operation:
    """An operation on the corpus.

    Attributes:
        seq: sequence of its request; `ended_seq` of its end, 0 while it goes on.
        profile: the profile it fills, once it started.
        plan: blob of its plan, once it is known.
    """

    kind: corpus.OperationKind
    run: UUID
    seq: int
    request: UUID
    reingest: bool = False
    force: bool = False
    again: bool = False
    state: Literal["requested", "running", "completed", "failed", "cancelled"] = "requested"
    profile: str | None = None
    plan: str | None = None
    ended_seq: int = 0

    @property
    def holds(self) -> bool:
        """Whether the corpus is taken by it."""
        return self.state in {"requested", "running"}


@dataclass(frozen=True)
class Profile:
    """An ingest profile: its vectors' length and the settings that shape its chunks."""

    id: str
    dim: int
    settings: Mapping[str, str]
    seq: int


@dataclass(frozen=True)
class CorpusState:
    """What is known of a corpus: its newest operation, its profiles, and the one that answers.

    `active_seq` is the sequence at which that one was activated: a view must contain it to answer.
    """

    operation: Operation | None = None
    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))
    active: str | None = None
    active_seq: int = 0

    @property
    def holder(self) -> Operation | None:
        """The operation that holds the corpus now."""
        return self.operation if self.operation is not None and self.operation.holds else None


def evolve(state: CorpusState, stored: Stored[Payload]) -> CorpusState:
    """The corpus after one more event."""
    payload = stored.event.payload
    match payload:
        case corpus.OperationRequested():
            operation = Operation(
                payload.kind,
                payload.run,
                stored.seq,
                stored.event.id,
                reingest=payload.reingest,
                force=payload.force,
                again=payload.again,
            )
            return replace(state, operation=operation)
        case corpus.OperationStarted():
            return _change(state, payload.run, state_="running", profile=payload.profile)
        case corpus.OperationPlanned():
            return _change(state, payload.run, plan=payload.plan)
        case corpus.OperationCompleted():
            return _change(state, payload.run, state_="completed", ended_seq=stored.seq)
        case corpus.OperationFailed():
            return _change(state, payload.run, state_="failed", ended_seq=stored.seq)
        case corpus.OperationCancelled():
            return _change(state, payload.run, state_="cancelled", ended_seq=stored.seq)
        case corpus.ProfileDefined():
            profile = Profile(payload.profile, payload.dim, payload.private.settings, stored.seq)
            return replace(state, profiles=MappingProxyType({**state.profiles, profile.id: profile}))
        case corpus.ProfileActivated():
            return replace(state, active=payload.profile, active_seq=stored.seq)
    return state


def _change(
    state: CorpusState,
    run: UUID,
    *,
    state_: Literal["running", "completed", "failed", "cancelled"] | None = None,
    profile: str | None = None,
    plan: str | None = None,
    ended_seq: int = 0,
) -> CorpusState:
    operation = state.operation
    if operation is None or operation.run != run:
        return state
    return replace(
        state,
        operation=replace(
            operation,
            state=state_ or operation.state,
            profile=profile or operation.profile,
            plan=plan or operation.plan,
            ended_seq=ended_seq,
        ),
    )


CORPUS: Fold[CorpusState] = Fold("corpus", CorpusState(), evolve)
"""The fold of a corpus."""
