"""The database that holds views: its pools, which version of a view answers, and reads of that one.

Each version of a view has a schema of its own; `loreline.views` says which version answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from loreline.projectors.storable import store_any_text
from loreline.schemas.errors import DependencyDown, NotReady

Connection = psycopg.AsyncConnection[DictRow]

_CATALOGUE = """
CREATE SCHEMA IF NOT EXISTS loreline;
CREATE EXTENSION IF NOT EXISTS vector;
-- Versions of views. `ddl` is the code's shape of the tables: another number means rebuild.
CREATE TABLE IF NOT EXISTS loreline.views (
    view     text   NOT NULL,
    version  int    NOT NULL,
    ddl      int    NOT NULL,
    state    text   NOT NULL CHECK (state IN ('live', 'building', 'old')),
    seq      bigint NOT NULL DEFAULT 0,
    event_id text   NOT NULL DEFAULT '',
    PRIMARY KEY (view, version)
);
CREATE UNIQUE INDEX IF NOT EXISTS views_one_live ON loreline.views (view) WHERE state = 'live';
"""

_SWITCHES = 5
"""How often a view may be switched under one read before the read gives up."""

_WRITE_OPTIONS = "-c synchronous_commit=off"
"""The log is the truth: a view that a crash set back is fed again."""

_READ_OPTIONS = (
    "-c default_transaction_read_only=on"
    # Recall .999 at 100,000 chunks where the default of 40 gives .93; more are fetched as needed.
    " -c hnsw.ef_search=200 -c hnsw.iterative_scan=strict_order"
    # Without statistics the planner would rather sort every row than use the vector index.
    " -c enable_sort=off"
)

_LIVE = sql.SQL(
    "SELECT v.version AS live_version, v.seq AS live_seq, r.* FROM loreline.views v"
    " LEFT JOIN LATERAL (SELECT true AS is_row, q.* FROM ({statement}) q) r ON true"
    " WHERE v.view = %(view)s AND v.state = 'live'"
)


def schema_of(view: str, version: int) -> str:
    """The schema that holds a version of a view."""
    return f"{view}_v{version}"


def query(text: str, schema: str) -> sql.Composed:
    """SQL with `{schema}` replaced by the quoted schema name."""
    return sql.SQL(text).format(schema=sql.Identifier(schema))


class ViewDatabase:
    """A pool of connections to the database that holds the views."""

    def __init__(self, conninfo: str, *, max_connections: int = 16) -> None:
        self._conninfo = conninfo
        self._pool = _pool(conninfo, max_connections, options=_WRITE_OPTIONS)
        self._reads = _pool(conninfo, max_connections, options=_READ_OPTIONS)
        self._live: dict[str, int] = {}

    async def open(self) -> None:
        """Make the catalogue of views and open the pool. Raises DependencyDown."""
        try:
            opening = psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
            async with await opening as connection, connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(7301)")
                await connection.execute(_CATALOGUE)
        except psycopg.Error as error:
            raise _down(error) from error
        await self._pool.open()
        await self._reads.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._reads.close(timeout=2)
        await self._pool.close(timeout=2)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in autocommit mode. Raises DependencyDown when the server is out of reach."""
        try:
            async with self._pool.connection() as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
            raise _down(error) from error

    async def fetch(
        self, text: str, parameters: Sequence[Any] = (), *, schema: str = "loreline"
    ) -> list[DictRow]:
        """All rows of a query that only reads; `{schema}` in it is replaced."""
        return await self._read(self._pool, query(text, schema), parameters)

    async def read_live(
        self, view: str, statement: Callable[[str], sql.Composed], parameters: Mapping[str, Any]
    ) -> tuple[list[DictRow], int]:
        """(Rows of a statement over the version that answers, that version's checkpoint): one moment.

        statement: from a schema to a SELECT. It runs in one round trip: the version is remembered, and
        the answer says whether it still was the one. No version yet: no rows, and 0.
        Raises NotReady when the version lacks the table asked for, DependencyDown.
        """
        for _ in range(_SWITCHES):
            version = self._live.get(view) or await self._live_version(view)
            if version is None:
                return [], 0
            self._live[view] = version
            text = _LIVE.format(statement=statement(schema_of(view, version)))
            try:
                rows = await self._read(self._reads, text, {**parameters, "view": view})
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
                if await self._live_version(view) == version:
                    raise NotReady(f"the view {view} is behind the log; try again shortly") from error
                rows = []  # the version was dropped after another took its place
            if rows and rows[0]["live_version"] == version:
                return [row for row in rows if row["is_row"]], rows[0]["live_seq"]
            self._live.pop(view, None)
        raise DependencyDown("postgres", f"the view {view} is being switched; try again shortly")

    async def _live_version(self, view: str) -> int | None:
        rows = await self.fetch("SELECT version FROM {schema}.views WHERE view=%s AND state='live'", (view,))
        return int(rows[0]["version"]) if rows else None

    async def _read(
        self,
        pool: AsyncConnectionPool[Connection],
        text: sql.Composed,
        parameters: Sequence[Any] | Mapping[str, Any],
    ) -> list[DictRow]:
        """Rows of a statement that only reads; connections that a restart broke are replaced once."""
        try:
            return await _rows(pool, text, parameters)
        except DependencyDown:
            await pool.check()
            return await _rows(pool, text, parameters)

    async def versions(self, view: str) -> dict[int, Mapping[str, Any]]:
        """The versions of a view that exist, by number."""
        rows = await self.fetch("SELECT * FROM {schema}.views WHERE view=%s ORDER BY version", (view,))
        return {row["version"]: row for row in rows}

    async def live_schema(self, view: str) -> str | None:
        """The schema of the version that answers; None before the first."""
        version = await self._live_version(view)
        return None if version is None else schema_of(view, version)

    async def switch(self, view: str, version: int) -> None:
        """Let another version answer, at once for every reader; the former one is kept as `old`."""
        async with self.connection() as connection, connection.transaction():
            await connection.execute(
                "UPDATE loreline.views SET state='old' WHERE view=%s AND state='live'", (view,)
            )
            await connection.execute(
                "UPDATE loreline.views SET state='live' WHERE view=%s AND version=%s", (view, version)
            )

    async def drop(self, view: str, version: int) -> None:
        """Forget a version that does not answer."""
        async with self.connection() as connection, connection.transaction():
            done = await connection.execute(
                "DELETE FROM loreline.views WHERE view=%s AND version=%s AND state <> 'live'", (view, version)
            )
            if done.rowcount:
                schema = sql.Identifier(schema_of(view, version))
                await connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(schema))


async def _rows(
    pool: AsyncConnectionPool[Connection], text: sql.Composed, parameters: Sequence[Any] | Mapping[str, Any]
) -> list[DictRow]:
    try:
        async with pool.connection() as connection:
            return await (await connection.execute(text, parameters)).fetchall()
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
        raise _down(error) from error


def _pool(
    conninfo: str,
    max_size: int,
    *,
    options: str,
) -> AsyncConnectionPool[Connection]:
    return AsyncConnectionPool(
        conninfo,
        connection_class=psycopg.AsyncConnection[DictRow],
        kwargs={"row_factory": dict_row, "autocommit": True, "options": options},
        min_size=1,
        max_size=max_size,
        open=False,
        timeout=5,
        reconnect_timeout=1,
        configure=_configure,
    )


async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    await register_vector_async(connection)
    store_any_text(connection)


def _down(error: Exception) -> DependencyDown:
    return DependencyDown("postgres", f"PostgreSQL does not answer: {error}")
