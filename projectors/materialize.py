"""From an `embedded` event and its blobs to the rows that views hold. No model is called."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from loreline.events.blobs import SealedBlobs
from loreline.projectors.versions import Added
from loreline.schemas.errors import BlobDamaged
from loreline.schemas.events.file import FileIdentity
from loreline.schemas.ids import original_index_of, owner_of
from loreline.schemas.ports import Vectors
from loreline.schemas.records import Chunk


@dataclass(frozen=True)
class ChunkRow:
    """A chunk as a view stores it. `metadata` is what ChunkRecord has beyond it and the profile."""

    chunk_id: str
    original_index: int
    content: str
    context: str | None
    metadata: dict[str, Any]

    @property
    def contextualized_content(self) -> str:
        """The text that is embedded and indexed."""
        return contextualize(self.content, self.context)


@dataclass(frozen=True)
class ChunkSet:
    """A version's chunks and their vectors: `(len(rows), dim)` float32, unit length."""

    rows: Sequence[ChunkRow]
    vectors: Vectors


ChunksOf = Callable[[Added], Awaitable[ChunkSet]]

_CHUNKS = TypeAdapter(list[Chunk])


def contextualize(content: str, context: str | None) -> str:
    """The blurb, a blank line, and the chunk; the chunk alone without a blurb."""
    return f"{context}\n\n{content}" if context else content


def encode_chunks(chunks: Sequence[Chunk]) -> bytes:
    """A chunk list as its blob holds it."""
    return _CHUNKS.dump_json(list(chunks))


def decode_chunks(data: bytes) -> list[Chunk]:
    """The chunk list of a blob."""
    return _CHUNKS.validate_json(data)


def encode_blurbs(blurbs: Sequence[str | None]) -> bytes:
    """Blurbs as their blob holds them, one a chunk."""
    return json.dumps(list(blurbs), ensure_ascii=False).encode()


def decode_blurbs(data: bytes) -> list[str | None]:
    """The blurbs of a blob."""
    return list(json.loads(data))


def encode_matrix(vectors: Vectors) -> bytes:
    """Vectors as their blob holds them: little-endian float32, row by row."""
    return np.ascontiguousarray(vectors, dtype="<f4").tobytes()


def decode_matrix(data: bytes, *, dim: int) -> Vectors:
    """The `(n, dim)` vectors of a blob."""
    return np.frombuffer(data, dtype="<f4").reshape(-1, dim)


def materializer(blobs: SealedBlobs) -> ChunksOf:
    """How a version's rows are fetched: three blobs, read together and checked against each other."""

    async def chunks_of(added: Added) -> ChunkSet:
        payload, owner = added.payload, owner_of(added.stored.event.aggregate)
        held = [await blobs.get(owner, each) for each in (payload.chunks, payload.blurbs, payload.vectors)]
        return await asyncio.to_thread(_materialize, added, *held)

    return chunks_of


def _materialize(added: Added, chunk_list: bytes, blurb_list: bytes, matrix: bytes) -> ChunkSet:
    payload = added.payload
    chunks, blurbs = decode_chunks(chunk_list), decode_blurbs(blurb_list)
    vectors = decode_matrix(matrix, dim=payload.dim)
    if not len(chunks) == len(blurbs) == len(vectors) == payload.n_chunks:
        raise BlobDamaged(
            f"the blobs of the event at {added.seq} hold {len(chunks)} chunks, {len(blurbs)} blurbs and "
            f"{len(vectors)} vectors, not {payload.n_chunks}; restore them from a backup"
        )
    return ChunkSet([_row(added, chunk, blurb) for chunk, blurb in zip(chunks, blurbs, strict=True)], vectors)


def _row(added: Added, chunk: Chunk, blurb: str | None) -> ChunkRow:
    identity = added.payload.private
    return ChunkRow(
        chunk_id=f"{identity.doc_id}::{chunk.chunk_index}",
        original_index=original_index_of(added.payload.chunked_seq, chunk.chunk_index),
        content=chunk.content.replace("\0", " "),  # neither store's text holds a NUL
        context=blurb,
        metadata=_metadata(added, identity, chunk),
    )


def _metadata(added: Added, identity: FileIdentity, chunk: Chunk) -> dict[str, Any]:
    path = PurePosixPath(identity.relative_path)
    return {
        "doc_id": identity.doc_id,
        "chunk_index": chunk.chunk_index,
        "relative_path": identity.relative_path,
        "file_name": path.name,
        "file_type": path.suffix.removeprefix(".").lower(),
        "page": chunk.page,
        "pages": list(chunk.pages),
        "boxes": [box.model_dump(mode="json") for box in chunk.boxes],
        "start": chunk.start,
        "end": chunk.end,
        "n_tokens": chunk.n_tokens,
        "content_hash": identity.content_hash,
        "created_at": added.stored.event.time.isoformat(),
        "file_created_at": _iso(identity.file_created_at),
        "file_modified_at": _iso(identity.file_modified_at),
        "extraction": chunk.extraction,
        "heading_path": " > ".join(chunk.heading_path) or None,
    }


def _iso(moment: Any) -> str | None:
    return None if moment is None else str(moment.isoformat())
