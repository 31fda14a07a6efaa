"""The table of all event types: name -> payload, space, aggregate, version. The one place a type is added.

A type's subject is `lore.<space>.<kind>.<id>.<last part of the name>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from loreline.schemas.events import app, conversation, corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate


@dataclass(frozen=True)
class EventType:
    """One row of the catalogue.

    Attributes:
        payload: the payload's newest shape.
        spaces: the spaces whose aggregates may hold it.
        kind: the kind of aggregate it belongs to.
        event: the subject's last token.
        version: schema version written today; older ones are upcast at decode.
    """

    payload: type[Payload]
    spaces: tuple[str, ...]
    kind: str
    event: str
    version: int = 1

    @property
    def name(self) -> str:
        """The `ce-type`."""
        return f"{self.kind}.{self.event}"


_RAG = ("rag",)
_APP = ("app",)
_CORPUS = ("rag", "graph")

_ROWS = (
    EventType(file.FileUploaded, _RAG, "file", "uploaded"),
    EventType(file.FileDiscovered, _RAG, "file", "discovered"),
    EventType(file.FileMissing, _RAG, "file", "missing"),
    EventType(file.FileFound, _RAG, "file", "found"),
    EventType(file.FileParsed, _RAG, "file", "parsed"),
    EventType(file.FileNoText, _RAG, "file", "no_text"),
    EventType(file.FileChunked, _RAG, "file", "chunked"),
    EventType(file.FileSituated, _RAG, "file", "situated"),
    EventType(file.FileEmbedded, _RAG, "file", "embedded"),
    EventType(file.FileFailed, _RAG, "file", "failed"),
    EventType(file.FileSuperseded, _RAG, "file", "superseded"),
    EventType(file.FileDeleted, _RAG, "file", "deleted"),
    EventType(corpus.OperationRequested, _CORPUS, "corpus", "operation_requested"),
    EventType(corpus.OperationStarted, _CORPUS, "corpus", "started"),
    EventType(corpus.OperationPlanned, _CORPUS, "corpus", "planned"),
    EventType(corpus.OperationCompleted, _CORPUS, "corpus", "completed"),
    EventType(corpus.OperationFailed, _CORPUS, "corpus", "failed"),
    EventType(corpus.OperationCancelled, _CORPUS, "corpus", "cancelled"),
    EventType(corpus.ProfileDefined, _CORPUS, "corpus", "profile_defined"),
    EventType(corpus.ProfileActivated, _CORPUS, "corpus", "profile_activated"),
    EventType(app.SettingsChanged, _APP, "settings", "changed"),
    EventType(conversation.ConversationCreated, _APP, "conversation", "created"),
    EventType(conversation.ConversationTitled, _APP, "conversation", "titled"),
    EventType(conversation.TurnAsked, _APP, "conversation", "turn_asked"),
    EventType(conversation.TurnAnswered, _APP, "conversation", "turn_answered"),
    EventType(conversation.TurnFailed, _APP, "conversation", "turn_failed"),
    EventType(conversation.TurnAborted, _APP, "conversation", "turn_aborted"),
    EventType(conversation.ConversationDeleted, _APP, "conversation", "deleted"),
    EventType(app.EventParked, _APP, "deadletter", "parked"),
    EventType(app.EventReleased, _APP, "deadletter", "released"),
    EventType(app.EventDiscarded, _APP, "deadletter", "discarded"),
    EventType(app.LogSealed, _APP, "log", "sealed"),
)

CATALOGUE: Mapping[str, EventType] = MappingProxyType({row.name: row for row in _ROWS})
"""Every event type by its name."""

BY_PAYLOAD: Mapping[type[Payload], EventType] = MappingProxyType({row.payload: row for row in _ROWS})
"""Every event type by its payload's class."""


def subject_of(aggregate: Aggregate, payload: Payload) -> str:
    """The subject a payload is published on. Raises ValueError when the aggregate cannot hold it."""
    row = BY_PAYLOAD[type(payload)]
    if aggregate.kind != row.kind or aggregate.space not in row.spaces:
        raise ValueError(f"{row.name} does not belong to {aggregate}")
    return aggregate.subject(row.event)
