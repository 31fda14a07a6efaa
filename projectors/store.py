"""Versions of a view in its store: made beside each other, one of them answering."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from loreline.projectors.database import ViewDatabase
from loreline.projectors.postgres import PostgresView, ViewTables
from loreline.projectors.view import View

Inside = Callable[[], Awaitable[None]]
"""Called inside a view's transaction; a test stops the process there."""


class ViewStore(Protocol):
    """Where the versions of one view live."""

    @property
    def name(self) -> str:
        """The view's name."""
        ...

    def view(self, version: int, *, bulk: bool = False) -> View:
        """One version; `bulk` while it is loaded from the beginning."""
        ...

    async def versions(self) -> list[int]:
        """The versions there are, in order."""
        ...

    async def live(self) -> int | None:
        """The version that answers."""
        ...

    async def is_current(self, version: int) -> bool:
        """Whether a version has the shape this program writes."""
        ...

    async def switch(self, version: int) -> None:
        """Let a version answer, at once for every reader."""
        ...

    async def drop(self, version: int) -> None:
        """Forget a version that does not answer."""
        ...


class PostgresStore:
    """A view's versions in PostgreSQL."""

    def __init__(self, database: ViewDatabase, tables: ViewTables, *, inside: Inside | None = None) -> None:
        self._database = database
        self._tables = tables
        self._inside = inside

    @property
    def name(self) -> str:
        """The view's name."""
        return self._tables.name

    def view(self, version: int, *, bulk: bool = False) -> View:
        """One version of the view."""
        return PostgresView(self._database, self._tables, version=version, bulk=bulk, inside=self._inside)

    async def versions(self) -> list[int]:
        """The versions there are, in order."""
        return sorted(await self._database.versions(self.name))

    async def live(self) -> int | None:
        """The version that answers."""
        found = await self._database.versions(self.name)
        return next((number for number, row in found.items() if row["state"] == "live"), None)

    async def is_current(self, version: int) -> bool:
        """Whether a version has the shape this program writes."""
        found = await self._database.versions(self.name)
        return version in found and found[version]["ddl"] == self._tables.ddl

    async def switch(self, version: int) -> None:
        """Let a version answer."""
        await self._database.switch(self.name, version)

    async def drop(self, version: int) -> None:
        """Forget a version that does not answer."""
        await self._database.drop(self.name, version)
