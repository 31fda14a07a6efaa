"""Bodies of the HTTP API, as the contract names them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

MAX_QUESTION_CHARS = 16_000


def _without_zero(text: str) -> str:
    if "\0" in text:
        raise ValueError("a zero character (U+0000) cannot be kept; leave it out")
    return text


_NO_ZERO = AfterValidator(_without_zero)
"""No database column and no model takes a zero character."""


class Body(BaseModel):
    """A request body: unknown fields and other types are refused, so that a slip is not taken for a wish."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Out(BaseModel):
    """A response body."""

    model_config = ConfigDict(frozen=True)


class ChatOverrides(Body):
    """Settings for one turn."""

    retrieval_method: str | None = None
    chat_engine: str | None = None
    top_k: int | None = Field(default=None, ge=1, le=100)


class ChatRequest(Body):
    """A question."""

    query: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUESTION_CHARS),
        _NO_ZERO,
    ]
    conversation_id: str | None = None
    overrides: ChatOverrides | None = None
    corpus: Literal["rag", "graph"] | None = None


class ConversationCreateRequest(Body):
    """A conversation to start."""

    title: (
        Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), _NO_ZERO]
        | None
    ) = None


class IngestStartRequest(Body):
    """An ingest to start; `again` takes deleted files in that still lie in the folder."""

    reingest: bool = False
    force: bool = False
    again: bool = False


class DocumentBulkDeleteRequest(Body):
    """Documents to delete."""

    doc_ids: list[str] = Field(min_length=1, max_length=10_000)


class ConversationSummaryOut(Out):
    """A conversation in a list."""

    conversation_id: str
    title: str
    created_at: datetime
    updated_at: datetime
    message_count: int
    group_id: str | None = None


class MessageSourceOut(Out):
    """A passage an answer was made from, as it was then."""

    rank: int
    chunk_id: str
    trace: dict[str, Any]


class MessageOut(Out):
    """One message of a transcript."""

    message_id: str
    role: Literal["user", "assistant"]
    content: str
    created_at: datetime
    retrieval_method: str | None = None
    chat_engine: str | None = None
    condensed_query: str | None = None
    latency_ms: dict[str, float] | None = None
    reasoning: str | None = None
    target_corpus: str | None = None
    graph_evidence: dict[str, Any] | None = None
    answered_by: str | None = None
    found: bool | None = None
    citations: list[dict[str, Any]] = Field(default_factory=list)
    dropped_marks: list[int] = Field(default_factory=list)
    sources: list[MessageSourceOut] = Field(default_factory=list)


class ConversationDetailOut(Out):
    """A transcript."""

    conversation_id: str
    title: str
    created_at: datetime
    updated_at: datetime
    messages: list[MessageOut]


class DocumentOut(Out):
    """A document of the corpus."""

    doc_id: str
    file_name: str
    file_type: str
    source: str
    relative_path: str | None
    content_hash: str | None
    n_chunks: int
    ingested_at: datetime
    extraction_mix: dict[str, int] | None
    state: Literal["embedded", "no_text", "failed"]
    code: str | None = None
    reason: str | None = None


class DocumentDeleteResponse(Out):
    """What a delete did; `pending_views` still hold the document for a moment."""

    doc_id: str
    chunks_deleted: int
    file_removed: bool
    pending_views: list[str] = Field(default_factory=list)


class DocumentBulkDeleteResponse(Out):
    """What a delete of several did."""

    deleted: list[DocumentDeleteResponse]
    not_found: list[str]


class UploadedFileOut(Out):
    """What became of one uploaded file; `reason` says why it was not stored."""

    file_name: str
    relative_path: str | None
    size_bytes: int
    stored: bool
    replaced: bool = False
    reason: str | None = None


class UploadResponse(Out):
    """What became of an upload."""

    files: list[UploadedFileOut]


class IngestSummaryOut(Out):
    """A run in numbers."""

    discovered: int = 0
    ingested: int = 0
    skipped: int = 0
    no_text: int = 0
    failed: int = 0
    unsupported: int = 0
    chunks: int = 0


class IngestRunOut(Out):
    """A run."""

    run_id: str
    state: Literal["running", "completed", "failed"]
    reingest: bool
    started_at: datetime
    finished_at: datetime | None = None
    summary: IngestSummaryOut | None = None
    error: str | None = None


class ServiceHealth(Out):
    """Whether a service answers."""

    ok: bool
    detail: str | None = None


class HealthResponse(Out):
    """Whether everything answers."""

    ok: bool
    services: dict[str, ServiceHealth]


class NumericRange(Out):
    """Inclusive bounds of a number."""

    min: float | None
    max: float | None


class ConfigResponse(Out):
    """What this stack can do."""

    retrievers: list[str]
    chunkers: list[str]
    chat_engines: list[str]
    ocr_engines: list[str]
    model_types: list[str]
    llm_model_types: list[str]
    ranges: dict[str, NumericRange]
    upload_max_mb: int
    allowed_extensions: list[str]
    preview_enabled: bool
    answered_by: str


class ViewOut(Out):
    """A view and where it stands."""

    name: str
    version: int
    state: str
    seq: int
    lag: int
    reason: str | None = None


class ComparisonOut(Out):
    """A view beside one built from the beginning."""

    view: str
    seq: int
    live_hash: str
    fresh_hash: str
    equal: bool
    rows: int
    seconds: float
