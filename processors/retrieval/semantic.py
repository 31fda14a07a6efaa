"""The semantic retriever: nearest chunks by the embedding of the question."""

from __future__ import annotations

from dataclasses import replace

from loreline.processors.retrieval.fusion import Arm, fuse
from loreline.processors.retrieval.search import Query, Ranking, Sources
from loreline.schemas.settings import RetrievalSettings


async def semantic(query: Query, sources: Sources, settings: RetrievalSettings) -> Ranking:
    """Chunks by cosine similarity, which is reported as their fused score."""
    vector = await sources.embedder.embed_query(query.text)
    hits, seq = await sources.dense.nearest(
        query.profile, vector, top_k=query.top_k, as_of_seq=query.as_of_seq
    )
    scores = {hit.chunk_id: hit.score for hit in hits}
    fused = [
        replace(each, trace=each.trace.model_copy(update={"fused_score": scores[each.chunk_id]}))
        for each in fuse([Arm("semantic", hits)])
    ]
    return Ranking(fused, passages_seq=seq)
