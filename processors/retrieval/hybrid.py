"""The hybrid retriever: both arms at once, fused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from loreline.processors.retrieval.fusion import Arm, fuse_scores
from loreline.processors.retrieval.search import Query, Ranking, Sources
from loreline.projectors.lexical import LexicalResult
from loreline.schemas.records import Hit
from loreline.schemas.settings import RetrievalSettings

FEW_HITS = 20
"""Below it, word scores stand out from the 0 of all other chunks instead of from each other.

Asked for 120 identifiers of a code corpus, a mean reciprocal rank of .70 became 1.0 where up to 5 chunks
matched, and stayed the same at 6 to 20; from 21 on the scores' own spread ranks better (.89 to .85).
"""


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
            Arm("bm25", result.hits, settings.bm25_weight, rest=_rest(result.hits)),
        ],
        limit=query.top_k,
    )
    return Ranking(fused, passages_seq=seq, lexical_seq=result.as_of_seq)


def _rest(hits: Sequence[Hit]) -> float | None:
    """The word score of a chunk that the arm does not hold, where the arm is too short to tell by itself."""
    return 0.0 if len(hits) < FEW_HITS else None
