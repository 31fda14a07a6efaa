"""The word retriever: best chunks by BM25."""

from __future__ import annotations

from dataclasses import replace

from loreline.processors.retrieval.fusion import Arm, fuse
from loreline.processors.retrieval.search import Query, Ranking, Sources
from loreline.schemas.settings import RetrievalSettings


async def bm25(query: Query, sources: Sources, settings: RetrievalSettings) -> Ranking:
    """Chunks by BM25, whose score is reported as their fused score."""
    result = await sources.words.search(
        query.profile, query.text, top_k=query.top_k, as_of_seq=query.as_of_seq
    )
    scores = {hit.chunk_id: hit.score for hit in result.hits}
    fused = [
        replace(each, trace=each.trace.model_copy(update={"fused_score": scores[each.chunk_id]}))
        for each in fuse([Arm("bm25", result.hits)])
    ]
    return Ranking(fused, lexical_seq=result.as_of_seq)
