"""The lexical view, embedded: one SQLite file a profile, fed from the same events as passages.

Each file keeps its own checkpoint; the view stands where the one furthest behind stands.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from loreline.events.envelope import Stored
from loreline.projectors.lexical import (
    AddDocument,
    CheckpointLost,
    LexicalChange,
    LexicalChunk,
    LexicalResult,
    LexicalSearcher,
    LexicalStore,
    RetireDocument,
)
from loreline.projectors.lexical.schema import is_readable
from loreline.projectors.materialize import ChunkSet, ChunksOf
from loreline.projectors.reads import LEXICAL as NAME
from loreline.projectors.versions import Added, Retired, VersionChange, version_changes
from loreline.projectors.view import Checkpoint, Row, ViewSetBack, ViewTaken
from loreline.schemas.errors import NotReady
from loreline.schemas.events.corpus import ProfileDefined
from loreline.schemas.events.payload import Payload

POINTER = "live.json"


def directory_of(root: Path, version: int) -> Path:
    """Where a version's files are."""
    return root / f"v{version}"


class LexicalView:
    """One version of the lexical view; see View."""

    def __init__(
        self,
        root: Path,
        chunks_of: ChunksOf,
        *,
        version: int,
        inside: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._directory = directory_of(root, version)
        self._root = root
        self._chunks_of = chunks_of
        self._version = version
        self._inside = inside
        self._stores: dict[str, LexicalStore] = {}
        self._left: dict[str, Checkpoint] = {}
        self._at = Checkpoint()

    @property
    def name(self) -> str:
        """The view's name."""
        return NAME

    @property
    def version(self) -> int:
        """Which building of it this is."""
        return self._version

    async def open(self) -> None:
        """Open the profiles' files; the first version ever answers at once."""
        await asyncio.to_thread(self._open)

    async def close(self) -> None:
        """Close the files."""
        for store in self._stores.values():
            await asyncio.to_thread(store.close)
        self._stores.clear()

    async def checkpoint(self) -> Checkpoint:
        """Where the file furthest behind stands; one that was only just made has nothing to catch up on."""
        for profile, store in self._stores.items():
            self._left[profile] = Checkpoint(*await asyncio.to_thread(store.checkpoint))
        begun = [each for each in self._left.values() if each.seq]
        self._at = min(begun, key=lambda each: each.seq, default=Checkpoint())
        return self._at

    async def apply(self, events: Sequence[Stored[Payload]], *, after: Checkpoint) -> Checkpoint:
        """Take the next events into every profile's file, each in a transaction of its own."""
        if self._at.seq != after.seq:
            await self._compare(after)
        changes = version_changes(events)
        chunks = {
            change.seq: await self._chunks_of(change) for change in changes if isinstance(change, Added)
        }
        reached = Checkpoint(events[-1].seq, str(events[-1].event.id))
        for stored in events:
            if isinstance(stored.event.payload, ProfileDefined):
                await asyncio.to_thread(self._define, stored.event.payload.profile)
        if self._inside is not None:
            await self._inside()
        # Those furthest behind first: a crash in between leaves none before the checkpoint.
        for profile in sorted(self._stores, key=lambda each: self._left[each].seq):
            mine = _changes_for(profile, changes, chunks)
            await self._bring(profile, mine, reached)
        self._at = reached
        return reached

    async def _compare(self, after: Checkpoint) -> None:
        """Raises what a checkpoint that is not where it was left means; nothing if it is after all."""
        held = await self.checkpoint()
        if held.seq < after.seq:
            raise ViewSetBack(f"the view {NAME} lost what came after {held.seq}; it goes on from there")
        if held.seq > after.seq:
            raise ViewTaken(f"another process feeds the view {NAME}; only one may")

    async def _bring(self, profile: str, changes: Sequence[LexicalChange], reached: Checkpoint) -> None:
        """One file from where it was left; what it contains already is not applied again."""
        old = self._left[profile]
        if reached.seq <= old.seq:
            return
        fresh = [change for change in changes if change.seq > old.seq]
        try:
            await asyncio.to_thread(
                self._stores[profile].apply,
                fresh,
                old_seq=old.seq,
                new_seq=reached.seq,
                event_id=reached.event_id,
            )
        except CheckpointLost as error:
            raise ViewTaken(str(error)) from error
        self._left[profile] = reached

    async def flush(self) -> None:
        """Nothing is remembered: every file stores its checkpoint at once."""

    async def finish_load(self) -> None:
        """Nothing is left for the end: postings are derived when the index is opened."""

    async def rows(self) -> AsyncIterator[Row]:
        """Every row of every profile, in key order."""
        for profile, store in sorted(self._stores.items()):
            for row in await asyncio.to_thread(lambda s: list(s.rows()), store):
                yield Row(f"{row[0]}_{profile}", (row[1], row[2]), tuple(row[3:]))

    def _open(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._directory.glob("*.sqlite3")):
            if path.stem not in self._stores:
                self._stores[path.stem] = LexicalStore.open(path)
        if not (self._root / POINTER).exists():
            point(self._root, self._version)

    def _define(self, profile: str) -> None:
        if profile not in self._stores:
            self._stores[profile] = LexicalStore.open(self._directory / f"{profile}.sqlite3")
            self._left[profile] = Checkpoint()


def _changes_for(
    profile: str, changes: Sequence[VersionChange], chunks: dict[int, ChunkSet]
) -> list[LexicalChange]:
    """What the changes are to one profile's file."""
    mine: list[LexicalChange] = []
    for change in changes:
        if isinstance(change, Added):
            if change.payload.profile == profile:
                mine.append(_add(change, chunks[change.seq]))
        elif change.profile in (None, profile):
            mine.append(_retire(change))
    return mine


def _add(added: Added, chunks: ChunkSet) -> AddDocument:
    lexical = [
        LexicalChunk(row.chunk_id, row.original_index, row.content, row.contextualized_content)
        for row in chunks.rows
    ]
    return AddDocument(added.file_id, added.payload.version, added.seq, lexical)


def _retire(retired: Retired) -> RetireDocument:
    if retired.version is not None:
        return RetireDocument(retired.seq, doc_id=retired.version)
    return RetireDocument(retired.seq, file_id=retired.file_id)


def point(root: Path, version: int) -> None:
    """Let a version answer, at once for every reader."""
    aside = root / f".{POINTER}.{secrets.token_hex(4)}"
    aside.write_text(json.dumps({"version": version}), encoding="utf-8")
    os.replace(aside, root / POINTER)


def pointed(root: Path) -> int | None:
    """The version that answers; None before the first."""
    try:
        held = json.loads((root / POINTER).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return int(held["version"])


def _is_current(directory: Path) -> bool:
    return directory.is_dir() and all(is_readable(path) for path in directory.glob("*.sqlite3"))


class LexicalReader:
    """Searches of the version that answers. Safe for many threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._searchers: dict[tuple[int, str], LexicalSearcher] = {}

    async def search(
        self, profile: str, text: str, *, top_k: int, as_of_seq: int | None = None
    ) -> LexicalResult:
        """The best chunks by BM25, and the sequence of the index that answered.

        Raises NotReady while the profile has no index yet.
        """
        return await asyncio.to_thread(self._search, profile, text, top_k, as_of_seq)

    def close(self) -> None:
        """Close every index."""
        with self._lock:
            for searcher in self._searchers.values():
                searcher.close()
            self._searchers.clear()

    def _search(self, profile: str, text: str, top_k: int, as_of_seq: int | None) -> LexicalResult:
        return self._searcher(profile).search(text, top_k=top_k, as_of_seq=as_of_seq)

    def _searcher(self, profile: str) -> LexicalSearcher:
        version = pointed(self._root)
        path = directory_of(self._root, version or 0) / f"{profile}.sqlite3"
        with self._lock:
            key = (version or 0, profile)
            if key not in self._searchers:
                if version is None or not path.exists():
                    raise NotReady("the word index of this profile is not built yet; try again shortly")
                self._searchers[key] = LexicalSearcher(path)
                self._forget(before=version)
            return self._searchers[key]

    def _forget(self, *, before: int) -> None:
        """Let the postings of versions go that another one replaced; a search under way ends in peace."""
        for key in [key for key in self._searchers if key[0] < before]:
            self._searchers.pop(key).close()


class LexicalFiles:
    """The lexical view's versions, a directory each."""

    def __init__(
        self, root: Path, chunks_of: ChunksOf, *, inside: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root
        self._chunks_of = chunks_of
        self._inside = inside

    @property
    def name(self) -> str:
        """The view's name."""
        return NAME

    def view(self, version: int, *, bulk: bool = False) -> LexicalView:
        """One version of the view."""
        return LexicalView(self._root, self._chunks_of, version=version, inside=self._inside)

    async def versions(self) -> list[int]:
        """The versions there are, in order."""
        return sorted(int(path.name[1:]) for path in self._root.glob("v[0-9]*") if path.is_dir())

    async def live(self) -> int | None:
        """The version that answers."""
        return await asyncio.to_thread(pointed, self._root)

    async def is_current(self, version: int) -> bool:
        """Whether a version has the shape this program writes, and its files can be read."""
        return await asyncio.to_thread(_is_current, directory_of(self._root, version))

    async def switch(self, version: int) -> None:
        """Let a version answer."""
        await asyncio.to_thread(point, self._root, version)

    async def drop(self, version: int) -> None:
        """Forget a version that does not answer."""
        if version != await self.live():
            await asyncio.to_thread(shutil.rmtree, directory_of(self._root, version), True)
