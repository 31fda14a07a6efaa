"""Events of one conversation (`lore.app.conversation.<uuid>.*`). A turn is one question and its outcome."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from loreline.schemas.events.payload import Payload, Private
from loreline.schemas.ids import Code, Hex
from loreline.schemas.records import Citation

CorpusName = Literal["rag", "graph"]


class Title(Private):
    """A conversation's title; None until one is known."""

    title: str | None = None


class ConversationCreated(Payload):
    """A conversation exists from here on; it is listed once a turn was answered or it was titled."""

    explicit: bool = False
    private: Title = Title()


class ConversationTitled(Payload):
    """The conversation has a (new) title."""

    private: Title


class Question(Private):
    """The user's words."""

    question: str


class TurnAsked(Payload):
    """A question was accepted; the chat processor answers it before `deadline`."""

    turn: UUID
    corpus: CorpusName = "rag"
    retrieval_method: Code
    chat_engine: Code
    top_k: int = Field(ge=1)
    deadline: datetime
    private: Question


class LatencyMs(Payload):
    """Milliseconds a turn spent in each stage."""

    condense: float = 0.0
    embed: float = 0.0
    retrieval: float = 0.0
    generation: float = 0.0
    total: float = 0.0


class Answer(Private):
    """The answer's words, and the marks in it that were checked against the evidence."""

    answer: str
    reasoning: str | None = None
    condensed_query: str | None = None
    citations: tuple[Citation, ...] = ()
    dropped_marks: tuple[int, ...] = ()


class TurnAnswered(Payload):
    """The turn's answer. `evidence` is the blob of the passages with their traces and the prompt."""

    turn: UUID
    attempt: int = Field(ge=1)
    user_message: UUID
    assistant_message: UUID
    found: bool
    retrieval_method: Code
    chat_engine: Code
    answered_by: Code
    corpus: CorpusName = "rag"
    n_passages: int = Field(ge=0)
    evidence: Hex
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_per_second: float | None = None
    latency_ms: LatencyMs
    passages_seq: int = 0
    lexical_seq: int = 0
    profile: Hex
    private: Answer


class TurnError(Private):
    """Why the turn failed, in words, and what to do about it."""

    reason: str


class TurnFailed(Payload):
    """The turn could not be answered; ask again."""

    turn: UUID
    attempt: int = Field(ge=1)
    code: Code
    private: TurnError


class TurnAborted(Payload):
    """The turn was stopped: by its reader, by having none, or by its deadline."""

    turn: UUID
    cause: Literal["asked", "abandoned", "deadline", "deleted"]


class ConversationDeleted(Payload):
    """The conversation is gone from every list."""
