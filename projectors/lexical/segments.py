"""Runs of chunks turned into postings: the immutable pieces that `postings` searches and merges."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

_FREE_LENGTHS = 24


def _lucene_lengths() -> NDArray[np.float64]:
    """The 256 lengths a one-byte norm can stand for: Lucene's `SmallFloat.byte4ToInt`, ascending.

    Lengths below 24 are exact; above, four significant bits are kept, rounded down.
    """
    lengths = list(range(_FREE_LENGTHS))
    for code in range(256 - _FREE_LENGTHS):
        mantissa, shift = code & 7, (code >> 3) - 1
        lengths.append(_FREE_LENGTHS + (mantissa if shift < 0 else (mantissa | 8) << shift))
    return np.array(lengths, dtype=np.float64)


LENGTHS = _lucene_lengths()
"""`(256,)` float64: decoded length of each norm byte."""


@dataclass(frozen=True, eq=False)
class Forward:
    """The forward index of some chunks, column by column: which terms each holds, and how often.

    Attributes:
        chunk_ids: `n` distinct ids.
        original_index: `(n,)` int64.
        pairs: one `(t, 2)` uint32 array a field: (term id, occurrences), chunk after chunk.
        counts: one `(n,)` int64 array a field: how many pairs each chunk has.
    """

    chunk_ids: tuple[str, ...]
    original_index: NDArray[np.int64]
    pairs: tuple[NDArray[np.uint32], ...]
    counts: tuple[NDArray[np.int64], ...]


@dataclass(frozen=True, eq=False)
class Inverted:
    """One field's postings in one segment, sorted by term, then row.

    Attributes:
        terms: `(m,)` uint32, distinct, ascending.
        starts: `(m + 1,)` int64: postings of `terms[i]` are `starts[i]:starts[i + 1]`.
        rows: `(t,)` int32; which chunk of the segment.
        tfs: `(t,)` uint32; occurrences.
        lengths: `(n,)` int64; terms of each chunk, repeats counted.
        norms: `(n,)` uint8; the lengths as Lucene's one-byte norm, an index into LENGTHS.
    """

    terms: NDArray[np.uint32]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    tfs: NDArray[np.uint32]
    lengths: NDArray[np.int64]
    norms: NDArray[np.uint8]

    def postings(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
        """Rows that hold the term id, and its occurrences there; empty if none does."""
        i = int(np.searchsorted(self.terms, np.uint32(term)))
        if i == len(self.terms) or self.terms[i] != term:
            return self.rows[:0], self.tfs[:0]
        span = slice(int(self.starts[i]), int(self.starts[i + 1]))
        return self.rows[span], self.tfs[span]


@dataclass(frozen=True, eq=False)
class Segment:
    """Some chunks and their postings; of these, those marked live count.

    Attributes:
        chunk_ids: `n` ids; a row is a position in it.
        original_index: `(n,)` int64.
        fields: one Inverted a field.
        row_of: chunk id -> row.
        live: `(n,)` bool.
        n_live: how many are live.
    """

    chunk_ids: tuple[str, ...]
    original_index: NDArray[np.int64]
    fields: tuple[Inverted, ...]
    row_of: dict[str, int]
    live: NDArray[np.bool_]
    n_live: int

    @classmethod
    def of(
        cls, chunk_ids: tuple[str, ...], original_index: NDArray[np.int64], fields: tuple[Inverted, ...]
    ) -> Segment:
        """A segment whose chunks are all live."""
        n = len(chunk_ids)
        row_of = {chunk_id: row for row, chunk_id in enumerate(chunk_ids)}
        return cls(chunk_ids, original_index, fields, row_of, np.ones(n, dtype=np.bool_), n)

    def live_rows(self, chunk_ids: Collection[str]) -> NDArray[np.int64]:
        """Rows of those of the ids that are live here."""
        found = (self.row_of.get(chunk_id) for chunk_id in chunk_ids)
        rows = np.array([row for row in found if row is not None], dtype=np.int64)
        return rows[self.live[rows]]

    def without(self, rows: NDArray[np.int64]) -> Segment:
        """This segment with the (live) rows dead."""
        live = self.live.copy()
        live[rows] = False
        return replace(self, live=live, n_live=self.n_live - len(rows))


def invert(forward: Forward, *, only: NDArray[np.uint32] | None = None) -> Segment:
    """A segment of all the chunks; `only` keeps just these term ids, lengths and norms stay whole."""
    n = len(forward.chunk_ids)
    fields = []
    for pairs, counts in zip(forward.pairs, forward.counts, strict=True):
        terms, tfs = pairs[:, 0], pairs[:, 1]
        rows = np.repeat(np.arange(n, dtype=np.int32), counts)
        lengths = np.bincount(rows, weights=tfs, minlength=n).astype(np.int64)
        if only is not None:
            wanted = np.isin(terms, only)
            terms, tfs, rows = terms[wanted], tfs[wanted], rows[wanted]
        fields.append(_sorted_postings(terms, rows, tfs, lengths))
    return Segment.of(forward.chunk_ids, forward.original_index, tuple(fields))


def merge(segments: Sequence[Segment]) -> Segment:
    """One segment with the live chunks of all, in order."""
    chunk_ids = tuple(
        chunk_id
        for segment in segments
        for chunk_id, alive in zip(segment.chunk_ids, segment.live.tolist(), strict=True)
        if alive
    )
    original_index = np.concatenate([segment.original_index[segment.live] for segment in segments])
    fields = tuple(_merged_field(segments, i) for i in range(len(segments[0].fields)))
    return Segment.of(chunk_ids, original_index, fields)


def _merged_field(segments: Sequence[Segment], field: int) -> Inverted:
    terms, rows, tfs, lengths = [], [], [], []
    offset = 0
    for segment in segments:
        part = segment.fields[field]
        place = np.cumsum(segment.live, dtype=np.int32) - 1 + np.int32(offset)
        alive = segment.live[part.rows]
        terms.append(np.repeat(part.terms, np.diff(part.starts))[alive])
        rows.append(place[part.rows[alive]])
        tfs.append(part.tfs[alive])
        lengths.append(part.lengths[segment.live])
        offset += segment.n_live
    return _sorted_postings(*(np.concatenate(columns) for columns in (terms, rows, tfs, lengths)))


def _sorted_postings(
    terms: NDArray[np.uint32], rows: NDArray[np.int32], tfs: NDArray[np.uint32], lengths: NDArray[np.int64]
) -> Inverted:
    terms, rows, tfs = _by_term(terms, rows, tfs, n_rows=len(lengths))
    firsts = np.flatnonzero(np.diff(terms, prepend=terms[:1] ^ np.uint32(1)))
    return Inverted(
        terms=terms[firsts],
        starts=np.append(firsts, len(terms)).astype(np.int64),
        rows=rows,
        tfs=tfs,
        lengths=lengths,
        norms=(np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8),
    )


def _by_term(
    terms: NDArray[np.uint32], rows: NDArray[np.int32], tfs: NDArray[np.uint32], *, n_rows: int
) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint32]]:
    """The columns in order of term, then row.

    The three numbers almost always fit into 64 bits together; sorting them as one is ten times faster
    than sorting an index of them.
    """
    row_bits, tf_bits = n_rows.bit_length(), int(tfs.max(initial=0)).bit_length()
    term_bits = int(terms.max(initial=0)).bit_length()
    if term_bits + row_bits + tf_bits > 64:
        order = np.lexsort((rows, terms))
        return terms[order], rows[order], tfs[order]
    packed = terms.astype(np.uint64) << np.uint64(row_bits)
    packed |= rows.astype(np.uint64)
    packed <<= np.uint64(tf_bits)
    packed |= tfs
    packed.sort()
    tfs = (packed & np.uint64((1 << tf_bits) - 1)).astype(np.uint32)
    packed >>= np.uint64(tf_bits)
    rows = (packed & np.uint64((1 << row_bits) - 1)).astype(np.int32)
    return (packed >> np.uint64(row_bits)).astype(np.uint32), rows, tfs
