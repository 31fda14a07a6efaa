"""What the edge needs from the rest of the house."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loreline.events.append import Appender
from loreline.events.blobs import SealedBlobs
from loreline.events.envelope import Codec
from loreline.events.live import Live
from loreline.events.log import EventLog
from loreline.projectors.host import ViewHost
from loreline.projectors.reads import ConversationsReads, DocumentsReads
from loreline.schemas.errors import LogError
from loreline.schemas.ports import Clock, KeyStore, NewId
from loreline.schemas.settings import Settings

Probe = Callable[[], Awaitable[str | None]]
"""Asks a service for a sign of life: None when it answers, else what is wrong, in words."""


@dataclass(frozen=True)
class Capabilities:
    """What this stack can do, by name."""

    retrievers: tuple[str, ...]
    chunkers: tuple[str, ...]
    chat_engines: tuple[str, ...]
    embedders: tuple[str, ...]
    answered_by: str


@dataclass(frozen=True)
class Edge:
    """The edge's world.

    Attributes:
        probes: by service name, for health and preflight.
        waits: what the stages wait for, by name, and why.
        damage: the log's first known fault; while there is one, nothing is served as if whole.
        corpus_root: the document corpus's folder.
    """

    log: EventLog
    codec: Codec
    appender: Appender
    keys: KeyStore
    blobs: SealedBlobs
    live: Live
    host: ViewHost
    documents: DocumentsReads
    conversations: ConversationsReads
    settings: Callable[[], Awaitable[Settings]]
    probes: Mapping[str, Probe]
    damage: Callable[[], LogError | None]
    waits: Callable[[], Mapping[str, str]]
    capabilities: Capabilities
    corpus_root: Path
    clock: Clock
    new_id: NewId

    async def wait(self, seq: int, views: Sequence[str], *, timeout_s: float = 2.0) -> bool:
        """Whether these views contain a sequence within the time: read your writes."""
        return await self.host.wait(seq, views=views, timeout_s=timeout_s)
