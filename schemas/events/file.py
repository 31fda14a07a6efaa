"""Events of one file of the document corpus (`lore.rag.file.<file id>.*`).

A file is a path; a version is one content of it. `version` is the version's public name and
`profile` the ingest profile the work was done under. All blobs are named by their address.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from loreline.schemas.events.payload import Payload, Private
from loreline.schemas.ids import Code, Hex
from loreline.schemas.records import Extraction


class FileIdentity(Private):
    """Who the file is, in words; carried by every event a view needs it from."""

    relative_path: str
    doc_id: str
    content_hash: str
    file_created_at: datetime | None = None
    file_modified_at: datetime | None = None


class FileUploaded(Payload):
    """The edge stored an upload as a blob; the file is then written to the corpus folder."""

    version: Hex
    source: Hex
    size_bytes: int = Field(ge=0)
    private: FileIdentity


class FileDiscovered(Payload):
    """Discover found a version to process under a profile; parse follows."""

    version: Hex
    profile: Hex
    run: UUID
    source: Hex
    size_bytes: int = Field(ge=0)
    force: bool = False
    private: FileIdentity


class FileMissing(Payload):
    """Discover did not find the file where it was; its chunks stay until it is deleted."""

    version: Hex
    run: UUID


class FileFound(Payload):
    """Discover saw a content, which needs no work, where it was missing or an upload was to put it."""

    version: Hex
    run: UUID


class FileParsed(Payload):
    """Parse read the version; chunk follows. `parsed` is the blob of the parsed document."""

    version: Hex
    profile: Hex
    run: UUID
    parsed: Hex
    n_chars: int = Field(ge=0)
    n_pages: int | None = None
    seconds: float = 0.0
    reused: bool = False
    force: bool = False
    private: FileIdentity


class FileNoText(Payload):
    """Parse found nothing to read in the version: terminal for this profile, listed with 0 chunks."""

    version: Hex
    profile: Hex
    run: UUID
    code: Code = "no_text"
    private: FileIdentity


class FileChunked(Payload):
    """Chunk cut the parsed text; situate follows. This event's sequence numbers the chunks."""

    version: Hex
    profile: Hex
    run: UUID
    parsed: Hex
    chunks: Hex
    n_chunks: int = Field(ge=1)
    n_tokens: int = Field(ge=0)
    seconds: float = 0.0
    reused: bool = False
    force: bool = False
    private: FileIdentity


class FileSituated(Payload):
    """Situate wrote one blurb a chunk; embed follows."""

    version: Hex
    profile: Hex
    run: UUID
    chunked_seq: int = Field(ge=1)
    chunks: Hex
    blurbs: Hex
    n_chunks: int = Field(ge=1)
    calls: int = 0
    seconds: float = 0.0
    reused: bool = False
    force: bool = False
    private: FileIdentity


class FileEmbedded(Payload):
    """Embed made the vectors: terminal. The passages and lexical views take the version in here.

    `extractions` counts the chunks by where their text came from.
    """

    version: Hex
    profile: Hex
    run: UUID
    chunked_seq: int = Field(ge=1)
    chunks: Hex
    blurbs: Hex
    vectors: Hex
    n_chunks: int = Field(ge=1)
    extractions: dict[Extraction, int]
    dim: int = Field(ge=1)
    calls: int = 0
    seconds: float = 0.0
    reused: bool = False
    private: FileIdentity


class FailureReason(FileIdentity):
    """Which content failed, and why, in words, and what to do about it."""

    reason: str


class FileFailed(Payload):
    """A stage could not process the document itself: terminal until it changes or is re-ingested."""

    version: Hex
    profile: Hex
    run: UUID
    stage: Code
    code: Code
    private: FailureReason


class FileSuperseded(Payload):
    """Another version of the file took this one's place."""

    version: Hex
    by: Hex


class FileDeleted(Payload):
    """A user deleted the file from the corpus; every view drops its rows."""

    version: Hex
    remove_file: bool = False
