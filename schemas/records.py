"""Records that travel between stages, views and doors: documents, chunks, passages, traces."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Extraction = Literal["text", "ocr", "ocr_fallback"]


class Record(BaseModel):
    """An immutable, closed record."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Box(Record):
    """A rectangle on a page in PDF user space of the unrotated page, points, origin bottom left."""

    page: int = Field(ge=1)
    x0: float
    y0: float
    x1: float
    y1: float


class Block(Record):
    """A run of a parsed document's text: `text[start:end]`, half open, in code points.

    Attributes:
        kind: what the run is; a `heading` opens a section at `level`.
        page: 1-based page, slide or sheet; None for formats without pages.
        box: where on the page the run stands, when the reader knows.
    """

    kind: Literal["paragraph", "heading", "list", "table", "code", "caption", "line"]
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    level: int | None = None
    page: int | None = None
    box: Box | None = None
    extraction: Extraction = "text"


class ParsedDocument(Record):
    """What a reader found in a file: one text and the blocks that cover it, in reading order.

    Attributes:
        text: the whole text; blocks index into it and do not overlap.
        title: the document's own title, if it has one.
        reader: which reader made it, with its version, e.g. `docling-docx/2.142.1`.
        page_count: pages, slides or sheets; None for formats without pages.
    """

    text: str
    blocks: tuple[Block, ...]
    title: str | None = None
    reader: str
    page_count: int | None = None


class Chunk(Record):
    """A stored piece of a document: `text[start:end]` of the parsed text, exactly.

    Attributes:
        chunk_index: position in the document, from 0.
        heading_path: titles of the open sections, outermost first.
        page: first page the chunk stands on, `pages` all of them.
        n_tokens: cl100k tokens of `content`.
    """

    chunk_index: int = Field(ge=0)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    content: str
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    pages: tuple[int, ...] = ()
    boxes: tuple[Box, ...] = ()
    extraction: Extraction = "text"
    n_tokens: int = Field(ge=0)


class ChunkRecord(Record):
    """A chunk with all that is known about it, as views store it and the API returns it."""

    doc_id: str
    chunk_id: str
    original_index: int
    chunk_index: int
    source: str
    relative_path: str
    file_name: str
    file_type: str
    page: int | None = None
    pages: tuple[int, ...] = ()
    boxes: tuple[Box, ...] = ()
    start: int = 0
    end: int = 0
    content: str
    context: str | None = None
    contextualized_content: str
    chunk_size: int
    chunk_overlap: int
    chunking_strategy: str
    embedding_model: str
    n_tokens: int
    content_hash: str
    created_at: datetime
    file_created_at: datetime | None = None
    file_modified_at: datetime | None = None
    extraction: Extraction = "text"
    heading_path: str | None = None


class RetrievalTrace(Record):
    """Why a passage stands where it stands. Ranks are from 1; None where an arm never surfaced it."""

    semantic_rank: int | None = None
    semantic_score: float | None = None
    bm25_rank: int | None = None
    bm25_score: float | None = None
    fused_score: float
    fused_rank: int
    rerank_score: float | None = None
    rerank_delta: int | None = None
    final_rank: int


class RetrievedChunk(Record):
    """A passage: a chunk returned for a question, with its score and trace."""

    chunk_id: str
    doc_id: str
    original_index: int
    content: str
    context: str | None = None
    score: float
    metadata: ChunkRecord
    trace: RetrievalTrace | None = None


class Hit(Record):
    """One line of one arm's ranked list: a chunk's identity and its score in that arm."""

    chunk_id: str
    original_index: int
    score: float


class Citation(Record):
    """A numbered mark in an answer that was checked against the passage it names.

    Attributes:
        mark: the number as written in the answer, from 1, the passage's final rank.
        quote: for extractive answers, the exact substring of the passage's content that is quoted.
    """

    mark: int = Field(ge=1)
    chunk_id: str
    quote: str | None = None
