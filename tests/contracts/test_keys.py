"""The contract of the key store, run over every adapter."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from loreline.events.keys import MemoryKeys, SqliteKeys
from loreline.schemas.errors import KeyMissing
from loreline.schemas.ports import KeyStore

A, B = "file/" + "a" * 32, "file/" + "b" * 32


@pytest.fixture(params=["memory", "sqlite"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyStore]:
    if request.param == "memory":
        yield MemoryKeys()
        return
    store = SqliteKeys(tmp_path / "keys" / "keyring.sqlite3")
    yield store
    store.close()


def test_an_owner_gets_one_key_and_keeps_it(keys: KeyStore) -> None:
    keys.ensure([A, B, A])
    first = keys.current(A)
    keys.ensure([A])
    assert keys.current(A) == first != keys.current(B)
    assert keys.find(A, first.kid) == first
    assert len(first.secret) == 64
    assert len(bytes.fromhex(first.kid)) == 8


def test_an_owner_without_a_key_is_named(keys: KeyStore) -> None:
    with pytest.raises(KeyMissing, match=rf"{A}; restore the key backup"):
        keys.current(A)


def test_a_key_that_was_never_here_is_not_a_destroyed_one(keys: KeyStore) -> None:
    keys.ensure([A, B])
    with pytest.raises(KeyMissing):
        keys.find(A, "00" * 8)
    with pytest.raises(KeyMissing):
        keys.find(B, keys.current(A).kid)


def test_a_destroyed_key_is_gone_and_known_as_destroyed(keys: KeyStore) -> None:
    keys.ensure([A, B])
    old, other = keys.current(A), keys.current(B)
    assert keys.find(A, old.kid)
    assert keys.destroy(A) == 1
    assert keys.find(A, old.kid) is None
    assert keys.current(B) == other
    assert keys.destroy(A) == 0
    with pytest.raises(KeyMissing):
        keys.current(A)


def test_an_owner_that_comes_back_gets_another_key(keys: KeyStore) -> None:
    keys.ensure([A])
    old = keys.current(A)
    keys.destroy(A)
    keys.ensure([A])
    assert keys.current(A).kid != old.kid
    assert keys.current(A).secret != old.secret
    assert keys.find(A, old.kid) is None


def test_many_threads_agree_on_one_key(keys: KeyStore) -> None:
    owners, gate = [f"file/{n:032x}" for n in range(20)], threading.Barrier(8)

    def ask(_: int) -> list[str]:
        gate.wait()
        keys.ensure(owners)
        return [keys.current(owner).kid for owner in owners]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert all(each == found[0] for each in found)
    assert len(set(found[0])) == 20


@pytest.fixture
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], SqliteKeys]:
    def open_() -> SqliteKeys:
        store = SqliteKeys(tmp_path / "keys" / "keyring.sqlite3")
        request.addfinalizer(store.close)
        return store

    return open_


def test_keys_and_their_destruction_outlive_the_process(opened: Callable[[], SqliteKeys]) -> None:
    one = opened()
    one.ensure([A, B])
    kept, gone = one.current(A), one.current(B)
    one.destroy(B)
    other = opened()  # the first is not closed: what is done is on the disk
    assert other.current(A) == kept
    assert other.find(B, gone.kid) is None


def test_two_processes_agree_on_one_key(opened: Callable[[], SqliteKeys]) -> None:
    stores = [opened() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda store: store.ensure([A, B]), stores))
    assert len({store.current(A) for store in stores}) == 1


def test_a_destroyed_secret_is_not_in_the_file(opened: Callable[[], SqliteKeys], tmp_path: Path) -> None:
    store = opened()
    store.ensure([A, B])
    secret, kept = store.current(A).secret, store.current(B).secret
    store.destroy(A)
    files = b"".join(path.read_bytes() for path in (tmp_path / "keys").iterdir())
    assert secret not in files
    assert kept in files


def test_the_keyring_is_its_owners_alone_and_written_through(
    opened: Callable[[], SqliteKeys], tmp_path: Path
) -> None:
    opened().ensure([A])
    path = tmp_path / "keys" / "keyring.sqlite3"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM keys WHERE secret IS NOT NULL").fetchone() == (1,)


def test_a_failed_ensure_leaves_the_store_usable(opened: Callable[[], SqliteKeys], tmp_path: Path) -> None:
    store = opened()
    with closing(sqlite3.connect(tmp_path / "keys" / "keyring.sqlite3")) as database:
        database.execute("CREATE TRIGGER no BEFORE INSERT ON keys BEGIN SELECT RAISE(ABORT, 'full'); END")
        database.commit()
        with pytest.raises(sqlite3.IntegrityError):
            store.ensure([A])
        with pytest.raises(KeyMissing):
            store.current(A)
        database.execute("DROP TRIGGER no")
        database.commit()
    store.ensure([A])
    assert store.current(A)
