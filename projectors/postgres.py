"""A view in PostgreSQL: its shape, and the transaction that moves it with its checkpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from loreline.events.envelope import Stored
from loreline.projectors.database import Connection, ViewDatabase, query, schema_of
from loreline.projectors.view import Checkpoint, Row, ViewSetBack, ViewTaken
from loreline.schemas.events.payload import Payload

_FAR_AHEAD = 1000
"""Events a checkpoint may run ahead of the stored one before it is stored anyway."""


@dataclass(frozen=True)
class ViewTables:
    """A view's shape in PostgreSQL.

    Attributes:
        name: the view's name.
        ddl: raised whenever the tables or what is written to them change.
        types: the types of event it takes; any other only moves its checkpoint.
        create: statements that make the tables; `{schema}` stands for the version's schema.
        load: fetches what events point to, outside the transaction.
        write: writes what `load` returned, inside it.
        rows: every row in key order.
        finish: statements to run once after a bulk load, if any.
    """

    name: str
    ddl: int
    types: frozenset[str]
    create: str
    load: Callable[[Sequence[Stored[Payload]]], Awaitable[Any]]
    write: Callable[[Connection, str, Any, bool], Awaitable[None]]
    rows: Callable[[Connection, str], AsyncIterator[Row]]
    finish: Callable[[Connection, str], Awaitable[None]] | None = None


class PostgresView:
    """One version of a view; see View.

    bulk: it is being loaded from the beginning, so indexes that are dear to maintain come last.
    """

    def __init__(
        self,
        database: ViewDatabase,
        tables: ViewTables,
        *,
        version: int,
        bulk: bool = False,
        inside: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._database = database
        self._tables = tables
        self._version = version
        self._bulk = bulk
        self._inside = inside
        self._stored = Checkpoint()
        self._ahead: Checkpoint | None = None

    @property
    def name(self) -> str:
        """The view's name."""
        return self._tables.name

    @property
    def version(self) -> int:
        """Which building of it this is."""
        return self._version

    @property
    def schema(self) -> str:
        """Where its tables are."""
        return schema_of(self.name, self._version)

    async def open(self) -> None:
        """Make its tables if they are not there; it is born `building` if another version answers."""
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(7302, hashtext(%s))", (self.name,))
            await connection.execute(
                "INSERT INTO loreline.views (view, version, ddl, state) SELECT %s, %s, %s, CASE WHEN EXISTS"
                " (SELECT 1 FROM loreline.views WHERE view=%s AND state='live') THEN 'building'"
                " ELSE 'live' END ON CONFLICT DO NOTHING",
                (self.name, self._version, self._tables.ddl, self.name),
            )
            schema = sql.Identifier(self.schema)
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
            await connection.execute(query(self._tables.create, self.schema))

    async def checkpoint(self) -> Checkpoint:
        """Where it stands."""
        rows = await self._database.fetch(
            "SELECT seq, event_id FROM {schema}.views WHERE view=%s AND version=%s",
            (self.name, self._version),
        )
        if not rows:
            raise ViewTaken(f"version {self._version} of the view {self.name} was dropped")
        self._stored, self._ahead = Checkpoint(rows[0]["seq"], rows[0]["event_id"]), None
        return self._stored

    async def apply(self, events: Sequence[Stored[Payload]], *, after: Checkpoint) -> Checkpoint:
        """Take the next events in; rows and checkpoint in one transaction.

        Events that are none of the view's business move the checkpoint in memory; it is stored with the
        next that is, by `flush`, or when it has run far ahead. To read them again costs nothing.
        """
        reached = Checkpoint(events[-1].seq, str(events[-1].event.id))
        if after != self._ahead:
            self._stored, self._ahead = after, None
        relevant = [each for each in events if each.event.type in self._tables.types]
        if not relevant and reached.seq - self._stored.seq < _FAR_AHEAD:
            self._ahead = reached
            return reached
        loaded = await self._tables.load(relevant)
        async with self._database.connection() as connection, connection.transaction():
            # First, because it locks: two who feed one view must not write each other's rows.
            await self._move(connection, reached)
            await self._tables.write(connection, self.schema, loaded, self._bulk)
            if self._inside is not None:
                await self._inside()
        self._stored, self._ahead = reached, None
        return reached

    async def flush(self) -> None:
        """Store the checkpoint, if it ran ahead."""
        if self._ahead is not None:
            async with self._database.connection() as connection:
                await self._move(connection, self._ahead)
            self._stored, self._ahead = self._ahead, None

    async def _move(self, connection: Connection, reached: Checkpoint) -> None:
        moved = await connection.execute(
            "UPDATE loreline.views SET seq=%s, event_id=%s WHERE view=%s AND version=%s AND seq=%s",
            (reached.seq, reached.event_id, self.name, self._version, self._stored.seq),
        )
        if moved.rowcount == 0:
            raise await self._unmoved(self._stored)

    async def _unmoved(self, after: Checkpoint) -> ViewTaken | ViewSetBack:
        """Why the checkpoint is not where it was left: a crash may undo commits that the disk has not."""
        held = await self.checkpoint()
        if held.seq < after.seq:
            return ViewSetBack(f"the view {self.name} lost what came after {held.seq}; it goes on from there")
        return ViewTaken(f"another process feeds the view {self.name}; only one may")

    async def close(self) -> None:
        """Nothing is held open: connections are the database's."""

    async def finish_load(self) -> None:
        """Build what is cheaper to build once all rows are in."""
        if self._tables.finish is not None:
            async with self._database.connection() as connection:
                await self._tables.finish(connection, self.schema)
        self._bulk = False

    async def rows(self) -> AsyncIterator[Row]:
        """Every row in key order, from one snapshot."""
        async with self._database.connection() as connection, connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            async for row in self._tables.rows(connection, self.schema):
                yield row


async def stream_rows(
    connection: Connection, schema: str, *, table: str, key: Sequence[str], columns: Sequence[str]
) -> AsyncIterator[Row]:
    """A table's rows in key order through a server-side cursor."""
    statement = sql.SQL("SELECT {columns} FROM {schema}.{table} ORDER BY {key}").format(
        columns=sql.SQL(", ").join(map(sql.Identifier, [*key, *columns])),
        schema=sql.Identifier(schema),
        table=sql.Identifier(table),
        key=sql.SQL(", ").join(
            sql.SQL('{} COLLATE "C"').format(sql.Identifier(name))
            if name in _TEXT_KEYS
            else sql.Identifier(name)
            for name in key
        ),
    )
    async with connection.cursor(name=f"rows_{table}") as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        await cursor.execute(statement, binary=True)
        async for row in cursor:
            yield Row(table, tuple(row[name] for name in key), tuple(row[name] for name in columns))


_ROWS_AT_ONCE = 1000

_TEXT_KEYS = frozenset({"chunk_id", "file_id", "profile", "name", "conversation_id", "message_id"})
"""Key columns of text, sorted by byte so that no locale has a say."""
