"""The passages view: every chunk with its vector, one table a profile, searched by cosine distance."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from psycopg import sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from loreline.events.envelope import Stored
from loreline.projectors.chunk_tables import CHUNKS, ddl, distance, index_vectors, table_of
from loreline.projectors.database import Connection, ViewDatabase, query
from loreline.projectors.materialize import ChunkRow, ChunkSet, ChunksOf, contextualize
from loreline.projectors.postgres import ViewTables, stream_rows
from loreline.projectors.reads import PASSAGES as NAME
from loreline.projectors.versions import Added, Retired, version_changes
from loreline.projectors.view import Row
from loreline.schemas.errors import NotReady
from loreline.schemas.events import corpus
from loreline.schemas.events.payload import Payload
from loreline.schemas.ports import Vectors
from loreline.schemas.records import ChunkRecord, Hit

TYPES = frozenset(
    {
        "corpus.profile_defined",
        "corpus.profile_activated",
        "file.embedded",
        "file.no_text",
        "file.failed",
        "file.superseded",
        "file.deleted",
    }
)

EXACT_CHUNKS = 20_000
"""A corpus of up to this many live chunks is searched by comparing all: about a millisecond for 2,000."""

RECOUNT_EVENTS = 200

CREATE = """
-- The profiles that exist, and which of them answered from when on.
CREATE TABLE IF NOT EXISTS {schema}.profiles (
    profile text PRIMARY KEY, seq bigint NOT NULL, dim int NOT NULL, settings jsonb NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.activations (seq bigint PRIMARY KEY, profile text NOT NULL);
"""

_COLUMNS = (
    ("chunk_id", "text"),
    ("from_seq", "int8"),
    ("to_seq", "int8"),
    ("file_id", "text"),
    ("version", "text"),
    ("original_index", "int8"),
    ("content", "text"),
    ("context", "text"),
    ("metadata", "jsonb"),
    ("embedding", "vector"),
)


@dataclass
class Plan:
    """What a run of events does to the view."""

    defined: list[tuple[str, int, int, dict[str, str]]] = field(default_factory=list)
    activated: list[tuple[int, str]] = field(default_factory=list)
    retired: list[Retired] = field(default_factory=list)
    added: list[tuple[Added, int | None, ChunkSet]] = field(default_factory=list)


def loader(chunks_of: ChunksOf) -> Callable[..., Awaitable[Plan]]:
    """How the view fetches what its events point to."""

    async def load(events: Sequence[Stored[Payload]]) -> Plan:
        plan = Plan()
        for stored in events:
            payload = stored.event.payload
            if isinstance(payload, corpus.ProfileDefined):
                plan.defined.append((payload.profile, stored.seq, payload.dim, payload.private.settings))
            elif isinstance(payload, corpus.ProfileActivated):
                plan.activated.append((stored.seq, payload.profile))
        changes = version_changes(events)
        plan.retired = [change for change in changes if isinstance(change, Retired)]
        for change in changes:
            if isinstance(change, Added):
                plan.added.append((change, _ended(change, plan.retired), await chunks_of(change)))
        return plan

    return load


def _ended(added: Added, retired: Iterable[Retired]) -> int | None:
    """The sequence at which a later event of the same run ends what was just added."""
    ends = (
        each.seq
        for each in retired
        if each.covers(
            profile=added.payload.profile,
            file_id=added.file_id,
            version=added.payload.version,
            from_seq=added.seq,
        )
    )
    return min(ends, default=None)


async def write(connection: Connection, schema: str, plan: Plan, bulk: bool) -> None:
    """Make new profiles' tables, end older rows, copy new ones in."""
    for profile, seq, dim, settings in plan.defined:
        await connection.execute(
            query("INSERT INTO {schema}.profiles VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING", schema),
            (profile, seq, dim, Jsonb(settings)),
        )
        await connection.execute(ddl(CHUNKS, schema, profile, dim))
        if not bulk:
            await index_vectors(connection, schema, profile, dim)
    for seq, profile in plan.activated:
        await connection.execute(
            query("INSERT INTO {schema}.activations VALUES (%s, %s) ON CONFLICT DO NOTHING", schema),
            (seq, profile),
        )
    if plan.retired:
        for profile in await _profiles(connection, schema):
            await _retire(connection, schema, profile, plan.retired)
    by_profile: dict[str, list[tuple[Added, int | None, ChunkSet]]] = {}
    for entry in plan.added:
        by_profile.setdefault(entry[0].payload.profile, []).append(entry)
    for profile, entries in by_profile.items():
        await _copy(connection, schema, profile, entries)


async def _retire(connection: Connection, schema: str, profile: str, retired: Sequence[Retired]) -> None:
    """End live rows older than the event that ends them, at the earliest such event."""
    mine = [each for each in retired if each.profile in (None, profile)]
    if not mine:
        return
    statement = sql.SQL(
        "UPDATE {table} t SET to_seq = r.seq FROM ("
        " SELECT c.chunk_id, c.from_seq, min(e.seq) AS seq FROM {table} c"
        " JOIN unnest(%s::text[], %s::text[], %s::bigint[]) e(file_id, version, seq) ON e.file_id = c.file_id"
        " AND (e.version IS NULL OR e.version = c.version) AND e.seq > c.from_seq"
        " WHERE c.to_seq IS NULL GROUP BY 1, 2) r"
        " WHERE t.chunk_id = r.chunk_id AND t.from_seq = r.from_seq"
    ).format(table=sql.Identifier(schema, table_of(profile)))
    await connection.execute(
        statement, ([e.file_id for e in mine], [e.version for e in mine], [e.seq for e in mine])
    )


async def _copy(
    connection: Connection, schema: str, profile: str, entries: Sequence[tuple[Added, int | None, ChunkSet]]
) -> None:
    statement = sql.SQL("COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)").format(
        table=sql.Identifier(schema, table_of(profile)),
        columns=sql.SQL(", ").join(sql.Identifier(name) for name, _ in _COLUMNS),
    )
    async with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types([kind for _, kind in _COLUMNS])
        for added, to_seq, chunks in entries:
            for row, vector in zip(chunks.rows, chunks.vectors, strict=True):
                await copy.write_row(_values(added, to_seq, row, vector))


def _values(added: Added, to_seq: int | None, row: ChunkRow, vector: Vectors) -> tuple[Any, ...]:
    return (
        row.chunk_id,
        added.seq,
        to_seq,
        added.file_id,
        added.payload.version,
        row.original_index,
        row.content,
        row.context,
        Jsonb(row.metadata),
        vector,
    )


async def finish(connection: Connection, schema: str) -> None:
    """Build the vector indexes of every profile."""
    for profile, dim in (await _profiles(connection, schema)).items():
        await connection.execute("SET maintenance_work_mem = '512MB'")
        await index_vectors(connection, schema, profile, dim)
        await connection.execute(ddl("ANALYZE {schema}.{table}", schema, profile, dim))


async def _profiles(connection: Connection, schema: str) -> dict[str, int]:
    cursor = await connection.execute(
        query("SELECT profile, dim FROM {schema}.profiles ORDER BY seq", schema)
    )
    return {row["profile"]: row["dim"] for row in await cursor.fetchall()}


async def rows(connection: Connection, schema: str) -> AsyncIterator[Row]:
    """Every row, in key order."""
    profiles = await _profiles(connection, schema)
    columns: tuple[str, ...] = ("seq", "dim", "settings")
    async for row in stream_rows(connection, schema, table="profiles", key=("profile",), columns=columns):
        yield row
    async for row in stream_rows(connection, schema, table="activations", key=("seq",), columns=("profile",)):
        yield row
    key, columns = ("chunk_id", "from_seq"), tuple(name for name, _ in _COLUMNS[2:])
    for profile in sorted(profiles):
        async for row in stream_rows(connection, schema, table=table_of(profile), key=key, columns=columns):
            *others, vector = row.values
            yield Row(row.table, row.key, (*others, vector.to_numpy()))


def passages(chunks_of: ChunksOf) -> ViewTables:
    """The view's shape; `chunks_of` fetches a version's chunks and vectors."""
    return ViewTables(NAME, 1, TYPES, CREATE, loader(chunks_of), write, rows, finish)


class PassagesReader:
    """Reads of the passages view.

    corpus_root: the corpus folder, for the `source` of what is returned.
    """

    def __init__(self, database: ViewDatabase, *, corpus_root: Path) -> None:
        self._database = database
        self._root = corpus_root
        self._seq = 0
        self._counted: dict[str, tuple[int, int]] = {}

    async def nearest(
        self, profile: str, vector: Vectors, *, top_k: int, as_of_seq: int | None = None
    ) -> tuple[list[Hit], int]:
        """(The `top_k` chunks closest by cosine, best first, scores 1 - distance; the view's sequence).

        All rows are compared as of a sequence, in a corpus of up to EXACT_CHUNKS, and where the HNSW
        index found too few: hundreds of nearly equal chunks can cut its graph in pieces.
        Raises NotReady if the view has not reached that sequence or does not know the profile yet.
        """
        exact = as_of_seq is not None or await self._is_small(profile)
        hits, self._seq = await self._nearest(profile, vector, top_k, as_of_seq, exact=exact)
        if not exact and len(hits) < top_k:
            hits, self._seq = await self._nearest(profile, vector, top_k, as_of_seq, exact=True)
        return hits, self._seq

    async def _nearest(
        self, profile: str, vector: Vectors, top_k: int, as_of_seq: int | None, *, exact: bool
    ) -> tuple[list[Hit], int]:
        away = distance(len(vector), exact=exact)

        def statement(schema: str) -> sql.Composed:
            return sql.SQL(
                "SELECT chunk_id, original_index, 1 - ({distance}) AS score FROM {table} WHERE {visible}"
                " ORDER BY {distance} LIMIT {limit}"
            ).format(
                distance=away,
                table=sql.Identifier(schema, table_of(profile)),
                visible=_visible(as_of_seq),
                limit=sql.Literal(top_k),
            )

        parameters = {"vector": np.asarray(vector, np.float32)}
        found, seq = await self._database.read_live(NAME, statement, parameters)
        _check_reached(as_of_seq, seq)
        hits = (
            Hit(chunk_id=r["chunk_id"], original_index=r["original_index"], score=r["score"]) for r in found
        )
        return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id)), seq

    async def _is_small(self, profile: str) -> bool:
        """Whether comparing every live chunk is quick; counted anew after some events."""
        counted_at, count = self._counted.get(profile, (-RECOUNT_EVENTS, 0))
        if self._seq - counted_at >= RECOUNT_EVENTS:
            count = await self._count(profile, limit=EXACT_CHUNKS + 1)
            self._counted[profile] = (self._seq, count)
        return count <= EXACT_CHUNKS

    async def records(
        self, profile: str, original_indexes: Sequence[int], *, as_of_seq: int | None = None
    ) -> dict[int, ChunkRecord]:
        """The chunks with these numbers that are visible, by number. Raises as `nearest`."""
        if not original_indexes:
            return {}

        def statement(schema: str) -> sql.Composed:
            return sql.SQL(
                "SELECT original_index, content, context, metadata, p.settings"
                " FROM {table} JOIN {profiles} p ON p.profile = %(profile)s"
                " WHERE original_index = ANY(%(numbers)s) AND {visible}"
            ).format(
                table=sql.Identifier(schema, table_of(profile)),
                profiles=sql.Identifier(schema, "profiles"),
                visible=_visible(as_of_seq),
            )

        parameters = {"profile": profile, "numbers": list(original_indexes)}
        found, seq = await self._database.read_live(NAME, statement, parameters)
        _check_reached(as_of_seq, seq)
        return {row["original_index"]: self._record(row, row["settings"]) for row in found}

    async def count(self, profile: str) -> int:
        """Live chunks under a profile."""
        return await self._count(profile)

    async def _count(self, profile: str, *, limit: int | None = None) -> int:
        """Live chunks under a profile, `limit` at most."""

        def statement(schema: str) -> sql.Composed:
            return sql.SQL(
                "SELECT count(*) AS n FROM (SELECT 1 FROM {} WHERE to_seq IS NULL LIMIT {}) t"
            ).format(sql.Identifier(schema, table_of(profile)), sql.Literal(limit))

        found, _ = await self._database.read_live(NAME, statement, {})
        return int(found[0]["n"]) if found else 0

    def _record(self, row: DictRow, settings: Mapping[str, str]) -> ChunkRecord:
        metadata = row["metadata"]
        return ChunkRecord(
            **metadata,
            chunk_id=f"{metadata['doc_id']}::{metadata['chunk_index']}",
            original_index=row["original_index"],
            source=str(self._root / metadata["relative_path"]),
            content=row["content"],
            context=row["context"],
            contextualized_content=contextualize(row["content"], row["context"]),
            chunk_size=int(settings.get("CHUNK_SIZE", 0)),
            chunk_overlap=int(settings.get("CHUNK_OVERLAP", 0)),
            chunking_strategy=settings.get("CHUNKING_STRATEGY", ""),
            embedding_model=settings.get("EMBEDDER_NAME", ""),
        )


def _check_reached(as_of_seq: int | None, seq: int) -> None:
    if as_of_seq is not None and as_of_seq > seq:
        raise NotReady(
            f"the passages view contains sequence {seq} of the log, not yet {as_of_seq}; retry shortly"
        )


def _visible(as_of_seq: int | None) -> sql.Composable:
    if as_of_seq is None:
        return sql.SQL("to_seq IS NULL")
    seq = sql.Literal(as_of_seq)
    return sql.SQL("from_seq <= {seq} AND (to_seq IS NULL OR to_seq > {seq})").format(seq=seq)
