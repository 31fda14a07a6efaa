"""The SQLite file of the lexical index: its tables, connections and the forward index's encoding."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loreline.projectors.lexical.changes import LexicalStoreUnusable
from loreline.projectors.lexical.fields import FIELDS, N_FIELDS
from loreline.projectors.lexical.segments import Forward
from loreline.schemas.errors import DependencyDown

FORMAT = 1
"""Written to `user_version`. A changed DDL is a new format: there are no migrations, only rebuilds."""

FORWARD_COLUMNS = tuple(f"{text}_{subfield}" for text, subfield in FIELDS)
_FORWARD_SELECT = ", ".join(f"forward.{name}" for name in FORWARD_COLUMNS)
_BATCH_ROWS = 10_000
_PASSING_TROUBLE = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
)

DDL = f"""
-- One row: how far this view has come, and with which analyzer. A new generation renumbers the terms.
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    analyzer TEXT NOT NULL,
    generation INTEGER NOT NULL
);
-- A version of a file, searchable from from_seq on and before to_seq.
CREATE TABLE documents (
    doc_id TEXT NOT NULL,
    from_seq INTEGER NOT NULL,
    to_seq INTEGER,
    file_id TEXT NOT NULL,
    PRIMARY KEY (doc_id, from_seq)
);
CREATE UNIQUE INDEX documents_live ON documents (doc_id) WHERE to_seq IS NULL;
CREATE INDEX documents_live_file ON documents (file_id) WHERE to_seq IS NULL;
CREATE TABLE chunks (
    row INTEGER PRIMARY KEY,
    chunk_id TEXT NOT NULL,
    from_seq INTEGER NOT NULL,
    to_seq INTEGER,
    doc_id TEXT NOT NULL,
    original_index INTEGER NOT NULL,
    content TEXT NOT NULL,
    contextualized_content TEXT NOT NULL,
    UNIQUE (chunk_id, from_seq),
    FOREIGN KEY (doc_id, from_seq) REFERENCES documents (doc_id, from_seq) ON DELETE CASCADE
);
CREATE UNIQUE INDEX chunks_live ON chunks (chunk_id) WHERE to_seq IS NULL;
CREATE INDEX chunks_document ON chunks (doc_id, from_seq);
-- These two find what is visible, or changed since a sequence, without touching the texts.
CREATE INDEX chunks_from ON chunks (from_seq, to_seq, chunk_id, original_index);
CREATE INDEX chunks_to ON chunks (to_seq) WHERE to_seq IS NOT NULL;
CREATE TABLE terms (id INTEGER PRIMARY KEY, term TEXT NOT NULL UNIQUE);
-- The forward index: per chunk and field, little-endian uint32 pairs (term id, occurrences).
-- A chunk's length in a field is the sum of its occurrences.
CREATE TABLE forward (
    row INTEGER PRIMARY KEY REFERENCES chunks (row) ON DELETE CASCADE,
    {", ".join(f"{name} BLOB NOT NULL" for name in FORWARD_COLUMNS)}
);
"""

LIVE = "chunks.to_seq IS NULL"
VISIBLE_AT = "chunks.from_seq <= :seq AND (chunks.to_seq IS NULL OR chunks.to_seq > :seq)"
ADDED_SINCE = "chunks.from_seq > :seq AND chunks.to_seq IS NULL"
RETIRED_SINCE = "SELECT chunk_id FROM chunks INDEXED BY chunks_to WHERE to_seq > :seq AND from_seq <= :seq"


class State(NamedTuple):
    """The state row: the checkpoint, and the numbering the forward index uses."""

    generation: int
    seq: int
    event_id: str
    analyzer: str


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode, for one thread at a time; the file is created unless `read_only`."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=30.0,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    if not read_only:
        # A chunk's forward index takes several kilobytes: in small pages every row is a chain of them.
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, write: bool = False) -> Iterator[None]:
    """One transaction: commits at the end, rolls back on any error."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into ours, which say what to do.

    Raises DependencyDown where waiting may help (locked, disk full, I/O), else LexicalStoreUnusable.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING_TROUBLE:
            raise DependencyDown(
                "lexical",
                f"the lexical index {path.name} does not take work now ({error}); free disk or wait",
            ) from error
        raise LexicalStoreUnusable(
            f"the lexical index {path.name} cannot be used ({error}); "
            "drop it and rebuild the view: loreline views rebuild lexical"
        ) from error


def is_readable(path: Path) -> bool:
    """Whether the file is an index of this format. Raises DependencyDown where waiting may help."""
    try:
        with readable(path), closing(connect(path, read_only=True)) as connection:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            return bool(found == FORMAT and connection.execute("SELECT 1 FROM state").fetchone())
    except LexicalStoreUnusable:
        return False


def read_state(connection: sqlite3.Connection) -> State:
    """The state row as this transaction sees it."""
    row = connection.execute("SELECT generation, seq, event_id, analyzer FROM state").fetchone()
    if row is None:
        raise LexicalStoreUnusable(
            "the lexical index has no state row; drop it and rebuild the view: loreline views rebuild lexical"
        )
    return State(*row)


def term_ids(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, int]:
    """Ids of those of the terms that the dictionary knows."""
    found: dict[str, int] = {}
    for start in range(0, len(terms), 500):
        part = terms[start : start + 500]
        marks = ",".join("?" * len(part))
        found.update(connection.execute(f"SELECT term, id FROM terms WHERE term IN ({marks})", part))  # noqa: S608
    return found


def encode_terms(counts: Counter[str], ids: Mapping[str, int]) -> bytes:
    """One field of one chunk as the forward index keeps it."""
    flat = [number for term, count in counts.items() for number in (ids[term], count)]
    return np.array(flat, dtype="<u4").tobytes()


def read_forward(connection: sqlite3.Connection, where: str, *, seq: int = 0) -> Forward:
    """The forward index of the chunks that match one of this module's conditions."""
    cursor = connection.execute(
        f"SELECT chunks.chunk_id, chunks.original_index, {_FORWARD_SELECT} "  # noqa: S608
        f"FROM chunks INDEXED BY chunks_from CROSS JOIN forward USING (row) WHERE {where}",
        {"seq": seq},
    )
    chunk_ids: list[str] = []
    original_index: list[int] = []
    blobs: list[list[bytes]] = [[] for _ in range(N_FIELDS)]
    sizes: list[list[int]] = [[] for _ in range(N_FIELDS)]
    while rows := cursor.fetchmany(_BATCH_ROWS):
        ids, indices, *columns = zip(*rows, strict=True)
        chunk_ids.extend(ids)
        original_index.extend(indices)
        for blob, size, column in zip(blobs, sizes, columns, strict=True):
            blob.append(b"".join(column))
            size.extend(map(len, column))
    return Forward(
        chunk_ids=tuple(chunk_ids),
        original_index=np.array(original_index, dtype=np.int64),
        pairs=tuple(np.frombuffer(b"".join(blob), dtype="<u4").reshape(-1, 2) for blob in blobs),
        counts=tuple(np.array(size, dtype=np.int64) // 8 for size in sizes),
    )
