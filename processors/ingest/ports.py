"""What the ingest stages need from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from loreline.events.append import Appender
from loreline.events.blobs import SealedBlobs
from loreline.events.folds.corpus import CORPUS, Profile
from loreline.events.live import Live
from loreline.events.refs import Recordings
from loreline.processors.chunkers import Chunker
from loreline.projectors.reads import KnownFile
from loreline.schemas.errors import LogError
from loreline.schemas.ids import RAG_CORPUS
from loreline.schemas.ports import Embedder, KeyStore
from loreline.schemas.records import ParsedDocument
from loreline.schemas.settings import Settings


class ReadDocument(Protocol):
    """Reads a file's bytes, away from the event loop."""

    async def __call__(self, data: bytes, *, suffix: str) -> ParsedDocument:
        """The document. Raises DocumentError when it is the document's own fault."""
        ...


@dataclass(frozen=True)
class IngestPorts:
    """The ingest stages' world.

    Attributes:
        corpus_root: the folder the document corpus lives in.
        settings: the settings now.
        known_files: the corpus's files as of at least a sequence.
    """

    appender: Appender
    blobs: SealedBlobs
    recordings: Recordings
    keys: KeyStore
    live: Live
    corpus_root: Path
    read: ReadDocument
    chunkers: Mapping[str, Chunker]
    count_tokens: Callable[[str], int]
    embedder: Embedder
    settings: Callable[[], Awaitable[Settings]]
    known_files: Callable[[int], Awaitable[Sequence[KnownFile]]]
    seconds: Callable[[], float]

    async def profile(self, profile: str) -> Profile:
        """The profile a stage event names."""
        state = await self.appender.state(RAG_CORPUS, CORPUS, at_least=0)  # a profile never changes
        if profile not in state.profiles:
            state = await self.appender.state(RAG_CORPUS, CORPUS)
        if profile not in state.profiles:
            raise LogError(f"the profile {profile} was never defined; restore the log from a backup")
        return state.profiles[profile]
