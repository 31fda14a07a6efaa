"""The conversations view: answered turns, as lists and transcripts show them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from loreline.events.envelope import Stored
from loreline.projectors.database import Connection, ViewDatabase, query
from loreline.projectors.postgres import ViewTables, stream_rows
from loreline.projectors.reads import CONVERSATIONS as NAME
from loreline.projectors.reads import ConversationSummary, Message
from loreline.projectors.view import Row
from loreline.schemas.events import conversation as events_of
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import owner_of

TYPES = frozenset(
    {
        "conversation.created",
        "conversation.titled",
        "conversation.turn_asked",
        "conversation.turn_answered",
        "conversation.deleted",
    }
)

CREATE = """
-- A conversation is listed once it has a turn or was made on purpose (`is_listed`).
CREATE TABLE IF NOT EXISTS {schema}.conversations (
    conversation_id text PRIMARY KEY,
    title           text,
    is_listed       boolean NOT NULL,
    created_seq     bigint NOT NULL,
    updated_seq     bigint NOT NULL,
    deleted_seq     bigint,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.questions (
    turn            uuid PRIMARY KEY,
    conversation_id text NOT NULL,
    question        text NOT NULL,
    asked_seq       bigint NOT NULL,
    asked_at        timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.messages (
    message_id      text PRIMARY KEY,
    conversation_id text NOT NULL,
    seq             bigint NOT NULL,
    role            text NOT NULL CHECK (role IN ('user', 'assistant')),
    content         text NOT NULL,
    provenance      jsonb,
    sources         jsonb,
    created_at      timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_in_order ON {schema}.messages (conversation_id, seq, role DESC);
"""

Loaded = list[tuple[Stored[Payload], list[dict[str, Any]]]]


def loader(evidence_of: Callable[[str, str], Awaitable[bytes]]) -> Callable[..., Awaitable[Loaded]]:
    """How the view fetches an answer's evidence: `evidence_of(owner, address)`."""

    async def load(events: Sequence[Stored[Payload]]) -> Loaded:
        loaded: Loaded = []
        for stored in events:
            payload = stored.event.payload
            if stored.event.aggregate.kind != "conversation":
                continue
            sources: list[dict[str, Any]] = []
            if isinstance(payload, events_of.TurnAnswered):
                evidence = await evidence_of(owner_of(stored.event.aggregate), payload.evidence)
                sources = [_snapshot(passage) for passage in json.loads(evidence)["passages"]]
            loaded.append((stored, sources))
        return loaded

    return load


def _snapshot(passage: dict[str, Any]) -> dict[str, Any]:
    """What a transcript keeps of a passage: enough to explain the answer after the chunk is gone."""
    metadata = passage["metadata"]
    kept = ("source", "relative_path", "file_name", "file_type", "page", "pages", "heading_path")
    also = ("extraction", "file_created_at", "file_modified_at")
    trace = {name: metadata.get(name) for name in (*kept, *also)}
    trace |= {name: passage[name] for name in ("score", "content", "context", "trace", "doc_id")}
    return {"rank": passage["trace"]["final_rank"], "chunk_id": passage["chunk_id"], "trace": trace}


async def write(connection: Connection, schema: str, loaded: Loaded, bulk: bool) -> None:
    """Take conversation events in, in order."""
    for stored, sources in loaded:
        conversation, payload = stored.event.aggregate.id, stored.event.payload
        match payload:
            case events_of.ConversationCreated():
                await _create(connection, schema, stored, payload)
            case events_of.ConversationTitled():
                text = "UPDATE {schema}.conversations SET title=%s WHERE conversation_id=%s"
                await connection.execute(query(text, schema), (payload.private.title, conversation))
            case events_of.TurnAsked():
                values = (payload.turn, conversation, payload.private.question, stored.seq, stored.event.time)
                text = "INSERT INTO {schema}.questions VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
                await connection.execute(query(text, schema), values)
            case events_of.TurnAnswered():
                await _answer(connection, schema, stored, payload, sources)
            case events_of.ConversationDeleted():
                await _delete(connection, schema, conversation, stored.seq)


async def _create(
    connection: Connection, schema: str, stored: Stored[Payload], payload: events_of.ConversationCreated
) -> None:
    text = (
        "INSERT INTO {schema}.conversations VALUES (%s, %s, %s, %s, %s, NULL, %s, %s) ON CONFLICT DO NOTHING"
    )
    seq, moment = stored.seq, stored.event.time
    values = (stored.event.aggregate.id, payload.private.title, payload.explicit, seq, seq, moment, moment)
    await connection.execute(query(text, schema), values)


async def _answer(
    connection: Connection,
    schema: str,
    stored: Stored[Payload],
    payload: events_of.TurnAnswered,
    sources: list[dict[str, Any]],
) -> None:
    conversation, seq, moment = stored.event.aggregate.id, stored.seq, stored.event.time
    await connection.execute(
        query(
            "INSERT INTO {schema}.messages SELECT %s, %s, %s, 'user', question, NULL, NULL, asked_at"
            " FROM {schema}.questions WHERE turn=%s ON CONFLICT DO NOTHING",
            schema,
        ),
        (str(payload.user_message), conversation, seq, payload.turn),
    )
    await connection.execute(
        query(
            "INSERT INTO {schema}.messages VALUES (%s, %s, %s, 'assistant', %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            schema,
        ),
        (
            str(payload.assistant_message),
            conversation,
            seq,
            payload.private.answer,
            Jsonb(_provenance(payload)),
            Jsonb(sources),
            moment,
        ),
    )
    await connection.execute(
        query(
            "UPDATE {schema}.conversations SET is_listed=true, updated_seq=%s, updated_at=%s"
            " WHERE conversation_id=%s",
            schema,
        ),
        (seq, moment, conversation),
    )


def _provenance(payload: events_of.TurnAnswered) -> dict[str, Any]:
    return {
        "turn": str(payload.turn),
        "retrieval_method": payload.retrieval_method,
        "chat_engine": payload.chat_engine,
        "answered_by": payload.answered_by,
        "found": payload.found,
        "latency_ms": payload.latency_ms.model_dump(mode="json"),
        "reasoning": payload.private.reasoning,
        "condensed_query": payload.private.condensed_query,
        "target_corpus": payload.corpus,
        "citations": [citation.model_dump(mode="json") for citation in payload.private.citations],
        "dropped_marks": list(payload.private.dropped_marks),
    }


async def _delete(connection: Connection, schema: str, conversation: str, seq: int) -> None:
    for table in ("messages", "questions"):
        text = f"DELETE FROM {{schema}}.{table} WHERE conversation_id=%s"  # noqa: S608 - constants above
        await connection.execute(query(text, schema), (conversation,))
    text = "UPDATE {schema}.conversations SET deleted_seq=%s, title=NULL WHERE conversation_id=%s"
    await connection.execute(query(text, schema), (seq, conversation))


async def rows(connection: Connection, schema: str) -> AsyncIterator[Row]:
    """Every row, in key order, without the times."""
    tables = (
        (
            "conversations",
            ("conversation_id",),
            ("title", "is_listed", "created_seq", "updated_seq", "deleted_seq"),
        ),
        ("questions", ("turn",), ("conversation_id", "question", "asked_seq")),
        (
            "messages",
            ("message_id",),
            ("conversation_id", "seq", "role", "content", "provenance", "sources"),
        ),
    )
    for table, key, columns in tables:
        async for row in stream_rows(connection, schema, table=table, key=key, columns=columns):
            yield row


def conversations(evidence_of: Callable[[str, str], Awaitable[bytes]]) -> ViewTables:
    """The view's shape; `evidence_of(owner, address)` fetches the evidence of an answer."""
    return ViewTables(NAME, 1, TYPES, CREATE, loader(evidence_of), write, rows)


class ConversationsReader:
    """Reads of the conversations view."""

    def __init__(self, database: ViewDatabase) -> None:
        self._database = database

    async def list_recent(self) -> list[ConversationSummary]:
        """Every listed conversation, most recently answered first."""
        return await self._summaries("c.is_listed AND c.deleted_seq IS NULL", ())

    async def get(self, conversation_id: str) -> ConversationSummary | None:
        """One conversation that is not deleted, listed or not."""
        found = await self._summaries("c.conversation_id=%s AND c.deleted_seq IS NULL", (conversation_id,))
        return found[0] if found else None

    async def messages(self, conversation_id: str) -> list[Message]:
        """The transcript, oldest first."""
        schema = await self._database.live_schema(NAME)
        if schema is None:
            return []
        found = await self._database.fetch(
            "SELECT message_id, role, content, created_at, coalesce(provenance, '{{}}') AS provenance,"
            " coalesce(sources, '[]') AS sources FROM {schema}.messages WHERE conversation_id=%s"
            " ORDER BY seq, role DESC",
            (conversation_id,),
            schema=schema,
        )
        return [Message(**row) for row in found]

    async def conversation_of(self, turn: UUID) -> str | None:
        """The conversation a turn was asked in; None while this view does not know the turn."""
        schema = await self._database.live_schema(NAME)
        if schema is None:
            return None
        found = await self._database.fetch(
            "SELECT conversation_id FROM {schema}.questions WHERE turn=%s", (turn,), schema=schema
        )
        return str(found[0]["conversation_id"]) if found else None

    async def _summaries(self, where: str, parameters: Sequence[Any]) -> list[ConversationSummary]:
        schema = await self._database.live_schema(NAME)
        if schema is None:
            return []
        text = (
            "SELECT c.conversation_id, c.title, c.created_at, c.updated_at,"  # noqa: S608 - constants
            " count(m.message_id) AS message_count"
            " FROM {schema}.conversations c LEFT JOIN {schema}.messages m USING (conversation_id) WHERE "
            + where
            + " GROUP BY c.conversation_id ORDER BY c.updated_seq DESC"
        )
        return [
            ConversationSummary(**row) for row in await self._database.fetch(text, parameters, schema=schema)
        ]
