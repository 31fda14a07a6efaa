"""An embedder without a model: word hashes. For tests, and for benches where a model would hide the rest."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from loreline.processors.models.cleaning import clean_text, to_unit
from loreline.schemas.ports import Embedder, ModelIdentity, Vectors

_MAX_CHARS = 100_000
_WORD = re.compile(r"\w+")
_SCHEME = "signed word hashes, four per word, square root of the count, version 1"


def hash_vector(text: str, *, dim: int) -> Vectors:
    """`(dim,)` float32, unit length; the same text gives the same bits on every machine.

    Each casefolded word adds the square root of its count, with a sign, to four places that its
    hash chooses ("feature hashing", Weinberger et al. 2009), so texts that share words are close.
    A text without words gets the vector of the empty word.
    """
    counts = Counter(word.casefold() for word in _WORD.findall(clean_text(text, max_chars=_MAX_CHARS)))
    vector = np.zeros(dim, dtype=np.float32)
    for word, count in sorted(counts.items()):
        _add(vector, word, weight=count**0.5)
    if not vector.any():
        _add(vector, "", weight=1.0)
        vector[0] += 0.5
    return np.asarray(to_unit(vector[np.newaxis])[0], dtype=np.float32)


def _add(vector: Vectors, word: str, *, weight: float) -> None:
    digest = hashlib.blake2b(word.encode(), digest_size=16).digest()
    for start in range(0, 16, 4):
        number = int.from_bytes(digest[start : start + 4], "little")
        vector[(number >> 1) % len(vector)] += weight if number & 1 else -weight


class HashEmbedder:
    """Hash vectors behind the Embedder port. Nothing to start, nothing to go down."""

    def __init__(self, *, dim: int = 384) -> None:
        self._dim = dim
        fingerprint = hashlib.sha256(f"{_SCHEME}, {dim}".encode()).hexdigest()
        self._identity = ModelIdentity(backend="hash", name=f"hash-{dim}", fingerprint=fingerprint)

    @property
    def identity(self) -> ModelIdentity:
        """The hashing scheme and its dimension."""
        return self._identity

    @property
    def dim(self) -> int:
        """Length of every vector."""
        return self._dim

    async def start(self) -> None:
        """Nothing to start."""

    async def probe(self) -> ModelIdentity:
        """The identity; never down."""
        return self._identity

    def interactive(self) -> Embedder:
        """This embedder: whoever runs it decides who waits."""
        return self

    async def close(self) -> None:
        """Nothing to close."""

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """`(len(texts), dim)` float32, unit length, in order."""
        if not texts:
            return np.zeros((0, self._dim), dtype=np.float32)
        return np.stack([hash_vector(text, dim=self._dim) for text in texts])

    async def embed_query(self, text: str) -> Vectors:
        """`(dim,)` float32, unit length."""
        return hash_vector(text, dim=self._dim)
