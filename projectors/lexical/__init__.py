"""The embedded lexical view: BM25 over a SQLite file, with postings derived in memory."""

from loreline.projectors.lexical.changes import (
    AddDocument,
    CheckpointLost,
    LexicalChange,
    LexicalChunk,
    LexicalResult,
    LexicalStoreUnusable,
    RetireDocument,
)
from loreline.projectors.lexical.searcher import LexicalSearcher
from loreline.projectors.lexical.store import LexicalStore

__all__ = [
    "AddDocument",
    "CheckpointLost",
    "LexicalChange",
    "LexicalChunk",
    "LexicalResult",
    "LexicalSearcher",
    "LexicalStore",
    "LexicalStoreUnusable",
    "RetireDocument",
]
