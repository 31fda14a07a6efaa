"""What the lexical store is told, what it answers, and the errors it raises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loreline.schemas.errors import LorelineError
from loreline.schemas.records import Hit


class CheckpointLost(LorelineError):
    """Another instance moved the view's checkpoint: it owns the view; stop this one."""


class LexicalStoreUnusable(LorelineError):
    """The index file is damaged or of another format; drop it and rebuild the view from the log."""


@dataclass(frozen=True)
class LexicalChunk:
    """One chunk to index. Lone surrogates in its texts are stored as U+FFFD."""

    chunk_id: str
    original_index: int
    content: str
    contextualized_content: str


@dataclass(frozen=True)
class AddDocument:
    """A version of a file becomes searchable at log sequence `seq`; replaces a live `doc_id`."""

    file_id: str
    doc_id: str
    seq: int
    chunks: Sequence[LexicalChunk]


@dataclass(frozen=True)
class RetireDocument:
    """Live versions stop being searchable at log sequence `seq`: one version, or all of a file.

    Exactly one of `file_id` and `doc_id` is given; naming what is not live changes nothing.
    """

    seq: int
    file_id: str | None = None
    doc_id: str | None = None

    def __post_init__(self) -> None:
        if (self.file_id is None) == (self.doc_id is None):
            raise ValueError("name either a file_id or a doc_id to retire")


LexicalChange = AddDocument | RetireDocument


@dataclass(frozen=True)
class LexicalResult:
    """The answer to one search.

    Attributes:
        hits: best first; scores on Elasticsearch's scale.
        as_of_seq: the log sequence whose index answered.
    """

    hits: list[Hit]
    as_of_seq: int
