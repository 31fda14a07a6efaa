"""What views answer: their names, the shapes of their answers, and what a reader of each can ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol
from uuid import UUID

PASSAGES = "passages"
LEXICAL = "lexical"
DOCUMENTS = "documents"
CONVERSATIONS = "conversations"
SETTINGS = "settings"
OPERATIONS = "operations"


@dataclass(frozen=True)
class Document:
    """A version's live outcome under a profile, as lists show it."""

    file_id: str
    version: str
    doc_id: str
    relative_path: str
    content_hash: str
    state: Literal["embedded", "no_text", "failed"]
    n_chunks: int
    extractions: dict[str, int] | None
    code: str | None
    reason: str | None
    ended_at: datetime

    @property
    def file_name(self) -> str:
        """The path's last part."""
        return PurePosixPath(self.relative_path).name

    @property
    def file_type(self) -> str:
        """The extension without its dot, lower case."""
        return PurePosixPath(self.relative_path).suffix.removeprefix(".").lower()


@dataclass(frozen=True)
class KnownFile:
    """A file the corpus knows; `is_awaited` while an upload of it was not seen in the corpus folder."""

    file_id: str
    version: str
    relative_path: str
    source: str
    is_missing: bool
    is_awaited: bool
    modified_at: datetime | None


@dataclass(frozen=True)
class ConversationSummary:
    """A conversation as lists show it."""

    conversation_id: str
    title: str | None
    created_at: datetime
    updated_at: datetime
    message_count: int


@dataclass(frozen=True)
class Message:
    """One message of a transcript; provenance and sources on answers only."""

    message_id: str
    role: str
    content: str
    created_at: datetime
    provenance: dict[str, Any] = field(default_factory=dict)
    sources: list[dict[str, Any]] = field(default_factory=list)


class DocumentsReads(Protocol):
    """Reads of the documents view."""

    async def live(self, profile: str) -> list[Document]:
        """Every live outcome under a profile, newest first."""
        ...

    async def get(self, doc_id: str) -> Document | None:
        """The live document with this id, under whichever profile."""
        ...

    async def former(self, doc_id: str) -> Document | None:
        """The newest document that ever had this id, live or not."""
        ...

    async def known_files(self) -> Sequence[KnownFile]:
        """Every file that is not deleted."""
        ...

    async def unwanted_files(self) -> Sequence[KnownFile]:
        """Every file that was deleted together with what lies in the corpus folder."""
        ...


class ConversationsReads(Protocol):
    """Reads of the conversations view."""

    async def list_recent(self) -> list[ConversationSummary]:
        """Every listed conversation, most recently answered first."""
        ...

    async def get(self, conversation_id: str) -> ConversationSummary | None:
        """One conversation that is not deleted, listed or not."""
        ...

    async def messages(self, conversation_id: str) -> list[Message]:
        """The transcript, oldest first."""
        ...

    async def conversation_of(self, turn: UUID) -> str | None:
        """The conversation a turn was asked in; None while the view does not know the turn."""
        ...
