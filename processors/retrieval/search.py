"""What a retriever is given and gives back: arms to ask, and a ranking with its traces."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from loreline.processors.retrieval.fusion import Fused
from loreline.projectors.lexical import LexicalResult
from loreline.schemas.errors import InputError
from loreline.schemas.ports import Embedder, Vectors
from loreline.schemas.records import ChunkRecord, Hit, RetrievedChunk
from loreline.schemas.settings import RetrievalSettings


class DenseArm(Protocol):
    """The passages view, as retrieval reads it."""

    async def nearest(
        self, profile: str, vector: Vectors, *, top_k: int, as_of_seq: int | None = None
    ) -> tuple[list[Hit], int]:
        """(Chunks closest by cosine, best first; the view's sequence)."""
        ...

    async def records(
        self, profile: str, original_indexes: Sequence[int], *, as_of_seq: int | None = None
    ) -> Mapping[int, ChunkRecord]:
        """The chunks with these numbers, by number."""
        ...


class WordArm(Protocol):
    """The lexical view, as retrieval reads it."""

    async def search(
        self, profile: str, text: str, *, top_k: int, as_of_seq: int | None = None
    ) -> LexicalResult:
        """The best chunks by BM25, and the sequence of the index that answered."""
        ...


@dataclass(frozen=True)
class Query:
    """One retrieval.

    Attributes:
        text: what is searched for.
        profile: whose chunks.
        depth: how deep each arm ranks before fusion.
        as_of_seq: the sequence to answer as of; None for now.
    """

    text: str
    profile: str
    top_k: int
    depth: int
    as_of_seq: int | None = None


@dataclass(frozen=True)
class Ranking:
    """What a retriever found, best first, and the sequences of the views that answered (0: not asked)."""

    fused: Sequence[Fused]
    passages_seq: int = 0
    lexical_seq: int = 0


@dataclass(frozen=True)
class Sources:
    """What retrievers ask."""

    dense: DenseArm
    words: WordArm
    embedder: Embedder


Retriever = Callable[[Query, Sources, RetrievalSettings], Awaitable[Ranking]]


@dataclass(frozen=True)
class Retrieved:
    """Passages for a question, best first.

    Attributes:
        n_dropped: hits the passages view could not hydrate: one view was ahead of the other.
    """

    passages: tuple[RetrievedChunk, ...]
    method: str
    passages_seq: int
    lexical_seq: int
    n_dropped: int


MIN_DEPTH = 50
"""Hits an arm ranks before fusion: enough for standard scores to have a spread, few enough to be quick."""


async def retrieve(
    text: str,
    *,
    method: str,
    profile: str,
    top_k: int,
    sources: Sources,
    settings: RetrievalSettings,
    retrievers: Mapping[str, Retriever],
    as_of_seq: int | None = None,
) -> Retrieved:
    """The `top_k` passages for a question by a method.

    Raises InputError `unknown_retrieval_method`, DependencyDown, NotReady.
    """
    if method not in retrievers:
        raise InputError(
            "unknown_retrieval_method", f"there is no method {method}; choose one of {', '.join(retrievers)}"
        )
    query = Query(text, profile, top_k, max(MIN_DEPTH, 4 * top_k), as_of_seq)
    ranking = await retrievers[method](query, sources, settings)
    kept = list(ranking.fused)[:top_k]
    numbers = [each.original_index for each in kept]
    records = await sources.dense.records(profile, numbers, as_of_seq=as_of_seq)
    passages = [
        _passage(each, records[each.original_index]) for each in kept if each.original_index in records
    ]
    return Retrieved(
        tuple(_renumbered(passages)),
        method,
        ranking.passages_seq,
        ranking.lexical_seq,
        len(kept) - len(passages),
    )


def _passage(fused: Fused, record: ChunkRecord) -> RetrievedChunk:
    return RetrievedChunk(
        chunk_id=fused.chunk_id,
        doc_id=record.doc_id,
        original_index=fused.original_index,
        content=record.content,
        context=record.context,
        score=fused.trace.fused_score,
        metadata=record,
        trace=fused.trace,
    )


def _renumbered(passages: Sequence[RetrievedChunk]) -> list[RetrievedChunk]:
    """Final ranks without gaps: a mark in an answer is a passage's final rank."""
    return [
        passage.model_copy(update={"trace": passage.trace.model_copy(update={"final_rank": rank})})
        for rank, passage in enumerate(passages, start=1)
        if passage.trace is not None
    ]
