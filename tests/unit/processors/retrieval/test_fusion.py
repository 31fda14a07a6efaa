from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loreline.processors.retrieval.fusion import Arm, Fused, fuse, fuse_scores
from loreline.schemas.records import Hit

SCORES = st.floats(-100, 100, allow_nan=False)


def hit(chunk_id: str, score: float = 0.0) -> Hit:
    return Hit(chunk_id=chunk_id, original_index=int(chunk_id[1:]), score=score)


@st.composite
def hits(draw: st.DrawFn) -> list[Hit]:
    ids = draw(st.lists(st.integers(0, 30), unique=True, max_size=12))
    scores = sorted((draw(SCORES) for _ in ids), reverse=True)
    return [hit(f"c{i}", score) for i, score in zip(ids, scores, strict=True)]


def ids(fused: list[Fused]) -> list[str]:
    return [each.chunk_id for each in fused]


Fusion = Callable[[Sequence[Arm]], list[Fused]]
FUSIONS: list[Fusion] = [fuse, fuse_scores]


def test_a_chunk_scores_the_sum_of_weight_over_k_plus_rank() -> None:
    semantic = Arm("semantic", [hit("c1", 0.9), hit("c2", 0.8)], 0.8)
    bm25 = Arm("bm25", [hit("c2", 12.0), hit("c3", 7.0)], 0.2)
    scores = {each.chunk_id: each.trace.fused_score for each in fuse([semantic, bm25], k=60)}
    assert scores == pytest.approx({"c1": 0.8 / 61, "c2": 0.8 / 62 + 0.2 / 61, "c3": 0.2 / 62})


def test_the_trace_tells_every_rank_from_one_and_what_an_arm_did_not_see() -> None:
    semantic = Arm("semantic", [hit("c1", 0.9), hit("c2", 0.8)])
    bm25 = Arm("bm25", [hit("c2", 12.0), hit("c3", 7.0)])
    traces = {each.chunk_id: each.trace for each in fuse([semantic, bm25])}
    second = traces["c2"]
    assert (second.semantic_rank, second.semantic_score) == (2, 0.8)
    assert (second.bm25_rank, second.bm25_score) == (1, 12.0)
    assert (second.fused_rank, second.final_rank) == (1, 1)
    assert (traces["c1"].bm25_rank, traces["c1"].bm25_score) == (None, None)
    assert (traces["c3"].semantic_rank, traces["c3"].semantic_score) == (None, None)


def test_scores_are_compared_in_standard_deviations() -> None:
    semantic = Arm("semantic", [hit("c1", 3.0), hit("c2", 1.0)])
    bm25 = Arm("bm25", [hit("c2", 500.0), hit("c1", 100.0), hit("c3", 0.0)])
    fused = {each.chunk_id: each.trace.fused_score for each in fuse_scores([semantic, bm25])}
    spread = math.sqrt((300**2 + 100**2 + 200**2) / 3)
    assert fused == pytest.approx({"c1": 1 - 100 / spread, "c2": -1 + 300 / spread, "c3": -1 - 200 / spread})


@pytest.mark.parametrize("fusion", FUSIONS)
@given(semantic=hits(), bm25=hits())
def test_arms_of_equal_weight_may_come_in_any_order(
    fusion: Fusion, semantic: list[Hit], bm25: list[Hit]
) -> None:
    arms = [Arm("semantic", semantic), Arm("bm25", bm25)]
    assert fusion(arms) == fusion(arms[::-1])


@pytest.mark.parametrize("fusion", FUSIONS)
@given(semantic=hits(), weight=st.floats(0.1, 10))
def test_a_single_arm_keeps_its_order(fusion: Fusion, semantic: list[Hit], weight: float) -> None:
    fused = fusion([Arm("semantic", semantic, weight)])
    assert ids(fused) == [each.chunk_id for each in semantic]
    assert [each.trace.final_rank for each in fused] == list(range(1, len(semantic) + 1))


@pytest.mark.parametrize("fusion", FUSIONS)
@given(semantic=hits(), bm25=hits())
def test_every_candidate_comes_once_best_first(fusion: Fusion, semantic: list[Hit], bm25: list[Hit]) -> None:
    fused = fusion([Arm("semantic", semantic), Arm("bm25", bm25)])
    assert sorted(ids(fused)) == sorted({each.chunk_id for each in semantic + bm25})
    scores = [each.trace.fused_score for each in fused]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("fusion", FUSIONS)
@given(semantic=hits(), bm25=hits())
def test_an_arm_of_weight_zero_is_seen_in_traces_only(
    fusion: Fusion, semantic: list[Hit], bm25: list[Hit]
) -> None:
    alone = fusion([Arm("semantic", semantic)])
    both = fusion([Arm("semantic", semantic), Arm("bm25", bm25, 0.0)])
    assert ids(both) == ids(alone)
    assert [each.trace.fused_score for each in both] == [each.trace.fused_score for each in alone]
    ranks = {each.chunk_id: at for at, each in enumerate(bm25, start=1)}
    assert [each.trace.bm25_rank for each in both] == [ranks.get(chunk_id) for chunk_id in ids(both)]


@given(st.permutations(range(5, 15)), st.integers(0, 8), st.integers(1, 9))
def test_a_better_rank_in_one_arm_never_lowers_a_chunk(order: list[int], high: int, low: int) -> None:
    low = max(low, high + 1)
    bm25 = [hit(f"c{i}") for i in order]
    moved = [*bm25[:high], bm25[low], *bm25[high:low], *bm25[low + 1 :]]
    semantic = Arm("semantic", [hit(f"c{i}") for i in range(10)])

    def place(arm: list[Hit]) -> int:
        return ids(fuse([semantic, Arm("bm25", arm)])).index(bm25[low].chunk_id)

    assert place(moved) <= place(bm25)


def test_ties_keep_first_seen_order_then_the_chunk_id() -> None:
    fused = fuse([Arm("semantic", [hit("c2"), hit("c5")]), Arm("bm25", [hit("c1"), hit("c4")])])
    assert ids(fused) == ["c1", "c2", "c4", "c5"]


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_chunk_ranked_twice_by_an_arm_is_refused(fusion: Fusion) -> None:
    with pytest.raises(ValueError, match="bm25 arm ranks a chunk twice"):
        fusion([Arm("bm25", [hit("c1"), hit("c1")])])


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_that_cannot_weigh_is_refused(fusion: Fusion, weight: float) -> None:
    with pytest.raises(ValueError, match="give a finite weight"):
        fusion([Arm("bm25", [hit("c1")], weight)])


def test_two_arms_of_one_name_a_negative_k_and_a_score_that_is_no_number_are_refused() -> None:
    with pytest.raises(ValueError, match="share a name"):
        fuse([Arm("bm25", []), Arm("bm25", [])])
    with pytest.raises(ValueError, match="k is -1"):
        fuse([], k=-1)
    with pytest.raises(ValueError, match="not finite"):
        fuse_scores([Arm("bm25", [hit("c1", math.nan)])])


@pytest.mark.parametrize("fusion", FUSIONS)
def test_nothing_fused_is_nothing(fusion: Fusion) -> None:
    assert fusion([]) == fusion([Arm("semantic", []), Arm("bm25", [])]) == []
