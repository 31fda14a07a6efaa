"""Blob stores (files, memory), and the sealing of blobs under their owner's key.

A sealed blob is `LLB1`, 8 bytes of key id, and AES-SIV ciphertext; its address is the SHA-256 of
all of it. Sealing is deterministic: the same bytes of the same owner have one address.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from loreline.schemas.errors import BlobDamaged, BlobMissing
from loreline.schemas.ports import BlobStore, KeyStore

MAGIC = b"LLB1"
_SEAL = [b"loreline/1/blob"]
_SHORT_BYTES = 64 * 1024


class MemoryBlobs:
    """Blobs that live as long as the process; for tests."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Store `data` and return its address."""
        address = hashlib.sha256(data).hexdigest()
        self._held[address] = data
        return address

    async def get(self, address: str) -> bytes:
        """The bytes. Raises BlobMissing."""
        try:
            return self._held[address]
        except KeyError:
            raise _missing(address) from None

    async def has(self, address: str) -> bool:
        """Whether the address is held."""
        return address in self._held


class FileBlobs:
    """Blobs as files under `root/ab/cd…`: written aside, fsynced, renamed, directory fsynced.

    durable: False leaves out the fsyncs, for what can be made again: a kill keeps it, a power cut may
    lose or damage it, and reading says so.
    """

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root
        self._durable = durable

    async def put(self, data: bytes) -> str:
        """Store `data` and return its address. One that stands whole is only touched."""
        return await asyncio.to_thread(self._put, data)

    async def get(self, address: str) -> bytes:
        """The bytes. Raises BlobMissing, or BlobDamaged when they do not match the address."""
        return await asyncio.to_thread(self._get, address)

    async def has(self, address: str) -> bool:
        """Whether the address is held."""
        return await asyncio.to_thread(self._path(address).exists)

    def _path(self, address: str) -> Path:
        return self._root / address[:2] / address[2:]

    def _put(self, data: bytes) -> str:
        address = hashlib.sha256(data).hexdigest()
        path = self._path(address)
        if path.exists() and path.read_bytes() == data:
            os.utime(path)  # a sweep must see that the blob is wanted again
            return address
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._sync_directory(self._root)
        aside = path.with_name(f".{path.name[:16]}.{secrets.token_hex(4)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if self._durable:
                    os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        self._sync_directory(path.parent)
        return address

    def _sync_directory(self, path: Path) -> None:
        if self._durable:
            _sync_directory(path)

    def _get(self, address: str) -> bytes:
        try:
            data = self._path(address).read_bytes()
        except FileNotFoundError:
            raise _missing(address) from None
        if hashlib.sha256(data).hexdigest() != address:
            raise BlobDamaged(f"blob {address[:12]} does not match its address; restore it from a backup")
        return data


class SealedBlobs:
    """Blobs sealed under their owner's key: what stages and views read and write."""

    def __init__(self, store: BlobStore, keys: KeyStore) -> None:
        self._store = store
        self._keys = keys

    async def put(self, owner: str, data: bytes) -> str:
        """Seal and store durably; returns the address. Raises KeyMissing if the owner has no key."""
        key = self._keys.current(owner)
        sealed = await _run(data, lambda: AESSIV(key.secret).encrypt(data, _SEAL))
        return await self._store.put(MAGIC + bytes.fromhex(key.kid) + sealed)

    async def get(self, owner: str, address: str) -> bytes:
        """Fetch and open. Raises BlobMissing, BlobDamaged, or KeyMissing (destroyed included)."""
        data = await self._store.get(address)
        if data[:4] != MAGIC:
            raise BlobDamaged(f"blob {address[:12]} is not a sealed blob; restore it from a backup")
        key = self._keys.find(owner, data[4:12].hex())
        if key is None:
            raise BlobMissing(f"blob {address[:12]} was erased with its owner")
        return await _run(data, lambda: _open(key.secret, data[12:], address))

    async def has(self, address: str) -> bool:
        """Whether the address is held."""
        return await self._store.has(address)


async def _run(data: bytes, function: Callable[[], bytes]) -> bytes:
    """The function's result; away from the event loop when the data is long enough to hold it up."""
    return function() if len(data) < _SHORT_BYTES else await asyncio.to_thread(function)


def _open(secret: bytes, sealed: bytes, address: str) -> bytes:
    try:
        return AESSIV(secret).decrypt(sealed, _SEAL)
    except InvalidTag:
        raise BlobDamaged(
            f"blob {address[:12]} does not open with its owner's key; restore it from a backup"
        ) from None


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _missing(address: str) -> BlobMissing:
    return BlobMissing(f"blob {address[:12]} is not in the store; restore it from a backup")
