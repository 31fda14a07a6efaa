"""A conversation as the fold of its events: its turns and how each ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal
from uuid import UUID

from loreline.events.append import Fold
from loreline.events.envelope import Stored
from loreline.schemas.events import conversation as events
from loreline.schemas.events.payload import Payload


@dataclass(frozen=True)
class Turn:
    """One question and its outcome."""

    turn: UUID
    question: str
    state: Literal["asked", "answered", "failed", "aborted"] = "asked"
    answer: str | None = None


@dataclass(frozen=True)
class ConversationState:
    """What is known of a conversation. `turns` in the order they were asked."""

    exists: bool = False
    is_deleted: bool = False
    title: str | None = None
    turns: Mapping[UUID, Turn] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def history(self) -> list[Turn]:
        """The answered turns, oldest first: what a follow-up refers to."""
        return [turn for turn in self.turns.values() if turn.state == "answered"]

    def is_open(self, turn: UUID) -> bool:
        """Whether the turn still waits for its outcome."""
        return not self.is_deleted and turn in self.turns and self.turns[turn].state == "asked"


def evolve(state: ConversationState, stored: Stored[Payload]) -> ConversationState:
    """The conversation after one more event."""
    payload = stored.event.payload
    match payload:
        case events.ConversationCreated():
            return replace(state, exists=True, title=payload.private.title)
        case events.ConversationTitled():
            return replace(state, title=payload.private.title)
        case events.TurnAsked():
            turn = Turn(payload.turn, payload.private.question)
            return replace(state, turns=MappingProxyType({**state.turns, payload.turn: turn}))
        case events.TurnAnswered():
            return _end(state, payload.turn, "answered", payload.private.answer)
        case events.TurnFailed():
            return _end(state, payload.turn, "failed")
        case events.TurnAborted():
            return _end(state, payload.turn, "aborted")
        case events.ConversationDeleted():
            return replace(state, is_deleted=True)
    return state


def _end(
    state: ConversationState,
    turn: UUID,
    outcome: Literal["answered", "failed", "aborted"],
    answer: str | None = None,
) -> ConversationState:
    if turn not in state.turns:
        return state
    ended = replace(state.turns[turn], state=outcome, answer=answer)
    return replace(state, turns=MappingProxyType({**state.turns, turn: ended}))


CONVERSATION: Fold[ConversationState] = Fold("conversation", ConversationState(), evolve)
"""The fold of a conversation."""
