"""The contract of the blob store, run over every adapter, and of the sealing in front of it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from loreline.events.blobs import MAGIC, FileBlobs, MemoryBlobs, SealedBlobs
from loreline.events.keys import MemoryKeys
from loreline.schemas.errors import BlobDamaged, BlobMissing, KeyMissing
from loreline.schemas.ports import BlobStore

OWNER, OTHER = "file/" + "a" * 32, "file/" + "b" * 32


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return MemoryBlobs() if request.param == "memory" else FileBlobs(tmp_path / "blobs")


@pytest.fixture
def keys() -> MemoryKeys:
    keys = MemoryKeys()
    keys.ensure([OWNER, OTHER])
    return keys


@pytest.mark.parametrize("data", [b"", b"x", os.urandom(1 << 20)], ids=["empty", "byte", "megabyte"])
async def test_what_was_put_is_got_under_its_digest(store: BlobStore, data: bytes) -> None:
    address = await store.put(data)
    assert address == hashlib.sha256(data).hexdigest()
    assert await store.has(address)
    assert await store.get(address) == data


async def test_a_missing_blob_is_named(store: BlobStore) -> None:
    address = "ab" * 32
    assert not await store.has(address)
    with pytest.raises(BlobMissing, match="abababababab is not in the store; restore it from a backup"):
        await store.get(address)


async def test_the_same_bytes_put_many_times_at_once_are_one_blob(store: BlobStore) -> None:
    addresses = await asyncio.gather(*(store.put(b"same") for _ in range(20)))
    assert len(set(addresses)) == 1
    assert await store.get(addresses[0]) == b"same"


def held(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


async def test_a_standing_blob_is_only_touched(tmp_path: Path) -> None:
    store = FileBlobs(tmp_path)
    await store.put(b"data")
    (path,) = held(tmp_path)
    os.utime(path, (1, 1))
    inode = path.stat().st_ino
    await store.put(b"data")
    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > 1


async def test_a_blob_that_changed_is_damaged_and_a_short_one_is_written_again(tmp_path: Path) -> None:
    store = FileBlobs(tmp_path)
    address = await store.put(b"some data")
    (path,) = held(tmp_path)
    path.write_bytes(b"some dbta")
    with pytest.raises(BlobDamaged, match="restore it from a backup"):
        await store.get(address)
    path.write_bytes(b"some")
    with pytest.raises(BlobDamaged):
        await store.get(address)
    assert await store.put(b"some data") == address
    assert await store.get(address) == b"some data"


async def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileBlobs(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            await store.put(b"data")
    assert held(tmp_path) == []
    assert await store.get(await store.put(b"data")) == b"data"


async def test_a_file_that_a_kill_left_half_written_is_no_blob(tmp_path: Path) -> None:
    store = FileBlobs(tmp_path)
    address = hashlib.sha256(b"data").hexdigest()
    (tmp_path / address[:2]).mkdir()
    (tmp_path / address[:2] / f".{address[2:18]}.00000000").write_bytes(b"da")
    assert not await store.has(address)
    assert await store.put(b"data") == address
    assert await store.get(address) == b"data"


async def test_blobs_are_their_owners_alone(tmp_path: Path) -> None:
    await FileBlobs(tmp_path / "blobs").put(b"data")
    modes = {path.stat().st_mode & 0o077 for path in [tmp_path / "blobs", *(tmp_path / "blobs").rglob("*")]}
    assert modes == {0}


async def test_a_sealed_blob_opens_for_its_owner_alone(store: BlobStore, keys: MemoryKeys) -> None:
    blobs = SealedBlobs(store, keys)
    address = await blobs.put(OWNER, b"forty-one metres")
    assert await blobs.get(OWNER, address) == b"forty-one metres"
    assert b"forty-one" not in await store.get(address)
    assert await blobs.put(OWNER, b"forty-one metres") == address
    assert await blobs.put(OTHER, b"forty-one metres") != address
    with pytest.raises(KeyMissing):
        await blobs.get(OTHER, address)


async def test_a_blob_whose_key_was_destroyed_is_erased(store: BlobStore, keys: MemoryKeys) -> None:
    blobs = SealedBlobs(store, keys)
    address = await blobs.put(OWNER, b"words")
    keys.destroy(OWNER)
    with pytest.raises(BlobMissing, match="erased"):
        await blobs.get(OWNER, address)
    with pytest.raises(KeyMissing):
        await blobs.put(OWNER, b"words")


async def test_what_is_no_sealed_blob_of_its_owner_is_damaged(store: BlobStore, keys: MemoryKeys) -> None:
    blobs = SealedBlobs(store, keys)
    sealed = await store.get(await blobs.put(OWNER, b"words"))
    for wrong in (
        b"",
        b"LLB",
        b"PLAIN",
        sealed[:-1] + bytes([sealed[-1] ^ 1]),
        sealed[:20],
        sealed[:12],
        MAGIC,
    ):
        with pytest.raises((BlobDamaged, KeyMissing)):
            await blobs.get(OWNER, await store.put(wrong))
