"""Versions of a view in its store: made beside each other, one of them answering."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from loreline.projectors.materialize import ChunksOf
from loreline.projectors.postgres import PostgresView, ViewDatabase, ViewTables
from loreline.projectors.view import View
from loreline.projectors.views import lexical_sqlite

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


class LexicalFiles:
    """The lexical view's versions, a directory each."""

    def __init__(self, root: Path, chunks_of: ChunksOf, *, inside: Inside | None = None) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root
        self._chunks_of = chunks_of
        self._inside = inside

    @property
    def name(self) -> str:
        """The view's name."""
        return lexical_sqlite.NAME

    def view(self, version: int, *, bulk: bool = False) -> View:
        """One version of the view."""
        return lexical_sqlite.LexicalView(self._root, self._chunks_of, version=version, inside=self._inside)

    async def versions(self) -> list[int]:
        """The versions there are, in order."""
        return sorted(int(path.name[1:]) for path in self._root.glob("v[0-9]*") if path.is_dir())

    async def live(self) -> int | None:
        """The version that answers."""
        return await asyncio.to_thread(lexical_sqlite.pointed, self._root)

    async def is_current(self, version: int) -> bool:
        """A file says itself whether it can be used, when it is opened."""
        return lexical_sqlite.directory_of(self._root, version).is_dir()

    async def switch(self, version: int) -> None:
        """Let a version answer."""
        await asyncio.to_thread(lexical_sqlite.point, self._root, version)

    async def drop(self, version: int) -> None:
        """Forget a version that does not answer."""
        if version != await self.live():
            await asyncio.to_thread(shutil.rmtree, lexical_sqlite.directory_of(self._root, version), True)
