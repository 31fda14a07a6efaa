"""The hybrid retriever: both arms at once, fused."""

from __future__ import annotations

import asyncio

from loreline.processors.retrieval.fusion import Arm, fuse_scores
from loreline.processors.retrieval.search import Query, Ranking, Sources
from loreline.projectors.lexical import LexicalResult
from loreline.schemas.records import Hit
from loreline.schemas.settings import RetrievalSettings


async def hybrid(query: Query, sources: Sources, settings: RetrievalSettings) -> Ranking:
    """Chunks by the weighted sum of both arms' standard scores."""

    async def dense() -> tuple[list[Hit], int]:
        vector = await sources.embedder.embed_query(query.text)
        return await sources.dense.nearest(
            query.profile, vector, top_k=query.depth, as_of_seq=query.as_of_seq
        )

    async def words() -> LexicalResult:
        return await sources.words.search(
            query.profile, query.text, top_k=query.depth, as_of_seq=query.as_of_seq
        )

    (hits, seq), result = await asyncio.gather(dense(), words())
    fused = fuse_scores(
        [
            Arm("semantic", hits, settings.semantic_weight),
            Arm("bm25", result.hits, settings.bm25_weight),
        ],
        limit=query.top_k,
    )
    return Ranking(fused, passages_seq=seq, lexical_seq=result.as_of_seq)
