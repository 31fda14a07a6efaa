from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest

from loreline.processors.models.hashing import HashEmbedder
from loreline.processors.retrieval import RETRIEVERS
from loreline.processors.retrieval.search import Retrieved, Sources, retrieve
from loreline.projectors.lexical import LexicalResult
from loreline.schemas.errors import InputError
from loreline.schemas.ports import Vectors
from loreline.schemas.records import ChunkRecord, Hit
from loreline.schemas.settings import resolve


def hit(number: int, score: float) -> Hit:
    return Hit(chunk_id=f"c{number}", original_index=number, score=score)


def record(number: int) -> ChunkRecord:
    return ChunkRecord(
        doc_id="d",
        chunk_id=f"c{number}",
        original_index=number,
        chunk_index=number,
        source="/docs/a.txt",
        relative_path="a.txt",
        file_name="a.txt",
        file_type="txt",
        content=f"text {number}",
        contextualized_content=f"text {number}",
        chunk_size=1,
        chunk_overlap=0,
        chunking_strategy="recursive_character",
        embedding_model="hash",
        n_tokens=1,
        content_hash="0",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


class Views:
    """Two arms that disagree, and a table that lacks some of what they name."""

    def __init__(self, dense: Sequence[Hit], words: Sequence[Hit], lacking: frozenset[int]) -> None:
        self._dense = dense
        self._words = words
        self._lacking = lacking
        self.depths: dict[str, int] = {}

    async def nearest(
        self, profile: str, vector: Vectors, *, top_k: int, as_of_seq: int | None = None
    ) -> tuple[list[Hit], int]:
        self.depths["semantic"] = top_k
        return list(self._dense[:top_k]), 11

    async def search(
        self, profile: str, text: str, *, top_k: int, as_of_seq: int | None = None
    ) -> LexicalResult:
        self.depths["bm25"] = top_k
        return LexicalResult(list(self._words[:top_k]), 12)

    async def records(
        self, profile: str, original_indexes: Sequence[int], *, as_of_seq: int | None = None
    ) -> Mapping[int, ChunkRecord]:
        return {number: record(number) for number in original_indexes if number not in self._lacking}


DENSE = [hit(1, 0.9), hit(2, 0.8), hit(3, 0.1)]
WORDS = [hit(4, 9.0), hit(2, 8.0), hit(1, 2.0)]


async def ask(
    method: str,
    *,
    top_k: int = 3,
    lacking: frozenset[int] = frozenset(),
    dense: Sequence[Hit] = DENSE,
    words: Sequence[Hit] = WORDS,
) -> tuple[Retrieved, Views]:
    views = Views(dense, words, lacking)
    found = await retrieve(
        "boats",
        method=method,
        profile="p",
        top_k=top_k,
        sources=Sources(views, views, HashEmbedder(dim=8)),
        settings=resolve({}, {}).retrieval,
        retrievers=RETRIEVERS,
    )
    return found, views


@pytest.mark.parametrize(
    ("method", "scores", "seqs"), [("semantic", [0.9, 0.8, 0.1], (11, 0)), ("bm25", [9.0, 8.0, 2.0], (0, 12))]
)
async def test_a_single_arm_reports_its_own_scores(
    method: str, scores: list[float], seqs: tuple[int, int]
) -> None:
    found, views = await ask(method)
    assert [passage.score for passage in found.passages] == scores
    assert (found.passages_seq, found.lexical_seq, found.method) == (*seqs, method)
    assert set(views.depths) == {method}
    for rank, passage in enumerate(found.passages, start=1):
        assert passage.trace is not None
        trace = passage.trace
        mine, other = (
            (trace.semantic_rank, trace.bm25_rank)
            if method == "semantic"
            else (trace.bm25_rank, trace.semantic_rank)
        )
        assert (mine, other) == (rank, None)
        assert (trace.fused_rank, trace.final_rank, trace.fused_score) == (rank, rank, scores[rank - 1])


async def test_hybrid_tells_the_whole_story_of_each_place() -> None:
    found, views = await ask("hybrid", top_k=4)
    assert views.depths == {"semantic": 50, "bm25": 50}
    assert (found.passages_seq, found.lexical_seq, found.n_dropped) == (11, 12, 0)
    traces = {passage.chunk_id: passage.trace for passage in found.passages}
    assert found.passages[0].chunk_id == "c2"
    places = {name: (t.semantic_rank, t.bm25_rank) for name, t in traces.items() if t is not None}
    assert places == {"c1": (1, 3), "c2": (2, 2), "c3": (3, None), "c4": (None, 1)}
    assert [passage.trace.final_rank for passage in found.passages if passage.trace] == [1, 2, 3, 4]
    scores = [passage.score for passage in found.passages]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("method", ["semantic", "bm25", "hybrid"])
async def test_a_hit_that_passages_cannot_hydrate_is_dropped_and_counted(method: str) -> None:
    found, _ = await ask(method, lacking=frozenset({2}))
    assert found.n_dropped == 1
    assert "c2" not in {passage.chunk_id for passage in found.passages}
    assert [passage.trace.final_rank for passage in found.passages if passage.trace] == [1, 2]


async def test_arms_are_asked_deeper_than_what_is_wanted_of_them_together() -> None:
    _, views = await ask("hybrid", top_k=60)
    assert views.depths == {"semantic": 240, "bm25": 240}


async def test_an_unknown_method_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(InputError, match="semantic, bm25, hybrid"):
        await ask("magic")


@pytest.mark.parametrize("n_matches", [1, 2])
async def test_the_only_matches_of_a_rare_word_stand_out_from_what_is_merely_near(n_matches: int) -> None:
    near = [hit(number, 0.9 - 0.002 * number) for number in range(1, 101)]
    rare = [hit(80 + number, 9.0) for number in range(n_matches)]
    found, _ = await ask("hybrid", dense=near, words=rare)
    assert {passage.chunk_id for passage in found.passages[:n_matches]} == {each.chunk_id for each in rare}


async def test_an_arm_that_could_go_on_says_nothing_of_what_it_did_not_reach() -> None:
    near = [hit(number, 0.9 - 0.002 * number) for number in range(1, 101)]
    many = [hit(number, 9.0 - 0.01 * number) for number in range(101, 201)]
    found, _ = await ask("hybrid", top_k=20, dense=near, words=many)
    arms = {passage.original_index > 100 for passage in found.passages}
    assert arms == {True, False}
