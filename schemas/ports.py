"""Ports: what the inside needs from the outside, as protocols. Adapters are named only in wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

Clock = Callable[[], datetime]
"""Returns the present as an aware UTC datetime."""

NewId = Callable[[], UUID]
"""Returns a fresh random id."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class ModelIdentity:
    """Which model made a vector or a text: two identities never mix.

    Attributes:
        backend: `bundled`, `http` or `hash`.
        name: the model's name.
        fingerprint: digest of the weights, or of a probe's answer where weights are out of reach.
    """

    backend: str
    name: str
    fingerprint: str


class Embedder(Protocol):
    """Turns texts into unit vectors.

    Both methods raise DependencyDown when the model cannot be reached, and ValueError never: any
    str is accepted (NUL and lone surrogates are replaced before the model sees them).
    """

    @property
    def identity(self) -> ModelIdentity:
        """The model behind the vectors."""
        ...

    @property
    def dim(self) -> int:
        """Length of every vector."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """`(len(texts), dim)` float32, unit length, in order."""
        ...

    async def embed_query(self, text: str) -> Vectors:
        """`(dim,)` float32, unit length."""
        ...


@dataclass(frozen=True)
class ChatMessage:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Delta:
    """A fragment of a generated text, `reasoning` while inside a think block."""

    kind: Literal["reasoning", "token"]
    text: str


@dataclass(frozen=True)
class Timings:
    """What the model server itself reports of its decoding; never computed by us."""

    completion_tokens: int
    tokens_per_second: float


@dataclass(frozen=True)
class Usage:
    """The end of a generation: token counts as the server reported them, None where it did not."""

    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_per_second: float | None
    finish_reason: str | None


GenerationEvent = Delta | Timings | Usage


class LanguageModel(Protocol):
    """A chat model that streams."""

    @property
    def identity(self) -> ModelIdentity:
        """The model that answers."""
        ...

    def stream(
        self, messages: Sequence[ChatMessage], *, max_tokens: int, temperature: float
    ) -> AsyncIterator[GenerationEvent]:
        """Deltas and timings in stream order, then exactly one Usage.

        Closing the iterator stops the generation at the server. Raises DependencyDown when the
        server is unreachable or the stream is cut short.
        """
        ...

    async def count_tokens(self, text: str) -> int | None:
        """Tokens of `text` for this model; None when the server cannot say."""
        ...


@dataclass(frozen=True)
class OwnerKey:
    """One key of an owner.

    Attributes:
        kid: the key's id, 16 hex digits; rides beside everything it seals.
        secret: 64 random bytes.
    """

    kid: str
    secret: bytes


class KeyStore(Protocol):
    """Keys of owners, apart from the log and the blobs. Calls are quick and may block on the disk."""

    def ensure(self, owners: Sequence[str]) -> None:
        """Give each owner a key if it has none; durable when this returns."""
        ...

    def current(self, owner: str) -> OwnerKey:
        """The key that seals for `owner` now. Raises KeyMissing if it has none."""
        ...

    def find(self, owner: str, kid: str) -> OwnerKey | None:
        """A key by id, None if it was destroyed. Raises KeyMissing if it was never here."""
        ...

    def destroy(self, owner: str) -> int:
        """Destroy every key of `owner` for good; returns how many there were."""
        ...


class BlobStore(Protocol):
    """Immutable bytes addressed by their SHA-256. It sees ciphertext only."""

    async def put(self, data: bytes) -> str:
        """Store `data` durably and return its address; storing it again is harmless."""
        ...

    async def get(self, address: str) -> bytes:
        """The bytes. Raises BlobMissing, or BlobDamaged when they do not match the address."""
        ...

    async def has(self, address: str) -> bool:
        """Whether the address is held."""
        ...


class RefStore(Protocol):
    """Stage outputs by key. Losing a ref costs a repeated call, never correctness."""

    async def get(self, key: str) -> str | None:
        """The blob address recorded under `key`."""
        ...

    async def set(self, key: str, address: str) -> None:
        """Record the address under `key`."""
        ...


CountTokens = Callable[[str], int]
"""Tokens of a text, by a model's own count or a close one."""

Stem = Callable[[str], str]
"""A word's stem."""
