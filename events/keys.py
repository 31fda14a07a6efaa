"""Key stores: a SQLite file of its own, and one in memory. Losing the keys is losing the corpus."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from loreline.schemas.errors import KeyMissing
from loreline.schemas.ports import OwnerKey

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    kid     TEXT PRIMARY KEY,
    owner   TEXT NOT NULL,
    secret  BLOB              -- NULL once destroyed: the id stays, so that "destroyed" is not "lost"
);
CREATE INDEX IF NOT EXISTS keys_owner ON keys (owner) WHERE secret IS NOT NULL;
"""


def _missing(owner: str) -> KeyMissing:
    return KeyMissing(f"there is no key for {owner}; restore the key backup that belongs to this log")


class MemoryKeys:
    """Keys that live as long as the process; for tests and throw-away stacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: dict[str, OwnerKey] = {}
        self._all: dict[tuple[str, str], OwnerKey | None] = {}

    def ensure(self, owners: Sequence[str]) -> None:
        """Give each owner a key if it has none."""
        with self._lock:
            for owner in owners:
                if owner not in self._current:
                    key = OwnerKey(secrets.token_hex(8), secrets.token_bytes(64))
                    self._all[owner, key.kid] = key
                    self._current[owner] = key

    def current(self, owner: str) -> OwnerKey:
        """The owner's key. Raises KeyMissing if it has none."""
        try:
            return self._current[owner]
        except KeyError:
            raise _missing(owner) from None

    def find(self, owner: str, kid: str) -> OwnerKey | None:
        """A key by id, None if destroyed. Raises KeyMissing if it was never here."""
        try:
            return self._all[owner, kid]
        except KeyError:
            raise _missing(owner) from None

    def destroy(self, owner: str) -> int:
        """Destroy every key of `owner`; returns how many there were."""
        with self._lock:
            self._current.pop(owner, None)
            doomed = [name for name, key in self._all.items() if name[0] == owner and key]
            self._all.update(dict.fromkeys(doomed))
        return len(doomed)


class SqliteKeys:
    """Keys in a SQLite file, mode 0600, overwritten on destruction (`secure_delete`).

    A commit is fsynced before `ensure` returns. Found keys are remembered in memory, so a destroyed
    key must be destroyed through every process's own store; other processes see it at their next miss.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], OwnerKey] = {}
        self._current: dict[str, OwnerKey] = {}
        self._db = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        # FULL does not fsync the removal of the journal: a power cut could bring it back and undo the commit.
        self._db.execute("PRAGMA synchronous=EXTRA")
        self._db.execute("PRAGMA secure_delete=ON")
        self._db.executescript(_SCHEMA)

    def ensure(self, owners: Sequence[str]) -> None:
        """Give each owner a key if it has none; durable when this returns."""
        with self._lock:
            wanted = [owner for owner in dict.fromkeys(owners) if owner not in self._current]
            if not wanted or all(self._load(owner) for owner in wanted):
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for owner in wanted:
                    if not self._load(owner):
                        row = (secrets.token_hex(8), owner, secrets.token_bytes(64))
                        self._db.execute("INSERT INTO keys (kid, owner, secret) VALUES (?, ?, ?)", row)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    def current(self, owner: str) -> OwnerKey:
        """The owner's key. Raises KeyMissing if it has none."""
        if found := self._current.get(owner):
            return found
        with self._lock:
            key = self._load(owner)
        if key is None:
            raise _missing(owner)
        return key

    def find(self, owner: str, kid: str) -> OwnerKey | None:
        """A key by id, None if destroyed. Raises KeyMissing if it was never here."""
        if found := self._known.get((owner, kid)):
            return found
        with self._lock:
            row = self._db.execute("SELECT secret FROM keys WHERE owner=? AND kid=?", (owner, kid)).fetchone()
        if row is None:
            raise _missing(owner)
        if row[0] is None:
            return None
        return self._known.setdefault((owner, kid), OwnerKey(kid, row[0]))

    def destroy(self, owner: str) -> int:
        """Destroy every key of `owner`; durable when this returns, with how many there were."""
        with self._lock:
            self._current.pop(owner, None)
            for name in [name for name in self._known if name[0] == owner]:
                del self._known[name]
            done = self._db.execute(
                "UPDATE keys SET secret=NULL WHERE owner=? AND secret IS NOT NULL", (owner,)
            )
            return done.rowcount

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _load(self, owner: str) -> OwnerKey | None:
        row = self._db.execute(
            "SELECT kid, secret FROM keys WHERE owner=? AND secret IS NOT NULL", (owner,)
        ).fetchone()
        if row is None:
            return None
        key = self._current[owner] = self._known[owner, row[0]] = OwnerKey(row[0], row[1])
        return key
