"""The operations view: every run on a corpus, with its counts and how it ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from loreline.events.envelope import Stored
from loreline.projectors.database import Connection, ViewDatabase, query
from loreline.projectors.postgres import ViewTables, stream_rows
from loreline.projectors.reads import OPERATIONS as NAME
from loreline.projectors.view import Row
from loreline.schemas.events import corpus
from loreline.schemas.events.payload import Payload

TYPES = frozenset(
    {
        "corpus.operation_requested",
        "corpus.started",
        "corpus.planned",
        "corpus.completed",
        "corpus.failed",
        "corpus.cancelled",
    }
)

CREATE = """
CREATE TABLE IF NOT EXISTS {schema}.operations (
    run           uuid PRIMARY KEY,
    space         text NOT NULL,
    kind          text NOT NULL,
    requested_seq bigint NOT NULL,
    ended_seq     bigint,
    reingest      boolean NOT NULL,
    profile       text,
    state         text NOT NULL,
    planned       jsonb,
    outcome       jsonb,
    code          text,
    reason        text,
    requested_at  timestamptz NOT NULL,
    ended_at      timestamptz
);
CREATE INDEX IF NOT EXISTS operations_by_seq ON {schema}.operations (space, requested_seq DESC);
"""
_COLUMNS = (
    *("space", "kind", "requested_seq", "ended_seq", "reingest", "profile"),
    *("state", "planned", "outcome", "code", "reason"),
)


async def load(events: Sequence[Stored[Payload]]) -> list[Stored[Payload]]:
    """The corpus events among the events."""
    return [stored for stored in events if stored.event.aggregate.kind == "corpus"]


async def write(connection: Connection, schema: str, events: Sequence[Stored[Payload]], bulk: bool) -> None:
    """Begin, plan and end runs."""
    for stored in events:
        payload = stored.event.payload
        match payload:
            case corpus.OperationRequested():
                await connection.execute(
                    query(
                        "INSERT INTO {schema}.operations (run, space, kind, requested_seq, reingest, state,"
                        " requested_at) VALUES (%s, %s, %s, %s, %s, 'requested', %s) ON CONFLICT DO NOTHING",
                        schema,
                    ),
                    (
                        payload.run,
                        stored.event.aggregate.space,
                        payload.kind,
                        stored.seq,
                        payload.reingest,
                        stored.event.time,
                    ),
                )
            case corpus.OperationStarted():
                await _set(connection, schema, payload.run, state="running", profile=payload.profile)
            case corpus.OperationPlanned():
                planned = payload.model_dump(mode="json", exclude={"run", "profile", "plan"})
                await _set(connection, schema, payload.run, planned=Jsonb(planned))
            case corpus.OperationCompleted():
                outcome = Jsonb(payload.model_dump(mode="json", exclude={"run"}))
                await _end(connection, schema, stored, payload.run, state="completed", outcome=outcome)
            case corpus.OperationFailed():
                reason = payload.private.reason
                await _end(
                    connection, schema, stored, payload.run, state="failed", code=payload.code, reason=reason
                )
            case corpus.OperationCancelled():
                await _end(connection, schema, stored, payload.run, state="cancelled")


async def _end(
    connection: Connection, schema: str, stored: Stored[Payload], run: UUID, **columns: Any
) -> None:
    await _set(connection, schema, run, ended_seq=stored.seq, ended_at=stored.event.time, **columns)


async def _set(connection: Connection, schema: str, run: UUID, **columns: Any) -> None:
    assignments = ", ".join(f"{name}=%s" for name in columns)
    await connection.execute(
        query(f"UPDATE {{schema}}.operations SET {assignments} WHERE run=%s", schema),  # noqa: S608
        [*columns.values(), run],
    )


async def rows(connection: Connection, schema: str) -> AsyncIterator[Row]:
    """Every row, in key order, without the times."""
    async for row in stream_rows(connection, schema, table="operations", key=("run",), columns=_COLUMNS):
        yield row


OPERATIONS_VIEW = ViewTables(NAME, 1, TYPES, CREATE, load, write, rows)


class OperationsReader:
    """Reads of the operations view."""

    def __init__(self, database: ViewDatabase) -> None:
        self._database = database

    async def latest(self, space: str = "rag") -> DictRow | None:
        """The newest run on a corpus."""
        schema = await self._database.live_schema(NAME)
        if schema is None:
            return None
        found = await self._database.fetch(
            "SELECT * FROM {schema}.operations WHERE space=%s ORDER BY requested_seq DESC LIMIT 1",
            (space,),
            schema=schema,
        )
        return found[0] if found else None
