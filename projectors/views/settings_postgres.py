"""The settings view: every override there ever was, from one change to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from loreline.events.envelope import Stored
from loreline.projectors.database import Connection, ViewDatabase, query
from loreline.projectors.postgres import ViewTables, stream_rows
from loreline.projectors.reads import SETTINGS as NAME
from loreline.projectors.view import Row
from loreline.schemas.events.app import SettingsChanged
from loreline.schemas.events.payload import Payload

TYPES = frozenset(
    {
        "settings.changed",
    }
)

CREATE = """
CREATE TABLE IF NOT EXISTS {schema}.settings (
    name     text NOT NULL,
    from_seq bigint NOT NULL,
    to_seq   bigint,
    value    text NOT NULL,
    PRIMARY KEY (name, from_seq)
);
"""


async def load(events: Sequence[Stored[Payload]]) -> list[tuple[int, SettingsChanged]]:
    """The changes among the events."""
    return [
        (stored.seq, stored.event.payload)
        for stored in events
        if isinstance(stored.event.payload, SettingsChanged)
    ]


async def write(
    connection: Connection, schema: str, changes: Sequence[tuple[int, SettingsChanged]], bulk: bool
) -> None:
    """End what a change replaces or clears, and begin what it sets."""
    for seq, change in changes:
        touched = [*change.names, *change.cleared]
        await connection.execute(
            query("UPDATE {schema}.settings SET to_seq=%s WHERE name = ANY(%s) AND to_seq IS NULL", schema),
            (seq, touched),
        )
        for name, value in change.private.set.items():
            await connection.execute(
                query("INSERT INTO {schema}.settings VALUES (%s, %s, NULL, %s)", schema), (name, seq, value)
            )


async def rows(connection: Connection, schema: str) -> AsyncIterator[Row]:
    """Every row, in key order."""
    key = ("name", "from_seq")
    async for row in stream_rows(connection, schema, table="settings", key=key, columns=("to_seq", "value")):
        yield row


SETTINGS_VIEW = ViewTables(NAME, 1, TYPES, CREATE, load, write, rows)


class SettingsReader:
    """Reads of the settings view."""

    def __init__(self, database: ViewDatabase) -> None:
        self._database = database

    async def overrides(self, *, as_of_seq: int | None = None) -> Mapping[str, str]:
        """Overrides by name, now or as of a sequence."""
        schema = await self._database.live_schema(NAME)
        if schema is None:
            return {}
        seq = 2**62 if as_of_seq is None else as_of_seq
        found = await self._database.fetch(
            "SELECT name, value FROM {schema}.settings"
            " WHERE from_seq <= %s AND (to_seq IS NULL OR to_seq > %s)",
            (seq, seq),
            schema=schema,
        )
        return {row["name"]: row["value"] for row in found}
