"""The lexical view's reader: postings in memory that follow the file, never stale in silence."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loreline.projectors.lexical.analyzer import ANALYZER_VERSION, Analyzer
from loreline.projectors.lexical.changes import LexicalResult, LexicalStoreUnusable
from loreline.projectors.lexical.fields import FIELDS, query_terms
from loreline.projectors.lexical.postings import FieldQuery, Postings
from loreline.projectors.lexical.schema import (
    ADDED_SINCE,
    LIVE,
    RETIRED_SINCE,
    VISIBLE_AT,
    State,
    connect,
    read_forward,
    read_state,
    readable,
    term_ids,
    transaction,
)
from loreline.schemas.errors import NotReady

FileIdentity = tuple[int, int]
"""Device and inode: a file put in another's place is another file."""


@dataclass(frozen=True)
class _Reader:
    connection: sqlite3.Connection
    file: FileIdentity


@dataclass(frozen=True, eq=False)
class _Known:
    """Postings, and the moment of the file they show."""

    file: FileIdentity
    generation: int
    seq: int
    postings: Postings

    def shows(self, file: FileIdentity, state: State) -> bool:
        return (self.file, self.generation, self.seq) == (file, state.generation, state.seq)

    def precedes(self, file: FileIdentity, state: State) -> bool:
        return (self.file, self.generation) == (file, state.generation) and self.seq < state.seq


class LexicalSearcher:
    """Searches one index file while its store writes. Safe for any number of threads; calls block.

    Every search reads the file's state row first, in its own read transaction. Postings that lag are
    brought up by what changed since, or built anew if the file was replaced, rolled back or re-analyzed.
    """

    def __init__(self, path: Path, *, analyzer_version: str = ANALYZER_VERSION) -> None:
        self._path = path
        self._analyzer_version = analyzer_version
        self._analyzer = Analyzer()
        self._idle: list[_Reader] = []
        self._refreshing = threading.Lock()
        self._known: _Known | None = None

    def close(self) -> None:
        """Closes the idle connections; call it when no search is under way."""
        while self._idle:
            self._idle.pop().connection.close()

    def search(self, query: str, *, top_k: int, as_of_seq: int | None = None) -> LexicalResult:
        """The `top_k` best chunks for a question, of now or of log sequence `as_of_seq`.

        A question without a searchable word has no hits; one of over 16,384 characters is cut there.
        A search of the past scans the rows visible at that sequence and keeps nothing.
        Raises NotReady if the view has not reached `as_of_seq`, ValueError for `top_k` below 1,
        LexicalStoreUnusable for a missing or damaged file, or one of another analyzer.
        """
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, not {top_k}")
        wanted = query_terms(self._analyzer, query)
        with readable(self._path), self._reader() as reader:
            if as_of_seq is not None:
                return self._search_past(reader, wanted, top_k=top_k, seq=as_of_seq)
            with transaction(reader.connection):
                state = self._checked_state(reader)
                known = self._known
                if known is not None and known.shows(reader.file, state):
                    terms = _with_ids(reader.connection, wanted)
                    return LexicalResult(known.postings.search(terms, top_k=top_k), known.seq)
            known, terms = self._refreshed(reader, wanted)
            return LexicalResult(known.postings.search(terms, top_k=top_k), known.seq)

    def _refreshed(
        self, reader: _Reader, wanted: dict[str, dict[str, int]]
    ) -> tuple[_Known, dict[int, FieldQuery]]:
        # The transaction begins after the lock is held: it can then only be level with the postings
        # or ahead of them, and a sequence behind theirs means that the file itself went back.
        with self._refreshing, transaction(reader.connection):
            state = self._checked_state(reader)
            known = self._known
            if known is None or not known.shows(reader.file, state):
                base = known if known is not None and known.precedes(reader.file, state) else None
                postings = _current(reader.connection, base)
                known = self._known = _Known(reader.file, state.generation, state.seq, postings)
            return known, _with_ids(reader.connection, wanted)

    def _search_past(
        self, reader: _Reader, wanted: dict[str, dict[str, int]], *, top_k: int, seq: int
    ) -> LexicalResult:
        with transaction(reader.connection):
            state = self._checked_state(reader)
            if seq > state.seq:
                raise NotReady(
                    f"the lexical view contains sequence {state.seq} of the log, not yet {seq}; retry shortly"
                )
            terms = _with_ids(reader.connection, wanted)
            ids = np.array([term for field in terms.values() for term, _ in field], dtype=np.uint32)
            if not len(ids):
                return LexicalResult([], seq)
            visible = read_forward(reader.connection, VISIBLE_AT, seq=seq)
        return LexicalResult(Postings.of(visible, only=ids).search(terms, top_k=top_k), seq)

    def _checked_state(self, reader: _Reader) -> State:
        state = read_state(reader.connection)
        if state.analyzer != self._analyzer_version:
            raise LexicalStoreUnusable(
                f"the lexical index was analyzed by {state.analyzer}, this program uses "
                f"{self._analyzer_version}; start its projector, which derives it again"
            )
        return state

    @contextmanager
    def _reader(self) -> Iterator[_Reader]:
        """A connection to the file that stands at the path now."""
        reader = self._idle.pop() if self._idle else None
        file = _identity(self._path)
        if reader is not None and reader.file != file:
            reader.connection.close()
            reader = None
        if reader is None:
            reader = _Reader(connect(self._path, read_only=True), file)
        try:
            yield reader
        except BaseException:
            reader.connection.close()
            raise
        self._idle.append(reader)


def _identity(path: Path) -> FileIdentity:
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise LexicalStoreUnusable(
            f"there is no lexical index {path.name} yet; start its projector or rebuild the view: "
            "loreline views rebuild lexical"
        ) from error
    return found.st_dev, found.st_ino


def _current(connection: sqlite3.Connection, base: _Known | None) -> Postings:
    """Postings of the live rows, from `base` and what changed since if it can be continued."""
    if base is None:
        return Postings.of(read_forward(connection, LIVE))
    retired = connection.execute(RETIRED_SINCE, {"seq": base.seq})
    gone = [chunk_id for (chunk_id,) in retired]
    return base.postings.updated(add=read_forward(connection, ADDED_SINCE, seq=base.seq), delete=gone)


def _with_ids(connection: sqlite3.Connection, wanted: dict[str, dict[str, int]]) -> dict[int, FieldQuery]:
    """A question's terms by field index, as ids; unknown terms match nothing and are left out."""
    ids = term_ids(connection, list({term for counts in wanted.values() for term in counts}))
    return {
        field: [(ids[term], count) for term, count in wanted[subfield].items() if term in ids]
        for field, (_, subfield) in enumerate(FIELDS)
        if subfield in wanted
    }
