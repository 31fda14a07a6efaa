"""The documents view: every file of the corpus, and every outcome its versions had under a profile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from loreline.events.envelope import Stored
from loreline.projectors.database import Connection, ViewDatabase, query
from loreline.projectors.postgres import ViewTables, stream_rows
from loreline.projectors.reads import DOCUMENTS as NAME
from loreline.projectors.reads import Document, KnownFile
from loreline.projectors.view import Row
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload

TYPES = frozenset(
    {
        "file.uploaded",
        "file.discovered",
        "file.missing",
        "file.found",
        "file.embedded",
        "file.no_text",
        "file.failed",
        "file.superseded",
        "file.deleted",
    }
)

CREATE = """
-- One row a file: what it is now.
CREATE TABLE IF NOT EXISTS {schema}.files (
    file_id       text PRIMARY KEY,
    version       text NOT NULL,
    relative_path text NOT NULL,
    source        text NOT NULL,
    is_deleted    boolean NOT NULL,
    is_unwanted   boolean NOT NULL,  -- deleted together with what lies in the corpus folder
    is_missing    boolean NOT NULL,
    is_awaited    boolean NOT NULL,  -- uploaded, and not seen in the corpus folder yet
    modified_at   timestamptz,
    seq           bigint NOT NULL
);
-- One row an outcome: what came of a version under a profile, from one event until another replaced it.
CREATE TABLE IF NOT EXISTS {schema}.outcomes (
    file_id       text NOT NULL,
    profile       text NOT NULL,
    from_seq      bigint NOT NULL,
    to_seq        bigint,
    version       text NOT NULL,
    state         text NOT NULL CHECK (state IN ('embedded', 'no_text', 'failed')),
    doc_id        text NOT NULL,
    relative_path text NOT NULL,
    content_hash  text NOT NULL,
    n_chunks      int NOT NULL,
    extractions   jsonb,
    stage         text,
    code          text,
    reason        text,
    ended_at      timestamptz NOT NULL,
    PRIMARY KEY (file_id, profile, from_seq)
);
CREATE INDEX IF NOT EXISTS outcomes_doc ON {schema}.outcomes (doc_id);
"""


async def load(events: Sequence[Stored[Payload]]) -> Sequence[Stored[Payload]]:
    """Nothing beyond the events themselves is needed."""
    return events


async def write(connection: Connection, schema: str, events: Sequence[Stored[Payload]], bulk: bool) -> None:
    """Take file events in, one by one: there are few statements a file."""
    for stored in events:
        payload, file_id = stored.event.payload, stored.event.aggregate.id
        match payload:
            case file.FileUploaded() | file.FileDiscovered():
                await _upsert_file(connection, schema, file_id, payload, stored.seq)
            case file.FileMissing():
                await connection.execute(
                    query(
                        "UPDATE {schema}.files SET is_missing=true, is_awaited=false, seq=%s"
                        " WHERE file_id=%s",
                        schema,
                    ),
                    (stored.seq, file_id),
                )
            case file.FileFound():
                await connection.execute(
                    query(
                        "UPDATE {schema}.files SET is_missing=false, is_awaited=false, seq=%s"
                        " WHERE file_id=%s",
                        schema,
                    ),
                    (stored.seq, file_id),
                )
            case file.FileEmbedded() | file.FileNoText() | file.FileFailed():
                await _end(connection, schema, file_id, payload.profile, stored.seq)
                await _insert(connection, schema, stored, payload)
            case file.FileSuperseded():
                await _end(connection, schema, file_id, None, stored.seq, version=payload.version)
            case file.FileDeleted():
                await _end(connection, schema, file_id, None, stored.seq)
                await connection.execute(
                    query(
                        "UPDATE {schema}.files SET is_deleted=true, is_unwanted=%s, seq=%s WHERE file_id=%s",
                        schema,
                    ),
                    (payload.remove_file, stored.seq, file_id),
                )


async def _upsert_file(
    connection: Connection,
    schema: str,
    file_id: str,
    payload: file.FileUploaded | file.FileDiscovered,
    seq: int,
) -> None:
    await connection.execute(
        query(
            "INSERT INTO {schema}.files VALUES (%s, %s, %s, %s, false, false, false, %s, %s, %s)"
            " ON CONFLICT (file_id) DO UPDATE SET version=excluded.version,"
            " relative_path=excluded.relative_path,"
            " source=excluded.source, is_deleted=false, is_unwanted=false, is_missing=false,"
            " is_awaited=excluded.is_awaited, modified_at=excluded.modified_at, seq=excluded.seq",
            schema,
        ),
        (
            file_id,
            payload.version,
            payload.private.relative_path,
            payload.source,
            isinstance(payload, file.FileUploaded),
            payload.private.file_modified_at,
            seq,
        ),
    )


async def _end(
    connection: Connection,
    schema: str,
    file_id: str,
    profile: str | None,
    seq: int,
    *,
    version: str | None = None,
) -> None:
    await connection.execute(
        query(
            "UPDATE {schema}.outcomes SET to_seq=%s WHERE file_id=%s AND to_seq IS NULL AND from_seq < %s"
            " AND (%s::text IS NULL OR profile=%s) AND (%s::text IS NULL OR version=%s)",
            schema,
        ),
        (seq, file_id, seq, profile, profile, version, version),
    )


async def _insert(
    connection: Connection,
    schema: str,
    stored: Stored[Payload],
    payload: file.FileEmbedded | file.FileNoText | file.FileFailed,
) -> None:
    columns: dict[str, Any] = {
        "file_id": stored.event.aggregate.id,
        "profile": payload.profile,
        "from_seq": stored.seq,
        "version": payload.version,
        "doc_id": payload.private.doc_id,
        "relative_path": payload.private.relative_path,
        "content_hash": payload.private.content_hash,
        "ended_at": stored.event.time,
        "n_chunks": 0,
        "state": "no_text",
    }
    if isinstance(payload, file.FileFailed):
        columns |= {
            "state": "failed",
            "stage": payload.stage,
            "code": payload.code,
            "reason": payload.private.reason,
        }
    elif isinstance(payload, file.FileEmbedded):
        columns |= {
            "state": "embedded",
            "n_chunks": payload.n_chunks,
            "extractions": Jsonb(payload.extractions),
        }
    names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
    await connection.execute(
        query(f"INSERT INTO {{schema}}.outcomes ({names}) VALUES ({marks})", schema),  # noqa: S608
        list(columns.values()),
    )


async def rows(connection: Connection, schema: str) -> AsyncIterator[Row]:
    """Every row, in key order, without the times."""
    states = ("is_deleted", "is_unwanted", "is_missing", "is_awaited")
    files = ("version", "relative_path", "source", *states, "seq")
    async for row in stream_rows(connection, schema, table="files", key=("file_id",), columns=files):
        yield row
    key = ("file_id", "profile", "from_seq")
    columns = ("to_seq", "version", "state", "doc_id", "relative_path", "content_hash", "n_chunks")
    more = ("extractions", "stage", "code", "reason")
    async for row in stream_rows(connection, schema, table="outcomes", key=key, columns=(*columns, *more)):
        yield row


DOCUMENTS_VIEW = ViewTables(NAME, 2, TYPES, CREATE, load, write, rows)


class DocumentsReader:
    """Reads of the documents view."""

    def __init__(self, database: ViewDatabase) -> None:
        self._database = database

    async def live(self, profile: str) -> list[Document]:
        """Every live outcome under a profile, newest first."""
        return await self._documents("profile=%s AND to_seq IS NULL ORDER BY from_seq DESC", [profile])

    async def get(self, doc_id: str) -> Document | None:
        """The live document with this id, under whichever profile."""
        found = await self._documents("doc_id=%s AND to_seq IS NULL ORDER BY from_seq DESC LIMIT 1", [doc_id])
        return found[0] if found else None

    async def former(self, doc_id: str) -> Document | None:
        """The newest document that ever had this id, live or not."""
        found = await self._documents("doc_id=%s ORDER BY from_seq DESC LIMIT 1", [doc_id])
        return found[0] if found else None

    async def known_files(self) -> Sequence[KnownFile]:
        """Every file that is not deleted."""
        return await self._files("NOT is_deleted")

    async def unwanted_files(self) -> Sequence[KnownFile]:
        """Every file that was deleted together with what lies in the corpus folder."""
        return await self._files("is_unwanted")

    async def _files(self, where: str) -> Sequence[KnownFile]:
        schema = await self._database.live_schema(NAME)
        if schema is None:
            return []
        found = await self._database.fetch(
            "SELECT file_id, version, relative_path, source,"  # noqa: S608 - constants
            " is_missing, is_awaited, modified_at"
            " FROM {schema}.files WHERE " + where,
            schema=schema,
        )
        return [KnownFile(**row) for row in found]

    async def _documents(self, where: str, parameters: Sequence[Any]) -> list[Document]:
        schema = await self._database.live_schema(NAME)
        if schema is None:
            return []
        text = (
            "SELECT file_id, version, doc_id, relative_path, content_hash,"  # noqa: S608 - constants
            " state, n_chunks, extractions,"
            " code, reason, ended_at FROM {schema}.outcomes WHERE " + where
        )
        return [_document(row) for row in await self._database.fetch(text, parameters, schema=schema)]


def _document(row: DictRow) -> Document:
    return Document(**row)
