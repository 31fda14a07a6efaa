from __future__ import annotations

from typing import Literal
from uuid import UUID

import pytest
from tests.conftest import now
from tests.unit.events.folds.given import given

from loreline.events.folds.conversation import CONVERSATION, ConversationState
from loreline.schemas.events import conversation as events
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import conversation_aggregate

ONE, TWO = UUID(int=1), UUID(int=2)


def created(title: str | None = None) -> Payload:
    return events.ConversationCreated(private=events.Title(title=title))


def asked(turn: UUID = ONE, question: str = "How tall is it?") -> events.TurnAsked:
    return events.TurnAsked(
        turn=turn,
        retrieval_method="hybrid",
        chat_engine="simple",
        top_k=3,
        deadline=now(),
        private=events.Question(question=question),
    )


def answered(turn: UUID = ONE, answer: str = "41 metres.") -> events.TurnAnswered:
    return events.TurnAnswered(
        turn=turn,
        attempt=1,
        user_message=UUID(int=8),
        assistant_message=UUID(int=9),
        found=True,
        retrieval_method="hybrid",
        chat_engine="simple",
        answered_by="extractive",
        n_passages=0,
        evidence="ff" * 32,
        latency_ms=events.LatencyMs(),
        profile="01" * 16,
        private=events.Answer(answer=answer),
    )


def failed(turn: UUID = ONE) -> Payload:
    return events.TurnFailed(
        turn=turn, attempt=1, code="x", private=events.TurnError(reason="it could not be answered")
    )


def aborted(turn: UUID = ONE, cause: Literal["asked", "abandoned"] = "asked") -> Payload:
    return events.TurnAborted(turn=turn, cause=cause)


def titled(title: str) -> Payload:
    return events.ConversationTitled(private=events.Title(title=title))


def state(*payloads: Payload) -> ConversationState:
    return given(CONVERSATION, conversation_aggregate(str(ONE)), payloads)


def test_a_turn_is_open_from_its_question_to_its_outcome() -> None:
    assert not state(created()).is_open(ONE)
    assert state(created(), asked()).is_open(ONE)
    for end in (answered(), failed(), aborted()):
        assert not state(created(), asked(), end).is_open(ONE)


def test_several_turns_are_open_side_by_side() -> None:
    known = state(created(), asked(ONE), asked(TWO), answered(TWO))
    assert (known.is_open(ONE), known.is_open(TWO)) == (True, False)


def test_no_turn_is_open_in_a_deleted_conversation() -> None:
    known = state(created(), asked(), events.ConversationDeleted())
    assert known.is_deleted
    assert not known.is_open(ONE)


def test_history_is_the_answered_turns_in_the_order_they_were_asked() -> None:
    known = state(
        created(), asked(ONE, "first?"), asked(TWO, "second?"), answered(TWO, "2"), answered(ONE, "1")
    )
    assert [(turn.question, turn.answer) for turn in known.history] == [("first?", "1"), ("second?", "2")]
    assert state(created(), asked(ONE), failed(ONE), asked(TWO), aborted(TWO)).history == []


@pytest.mark.parametrize("payload", [answered(TWO), failed(TWO), aborted(TWO)])
def test_the_outcome_of_a_turn_that_was_never_asked_changes_nothing(payload: Payload) -> None:
    assert state(created(), asked(ONE), payload) == state(created(), asked(ONE))


def test_the_newest_title_counts() -> None:
    assert state(created()).title is None
    assert state(created("Ferries")).title == "Ferries"
    assert state(created("Ferries"), titled("Boats")).title == "Boats"
