"""Postings score as Lucene's formula says, and growing them step by step equals building them at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loreline.projectors.lexical.postings import Postings
from loreline.projectors.lexical.segments import LENGTHS, Forward
from loreline.schemas.records import Hit

Texts = Mapping[str, Sequence[Sequence[int]]]
"""chunk id -> per field the term ids of its text, in order."""


def forward(texts: Texts, *, n_fields: int = 1) -> Forward:
    pairs: list[list[tuple[int, int]]] = [[] for _ in range(n_fields)]
    counts: list[list[int]] = [[] for _ in range(n_fields)]
    for fields in texts.values():
        for field, terms in enumerate(fields):
            distinct = dict.fromkeys(terms)
            pairs[field].extend((term, list(terms).count(term)) for term in distinct)
            counts[field].append(len(distinct))
    return Forward(
        chunk_ids=tuple(texts),
        original_index=np.array([sum(map(ord, chunk_id)) for chunk_id in texts], dtype=np.int64),
        pairs=tuple(np.array(part, dtype=np.uint32).reshape(-1, 2) for part in pairs),
        counts=tuple(np.array(part, dtype=np.int64) for part in counts),
    )


def bm25(tf: int, *, length: float, average: float, n: int, total: int) -> float:
    idf = math.log(1 + (total - n + 0.5) / (n + 0.5))
    return 2.2 * idf * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * length / average))


def scored(hits: Sequence[Hit]) -> list[tuple[str, float]]:
    return [(hit.chunk_id, hit.score) for hit in hits]


def test_scores_are_those_of_the_formula() -> None:
    postings = Postings.of(forward({"a": [[1, 1, 2]], "b": [[1, 3, 3, 3, 3]], "c": [[4]]}))
    average = 9 / 3
    one_a = bm25(2, length=3, average=average, n=2, total=3)
    one_b = bm25(1, length=5, average=average, n=2, total=3)
    three_b = bm25(4, length=5, average=average, n=1, total=3)
    found = scored(postings.search({0: [(1, 1), (3, 1)]}, top_k=10))
    assert [chunk_id for chunk_id, _ in found] == ["b", "a"]
    assert [score for _, score in found] == pytest.approx([one_b + three_b, one_a], rel=1e-12)


def test_a_term_asked_twice_weighs_twice() -> None:
    postings = Postings.of(forward({"a": [[1]], "b": [[2]]}))
    (once,) = postings.search({0: [(1, 1)]}, top_k=1)
    (twice,) = postings.search({0: [(1, 2)]}, top_k=1)
    assert twice.score == pytest.approx(2 * once.score)


def test_lengths_are_rounded_as_lucenes_byte() -> None:
    # Values of SmallFloat.byte4ToInt around the first lossy steps, and its last one.
    assert LENGTHS[[0, 23, 24, 39, 40, 41, 47, 48, 255]].tolist() == [
        *(0, 23, 24, 39, 40, 42, 54, 56),
        24 + (15 << 27),
    ]
    filler = list(range(100, 141))
    postings = Postings.of(forward({"exact": [[1, *filler[:39]]], "rounded": [[1, *filler[:40]]]}))
    exact, rounded = postings.search({0: [(1, 1)]}, top_k=2)
    assert (exact.chunk_id, rounded.chunk_id) == ("exact", "rounded")
    assert exact.score == rounded.score == pytest.approx(bm25(1, length=40, average=40.5, n=2, total=2))


def test_statistics_count_live_chunks_only() -> None:
    grown = Postings.of(forward({"a": [[1, 2]], "b": [[1]], "c": [[1, 3, 4]], "d": [[2]]}))
    (hit,) = grown.updated(delete=["b", "c"]).search({0: [(1, 1)]}, top_k=5)
    assert hit.chunk_id == "a"
    assert hit.score == pytest.approx(bm25(1, length=2, average=1.5, n=1, total=2))


def test_chunks_without_a_term_in_a_field_do_not_count_for_it() -> None:
    postings = Postings.of(forward({"a": [[1], [7]], "b": [[1], []]}, n_fields=2))
    (hit,) = postings.search({1: [(7, 1)]}, top_k=5)
    assert hit.score == pytest.approx(bm25(1, length=1, average=1, n=1, total=1))


def test_a_chunk_scores_its_best_field() -> None:
    postings = Postings.of(forward({"a": [[1, 2], [1]], "b": [[2], [2, 3, 1]]}, n_fields=2))
    query = {0: [(1, 1)], 1: [(1, 1)]}
    alone = [dict(scored(postings.search({field: terms}, top_k=9))) for field, terms in query.items()]
    assert dict(scored(postings.search(query, top_k=9))) == {
        chunk_id: max(part.get(chunk_id, 0.0) for part in alone) for chunk_id in "ab"
    }


def test_ties_go_by_chunk_id_even_at_the_cut() -> None:
    postings = Postings.empty(1)
    for chunk_id in "dbeac":
        postings = postings.updated(add=forward({chunk_id: [[1]]}))
    assert [hit.chunk_id for hit in postings.search({0: [(1, 1)]}, top_k=3)] == ["a", "b", "c"]


def test_adding_a_live_chunk_replaces_it() -> None:
    postings = Postings.of(forward({"a": [[1]]})).updated(add=forward({"a": [[2]]}))
    assert len(postings) == 1
    assert postings.search({0: [(1, 1)]}, top_k=1) == []
    assert [hit.chunk_id for hit in postings.search({0: [(2, 1)]}, top_k=1)] == ["a"]


def test_updates_leave_the_old_value_as_it_was() -> None:
    before = Postings.of(forward({"a": [[1]], "b": [[1]]}))
    found = before.search({0: [(1, 1)]}, top_k=9)
    before.updated(delete=["a"], add=forward({"c": [[1]]}))
    assert before.search({0: [(1, 1)]}, top_k=9) == found


def test_restricting_to_the_asked_terms_changes_no_score() -> None:
    texts = {f"c{i}": [[i % 3, i % 5, 9, *range(i)]] for i in range(30)}
    query = {0: [(2, 1), (9, 1)]}
    only = Postings.of(forward(texts), only=np.array([2, 9], dtype=np.uint32))
    assert only.search(query, top_k=30) == Postings.of(forward(texts)).search(query, top_k=30)


def test_huge_ids_and_counts_are_ordered_too() -> None:
    pairs = np.array([[2**32 - 1, 2**32 - 1], [1, 1], [1, 2], [2**32 - 1, 1]], dtype=np.uint32)
    counts = np.array([2, 2], dtype=np.int64)
    postings = Postings.of(Forward(("a", "b"), np.arange(2), (pairs,), (counts,)))
    assert [hit.chunk_id for hit in postings.search({0: [(2**32 - 1, 1)]}, top_k=2)] == ["a", "b"]
    assert [hit.chunk_id for hit in postings.search({0: [(1, 1)]}, top_k=2)] == ["b", "a"]


def test_many_updates_keep_few_segments() -> None:
    postings = Postings.empty(1)
    for i in range(300):
        postings = postings.updated(add=forward({f"c{i}": [[i % 7]]}), delete=[f"c{i - 150}"])
    assert len(postings) == 150
    assert len(postings.segments) <= 6


chunk_texts = st.lists(st.lists(st.integers(0, 6), max_size=60), min_size=2, max_size=2)
steps = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([f"c{i}" for i in range(12)]), chunk_texts, max_size=4),
        st.sets(st.sampled_from([f"c{i}" for i in range(12)]), max_size=3),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.permutations(range(7)), st.integers(1, 15))
def test_any_sequence_of_updates_equals_a_fresh_build(
    changes: list[tuple[dict[str, list[list[int]]], set[str]]], order: list[int], top_k: int
) -> None:
    live: dict[str, list[list[int]]] = {}
    grown = Postings.empty(2)
    for added, deleted in changes:
        grown = grown.updated(add=forward(added, n_fields=2), delete=deleted)
        live = {**{key: text for key, text in live.items() if key not in deleted}, **added}
    fresh = Postings.of(forward(live, n_fields=2))
    query = {0: [(term, 1) for term in order[:4]], 1: [(term, 2) for term in order[2:]]}
    assert grown.stats == fresh.stats
    assert len(grown) == len(fresh) == len(live)
    assert grown.search(query, top_k=top_k) == fresh.search(query, top_k=top_k)
