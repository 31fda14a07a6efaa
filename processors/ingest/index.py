"""Situate and embed: a blurb that says where each chunk stands, and a vector for chunk and blurb together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from loreline.events.envelope import Stored
from loreline.processors.ingest.blurbs import structural_blurbs
from loreline.processors.ingest.ports import IngestPorts
from loreline.processors.ingest.profiles import STRUCTURAL, uses
from loreline.processors.ingest.settle import advance, expected, failed, settle
from loreline.processors.stage import Commands, Stage
from loreline.projectors.materialize import (
    contextualize,
    decode_blurbs,
    decode_chunks,
    encode_blurbs,
    encode_matrix,
)
from loreline.schemas.errors import DocumentError
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import content_hash_of, owner_of
from loreline.schemas.records import ParsedDocument

EMBED_BATCH = 16


def situate(ports: IngestPorts) -> Stage:
    """The stage: chunked in; situated out."""

    async def run(event: Stored[Payload], _attempt: int) -> Commands:
        payload = event.event.payload
        if not isinstance(payload, file.FileChunked) or not await expected(ports, event, payload, "chunked"):
            return []
        started = ports.seconds()
        contextualizer = (await ports.profile(payload.profile)).settings["CONTEXTUALIZER"]
        owner = owner_of(event.event.aggregate)

        async def make() -> bytes:
            if contextualizer != STRUCTURAL:
                return encode_blurbs([None] * payload.n_chunks)
            chunks = await ports.blobs.get(owner, payload.chunks)
            parsed = await ports.blobs.get(owner, payload.parsed)
            return await asyncio.to_thread(_situated, payload.private.relative_path, chunks, parsed)

        inputs = {
            "chunks": payload.chunks,
            "parsed": payload.parsed,
            "path": PurePosixPath(payload.private.relative_path).name,
            "contextualizer": contextualizer,
        }
        made = await ports.recordings.once(owner, "situate", inputs=inputs, make=make, force=payload.force)
        situated = file.FileSituated(
            version=payload.version,
            profile=payload.profile,
            run=payload.run,
            chunked_seq=event.seq,
            chunks=payload.chunks,
            blurbs=made.address,
            n_chunks=payload.n_chunks,
            seconds=round(ports.seconds() - started, 6),
            reused=made.reused,
            force=payload.force,
            private=payload.private,
        )
        return [advance(event, payload, "situate", at="chunked", payload=situated)]

    return Stage("situate", ("lore.rag.file.*.chunked",), run, parallelism=8)


def _situated(path: str, chunks: bytes, parsed: bytes) -> bytes:
    """The blurbs of a document's chunks; away from the event loop, for a document may be long."""
    title = ParsedDocument.model_validate_json(parsed).title
    return encode_blurbs(structural_blurbs(decode_chunks(chunks), path=path, title=title))


def embed(ports: IngestPorts) -> Stage:
    """The stage: situated in; embedded out, the version's end."""

    async def run(event: Stored[Payload], _attempt: int) -> Commands:
        payload = event.event.payload
        if not isinstance(payload, file.FileSituated) or not await expected(
            ports, event, payload, "situated"
        ):
            return []
        started = ports.seconds()
        profile = await ports.profile(payload.profile)
        if not uses(profile, ports.embedder.identity):
            error = DocumentError(
                "embedder_mismatch",
                "the profile's vectors come from another embedder than the one that runs; "
                "start with that embedder, or ingest with reingest",
            )
            return [settle(event, payload, "embed", at="situated", payload=failed(payload, "embed", error))]
        owner = owner_of(event.event.aggregate)
        chunks = await asyncio.to_thread(decode_chunks, await ports.blobs.get(owner, payload.chunks))
        blurbs = decode_blurbs(await ports.blobs.get(owner, payload.blurbs))
        texts = [contextualize(each.content, blurb) for each, blurb in zip(chunks, blurbs, strict=True)]
        address, calls = await _embed(ports, owner, payload, texts)
        embedded = file.FileEmbedded(
            version=payload.version,
            profile=payload.profile,
            run=payload.run,
            chunked_seq=payload.chunked_seq,
            chunks=payload.chunks,
            blurbs=payload.blurbs,
            vectors=address,
            n_chunks=len(chunks),
            extractions=dict(Counter(each.extraction for each in chunks)),
            dim=profile.dim,
            calls=calls,
            seconds=round(ports.seconds() - started, 6),
            reused=calls == 0,
            private=payload.private,
        )
        return [settle(event, payload, "embed", at="situated", payload=embedded)]

    return Stage("embed", ("lore.rag.file.*.situated",), run, parallelism=8)


async def _embed(
    ports: IngestPorts, owner: str, payload: file.FileSituated, texts: Sequence[str]
) -> tuple[str, int]:
    """(The blob of the `(len(texts), dim)` unit vectors, model calls made)."""
    identity = ports.embedder.identity
    model = [identity.backend, identity.name, identity.fingerprint]
    digests = [content_hash_of(text.encode("utf-8", "surrogatepass")) for text in texts]
    calls = 0

    async def make() -> bytes:
        nonlocal calls
        parts: list[bytes] = []
        for start in range(0, len(texts), EMBED_BATCH):
            batch = slice(start, start + EMBED_BATCH)
            part, called = await _embed_batch(ports, owner, payload, texts[batch], [model, digests[batch]])
            parts.append(part)
            calls += called
            await _tick(ports, payload, min(start + EMBED_BATCH, len(texts)), len(texts))
        return b"".join(parts)

    inputs = {"model": model, "texts": digests}
    made = await ports.recordings.once(owner, "embed", inputs=inputs, make=make, force=payload.force)
    return made.address, calls


async def _embed_batch(
    ports: IngestPorts, owner: str, payload: file.FileSituated, texts: Sequence[str], inputs: list[Any]
) -> tuple[bytes, bool]:
    """(The vectors of a batch as bytes, whether the model was called).

    A batch of several is a recording of its own: a crash in the middle of a long document repeats none
    that was made. A single batch is what the stage records anyway.
    """

    async def make() -> bytes:
        return encode_matrix(await ports.embedder.embed_passages(list(texts)))

    if payload.n_chunks <= EMBED_BATCH:
        return await make(), True
    made = await ports.recordings.once(
        owner, "embed.batch", inputs={"batch": inputs}, make=make, force=payload.force, lasting=False
    )
    return made.data, not made.reused


async def _tick(ports: IngestPorts, payload: file.FileSituated, done: int, total: int) -> None:
    frame = {"stage": "embed", "file": payload.private.relative_path, "current": done, "total": total}
    await ports.live.publish(f"run.{payload.run}", frame)
