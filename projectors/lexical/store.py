"""The lexical view's writer: one SQLite file, moved from checkpoint to checkpoint."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from loreline.projectors.lexical.analyzer import ANALYZER_VERSION, Analyzer
from loreline.projectors.lexical.changes import (
    AddDocument,
    CheckpointLost,
    LexicalChange,
    LexicalChunk,
    LexicalStoreUnusable,
    RetireDocument,
)
from loreline.projectors.lexical.fields import TermCounts, count_terms
from loreline.projectors.lexical.schema import (
    DDL,
    FORMAT,
    FORWARD_COLUMNS,
    connect,
    encode_terms,
    read_state,
    readable,
    term_ids,
    transaction,
)
from loreline.schemas.text import encodable

_REDERIVE_ROWS = 500

RowKey = tuple[str | int | None, ...]


class LexicalStore:
    """The only writer of an index file. Methods block: call them in a thread; they take turns."""

    def __init__(self, path: Path, connection: sqlite3.Connection, analyzer: Analyzer) -> None:
        self._path = path
        self._connection = connection
        self._analyzer = analyzer
        self._turn = threading.Lock()

    @classmethod
    def open(cls, path: Path, *, analyzer_version: str = ANALYZER_VERSION) -> LexicalStore:
        """Opens the index file, creating it at sequence 0.

        If the file was written with another analyzer version, its forward index is derived again from
        the stored texts, in one transaction, before this returns (about a second per thousand chunks).
        Raises LexicalStoreUnusable for a file that is damaged, foreign or of another format.
        """
        with readable(path):
            connection = connect(path)
            try:
                _create_or_check(connection, path, analyzer_version)
                store = cls(path, connection, Analyzer())
                if read_state(connection).analyzer != analyzer_version:
                    store._rederive(analyzer_version)
            except BaseException:
                connection.close()
                raise
        return store

    def close(self) -> None:
        """Closes the file."""
        with self._turn:
            self._connection.close()

    def checkpoint(self) -> tuple[int, str]:
        """(seq, event id) of the last event this view contains; (0, "") when new."""
        with self._turn, readable(self._path):
            state = read_state(self._connection)
        return state.seq, state.event_id

    def apply(self, changes: Sequence[LexicalChange], *, old_seq: int, new_seq: int, event_id: str) -> None:
        """Applies changes in order and moves the checkpoint, in one transaction or not at all.

        changes: each of a sequence above `old_seq`, at most `new_seq`; ascending.
        event_id: the event at `new_seq`.
        Raises CheckpointLost, changing nothing, if the checkpoint does not stand at `old_seq`;
        ValueError if a change lies outside the step, since readers look only there for what is new.
        """
        if any(not old_seq < change.seq <= new_seq for change in changes):
            raise ValueError(f"every change must lie above sequence {old_seq} and at most at {new_seq}")
        analyzed = [self._analyzed(change) for change in changes]
        with self._turn, readable(self._path), transaction(self._connection, write=True):
            self._move_checkpoint(old_seq, new_seq, event_id)
            for change, chunks in zip(changes, analyzed, strict=True):
                if isinstance(change, AddDocument):
                    self._add(change, chunks)
                else:
                    self._retire(change)

    def rows(self) -> Iterator[RowKey]:
        """Every stored row in key order, for the row hash: all documents, then all chunks.

        `("document", doc_id, from_seq, to_seq, file_id)` and `("chunk", chunk_id, from_seq, to_seq,
        doc_id, original_index, content, contextualized_content)`; one consistent moment.
        """
        with readable(self._path):
            reader = connect(self._path, read_only=True)
            try:
                with transaction(reader):
                    yield from reader.execute(
                        "SELECT 'document', doc_id, from_seq, to_seq, file_id "
                        "FROM documents ORDER BY doc_id, from_seq"
                    )
                    yield from reader.execute(
                        "SELECT 'chunk', chunk_id, from_seq, to_seq, doc_id, original_index, content, "
                        "contextualized_content FROM chunks ORDER BY chunk_id, from_seq"
                    )
            finally:
                reader.close()

    def _analyzed(self, change: LexicalChange) -> list[tuple[LexicalChunk, TermCounts]]:
        if isinstance(change, RetireDocument):
            return []
        chunks = (
            LexicalChunk(
                chunk.chunk_id,
                chunk.original_index,
                encodable(chunk.content),
                encodable(chunk.contextualized_content),
            )
            for chunk in change.chunks
        )
        return [
            (chunk, count_terms(self._analyzer, chunk.content, chunk.contextualized_content))
            for chunk in chunks
        ]

    def _move_checkpoint(self, old_seq: int, new_seq: int, event_id: str) -> None:
        moved = self._connection.execute(
            "UPDATE state SET seq = ?, event_id = ? WHERE seq = ?", (new_seq, event_id, old_seq)
        )
        if moved.rowcount != 1:
            raise CheckpointLost(
                f"the lexical view is at sequence {read_state(self._connection).seq}, not at {old_seq}: "
                "another instance owns it; stop one of the two"
            )

    def _add(self, change: AddDocument, chunks: Sequence[tuple[LexicalChunk, TermCounts]]) -> None:
        key = (change.doc_id, change.seq)
        self._connection.execute("DELETE FROM documents WHERE doc_id = ? AND from_seq = ?", key)
        self._retire(RetireDocument(change.seq, doc_id=change.doc_id))
        self._connection.execute(
            "INSERT INTO documents (doc_id, from_seq, file_id) VALUES (?, ?, ?)", (*key, change.file_id)
        )
        ids = self._ids_of(counts for _, fields in chunks for counts in fields)
        for chunk, fields in chunks:
            inserted = self._connection.execute(
                "INSERT INTO chunks (chunk_id, from_seq, doc_id, original_index, content, "
                "contextualized_content) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    chunk.chunk_id,
                    change.seq,
                    change.doc_id,
                    chunk.original_index,
                    chunk.content,
                    chunk.contextualized_content,
                ),
            )
            self._insert_forward([(inserted.lastrowid, fields)], ids)

    def _retire(self, change: RetireDocument) -> None:
        column, value = ("file_id", change.file_id) if change.doc_id is None else ("doc_id", change.doc_id)
        keys = self._connection.execute(
            f"UPDATE documents SET to_seq = ? WHERE {column} = ? AND to_seq IS NULL "  # noqa: S608
            "RETURNING doc_id, from_seq",
            (change.seq, value),
        ).fetchall()
        self._connection.executemany(
            "UPDATE chunks SET to_seq = ? WHERE doc_id = ? AND from_seq = ?",
            [(change.seq, *key) for key in keys],
        )

    def _insert_forward(self, rows: Sequence[tuple[int | None, TermCounts]], ids: dict[str, int]) -> None:
        marks = ", ".join("?" * (1 + len(FORWARD_COLUMNS)))
        self._connection.executemany(
            f"INSERT INTO forward (row, {', '.join(FORWARD_COLUMNS)}) VALUES ({marks})",  # noqa: S608
            [(row, *(encode_terms(counts, ids) for counts in fields)) for row, fields in rows],
        )

    def _ids_of(self, counted: Iterable[Iterable[str]]) -> dict[str, int]:
        """Ids of all the terms; new ones are entered into the dictionary in first-seen order."""
        wanted = dict.fromkeys(term for counts in counted for term in counts)
        ids = term_ids(self._connection, list(wanted))
        for term in wanted:
            if term not in ids:
                inserted = self._connection.execute("INSERT INTO terms (term) VALUES (?)", (term,))
                ids[term] = inserted.lastrowid or 0
        return ids

    def _rederive(self, analyzer_version: str) -> None:
        """Forward index and dictionary anew from the stored texts; readers notice by the generation."""
        with transaction(self._connection, write=True):
            self._connection.execute("DELETE FROM forward")
            self._connection.execute("DELETE FROM terms")
            last_row = -1
            while rows := self._connection.execute(
                "SELECT row, content, contextualized_content FROM chunks WHERE row > ? ORDER BY row LIMIT ?",
                (last_row, _REDERIVE_ROWS),
            ).fetchall():
                analyzed = [(row, count_terms(self._analyzer, *texts)) for row, *texts in rows]
                ids = self._ids_of(counts for _, fields in analyzed for counts in fields)
                self._insert_forward(analyzed, ids)
                last_row = rows[-1][0]
            self._connection.execute(
                "UPDATE state SET analyzer = ?, generation = generation + 1", (analyzer_version,)
            )


def _create_or_check(connection: sqlite3.Connection, path: Path, analyzer_version: str) -> None:
    with transaction(connection, write=True):
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found == 0 and is_new:
            for statement in DDL.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO state VALUES (1, 0, '', ?, 1)", (analyzer_version,))
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        elif found != FORMAT:
            raise LexicalStoreUnusable(
                f"the lexical index {path.name} has format {found}, this program reads {FORMAT}; "
                "drop it and rebuild the view: loreline views rebuild lexical"
            )
