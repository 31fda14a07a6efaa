"""BM25 over several fields, in memory: immutable postings that are updated by value.

Scores follow Lucene's `BM25Similarity`, in float64, on Elasticsearch's scale (its `LegacyBM25Similarity`
keeps the factor k1 + 1 = 2.2 that newer Lucene drops). Statistics count live chunks only, so postings
that grew by additions and deletions score bit for bit as postings built at once.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loreline.projectors.lexical.segments import LENGTHS, Forward, Segment, invert, merge
from loreline.schemas.records import Hit

K1 = 1.2
B = 0.75
SCALE = K1 + 1.0

_MERGE_RATIO = 4

FieldQuery = Sequence[tuple[int, int]]
"""(term id, occurrences in the question) of one field, in question order, each term once."""


@dataclass(frozen=True)
class FieldStats:
    """What BM25 must know of one field: live chunks that have a term in it, and their terms in all."""

    n_chunks: int = 0
    n_terms: int = 0

    def plus(self, lengths: NDArray[np.int64], *, sign: int = 1) -> FieldStats:
        """These statistics with chunks of such lengths added (`sign` 1) or removed (-1)."""
        return FieldStats(
            self.n_chunks + sign * int(np.count_nonzero(lengths)),
            self.n_terms + sign * int(lengths.sum()),
        )


@dataclass(frozen=True, eq=False)
class Postings:
    """The live chunks of an index, searchable. A value: `updated` gives new postings.

    Attributes:
        segments: immutable runs of chunks, older and larger first; at most logarithmically many.
        stats: one FieldStats a field.
    """

    segments: tuple[Segment, ...]
    stats: tuple[FieldStats, ...]

    @classmethod
    def empty(cls, n_fields: int) -> Postings:
        """Postings without a chunk."""
        return cls((), (FieldStats(),) * n_fields)

    @classmethod
    def of(cls, forward: Forward, *, only: NDArray[np.uint32] | None = None) -> Postings:
        """Postings of exactly these chunks; `only` keeps just those term ids (lengths stay whole)."""
        segment = invert(forward, only=only)
        stats = tuple(FieldStats().plus(field.lengths) for field in segment.fields)
        return cls((segment,) if len(segment.chunk_ids) else (), stats)

    def __len__(self) -> int:
        """Number of live chunks."""
        return sum(segment.n_live for segment in self.segments)

    def updated(self, *, add: Forward | None = None, delete: Collection[str] = ()) -> Postings:
        """These postings without `delete`, then with `add`; adding a live chunk id replaces that chunk.

        Unknown ids in `delete` are ignored. The cost is that of the change, plus now and then a merge.
        """
        gone = {*delete, *(add.chunk_ids if add is not None else ())}
        segments, stats = list(self.segments), list(self.stats)
        for i, segment in enumerate(segments):
            rows = segment.live_rows(gone)
            if not len(rows):
                continue
            stats = [
                known.plus(field.lengths[rows], sign=-1)
                for known, field in zip(stats, segment.fields, strict=True)
            ]
            segments[i] = segment.without(rows)
        if add is not None and add.chunk_ids:
            fresh = invert(add)
            stats = [known.plus(field.lengths) for known, field in zip(stats, fresh.fields, strict=True)]
            segments.append(fresh)
        return replace(self, segments=_tidied(segments), stats=tuple(stats))

    def search(self, query: Mapping[int, FieldQuery], *, top_k: int) -> list[Hit]:
        """The `top_k` best chunks, best first; ties by chunk id.

        query: field index -> its terms. A chunk scores the best of its fields (dis_max, Elasticsearch's
        `best_fields`); a field scores the sum over its terms of
        `2.2 * idf * tf / (tf + k1 * (1 - b + b * length / average length))`, with
        `idf = ln(1 + (N - n + .5) / (n + .5))` and the length rounded as Lucene's one-byte norm.
        """
        best = [np.zeros(len(segment.chunk_ids)) for segment in self.segments]
        for field, terms in query.items():
            for total, scores in zip(best, self._field_scores(field, terms), strict=True):
                np.maximum(total, scores, out=total)
        return self._best_hits(best, top_k=top_k)

    def _field_scores(self, field: int, terms: FieldQuery) -> list[NDArray[np.float64]]:
        scores = [np.zeros(len(segment.chunk_ids)) for segment in self.segments]
        known = self.stats[field]
        if not known.n_terms:
            return scores
        norms = K1 * (1.0 - B + B * LENGTHS / (known.n_terms / known.n_chunks))
        for term, occurrences in terms:
            found = list(self._live_postings(field, term))
            n = sum(len(rows) for _, rows, _ in found)
            weight = occurrences * math.log(1.0 + (known.n_chunks - n + 0.5) / (n + 0.5))
            for i, rows, tfs in found:
                norm = norms[self.segments[i].fields[field].norms[rows]]
                scores[i][rows] += weight * (tfs / (tfs + norm))
        return scores

    def _live_postings(
        self, field: int, term: int
    ) -> Iterator[tuple[int, NDArray[np.int32], NDArray[np.uint32]]]:
        for i, segment in enumerate(self.segments):
            rows, tfs = segment.fields[field].postings(term)
            if not len(rows):
                continue
            if segment.n_live < len(segment.chunk_ids):
                alive = segment.live[rows]
                rows, tfs = rows[alive], tfs[alive]
            yield i, rows, tfs

    def _best_hits(self, best: list[NDArray[np.float64]], *, top_k: int) -> list[Hit]:
        scores = np.concatenate(best) if best else np.zeros(0)
        floor = np.partition(scores, -top_k)[-top_k] if top_k < len(scores) else 0.0
        chosen = np.flatnonzero((scores >= floor) & (scores > 0.0))
        starts = np.cumsum([0, *(len(part) for part in best)])
        owners = np.searchsorted(starts, chosen, side="right") - 1
        found = [
            (-score, self.segments[owner].chunk_ids[row], int(self.segments[owner].original_index[row]))
            for score, owner, row in zip(
                scores[chosen].tolist(), owners.tolist(), (chosen - starts[owners]).tolist(), strict=True
            )
        ]
        return [
            Hit(chunk_id=chunk_id, original_index=original_index, score=-negative * SCALE)
            for negative, chunk_id, original_index in heapq.nsmallest(top_k, found)
        ]


def _tidied(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Segments without empty ones, each half alive at least and four times the size of the next."""
    kept: list[Segment] = []
    for segment in segments:
        if not segment.n_live:
            continue
        kept.append(merge([segment]) if 2 * segment.n_live < len(segment.chunk_ids) else segment)
    first, run = len(kept), 0
    while first and (not run or kept[first - 1].n_live <= _MERGE_RATIO * run):
        first -= 1
        run += kept[first].n_live
    return tuple(kept) if len(kept) - first < 2 else (*kept[:first], merge(kept[first:]))
