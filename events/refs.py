"""Refs: stage outputs and recorded model calls by key. Same key, no work.

A key is an HMAC under the owner's key over a versioned prefix and canonical JSON, so it says nothing
about the words it was made from. Losing refs costs repeated calls, never correctness.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loreline.events.blobs import SealedBlobs
from loreline.schemas.errors import BlobDamaged, BlobMissing
from loreline.schemas.ids import canonical_json, keyed_digest
from loreline.schemas.ports import KeyStore, RefStore

PREFIX = "loreline/1/ref"


class MemoryRefs:
    """Refs that live as long as the process; for tests."""

    def __init__(self) -> None:
        self._held: dict[str, str] = {}

    async def get(self, key: str) -> str | None:
        """The blob address recorded under `key`."""
        return self._held.get(key)

    async def set(self, key: str, address: str) -> None:
        """Record the address under `key`."""
        self._held[key] = address


class SqliteRefs:
    """Refs in one SQLite file in WAL mode; a kill keeps them, a power cut may lose the newest."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS refs (key TEXT PRIMARY KEY, address TEXT NOT NULL) WITHOUT ROWID"
        )

    async def get(self, key: str) -> str | None:
        """The blob address recorded under `key`."""
        return await asyncio.to_thread(self._get, key)

    async def set(self, key: str, address: str) -> None:
        """Record the address under `key`."""
        await asyncio.to_thread(self._set, key, address)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _get(self, key: str) -> str | None:
        with self._lock:
            row = self._db.execute("SELECT address FROM refs WHERE key=?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _set(self, key: str, address: str) -> None:
        with self._lock:
            self._db.execute("INSERT OR REPLACE INTO refs VALUES (?, ?)", (key, address))


@dataclass(frozen=True)
class Recorded:
    """A stage's output: where it is, what it is, and whether it was there before."""

    address: str
    data: bytes
    reused: bool


@dataclass
class _Turn:
    """Who asks for one key at the same time, in this process.

    Attributes:
        made: what the first of them made; it answers those who came while it was being made.
        n_asking: how many ask; the last one takes the turn away.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    made: Recorded | None = None
    n_asking: int = 0


class Recordings:
    """Looks a stage's output up before making it: the one way to parse, chunk, or call a model.

    What is asked for while it is being made is waited for, not made twice.

    scratch: where outputs go that no event will name; `blobs` if there is no other place.
    """

    def __init__(
        self, refs: RefStore, blobs: SealedBlobs, keys: KeyStore, *, scratch: SealedBlobs | None = None
    ) -> None:
        self._refs = refs
        self._blobs = blobs
        self._keys = keys
        self._scratch = scratch or blobs
        self._turns: dict[str, _Turn] = {}

    def key(self, owner: str, stage: str, inputs: Mapping[str, Any]) -> str:
        """The key of a stage's output: HMAC under the owner's key, 64 hex digits."""
        text = canonical_json({"stage": stage, "inputs": inputs}).decode()
        return keyed_digest(self._keys.current(owner).secret, PREFIX, text, size=64)

    async def once(
        self,
        owner: str,
        stage: str,
        *,
        inputs: Mapping[str, Any],
        make: Callable[[], Awaitable[bytes]],
        force: bool = False,
        lasting: bool = True,
    ) -> Recorded:
        """The recorded output for these inputs, made by `make` if there is none whole (or `force`).

        lasting: whether the output is a blob that an event will name. It is then durable before the
        ref names it; one in the scratch store may be lost to a power cut, which costs a repeated call.
        """
        store = self._blobs if lasting else self._scratch
        key = self.key(owner, stage, inputs)
        async with self._turn(key) as turn:
            if turn.made is not None:
                return replace(turn.made, reused=True)
            address = None if force else await self._refs.get(key)
            if address is not None:
                with suppress(BlobMissing, BlobDamaged):
                    return Recorded(address, await store.get(owner, address), True)
            data = await make()
            address = await store.put(owner, data)
            await self._refs.set(key, address)
            turn.made = Recorded(address, data, False)
            return turn.made

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[_Turn]:
        """One at a time for a key; who fails or is cancelled leaves the making to the next."""
        turn = self._turns.setdefault(key, _Turn())
        turn.n_asking += 1
        try:
            async with turn.lock:
                yield turn
        finally:
            turn.n_asking -= 1
            if not turn.n_asking:
                del self._turns[key]
