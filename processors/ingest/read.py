"""Parse and chunk: from a file's bytes to its text, and from its text to exact pieces."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath

from loreline.events.envelope import Stored
from loreline.processors.ingest.ports import IngestPorts
from loreline.processors.ingest.settle import StageEvent, advance, expected, failed, settle
from loreline.processors.stage import Commands, Stage
from loreline.projectors.materialize import decode_chunks, encode_chunks
from loreline.schemas.errors import DocumentError
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import owner_of
from loreline.schemas.records import ParsedDocument

PARSE_CODE = "parse-1"
"""Raised when a reader gives other text for the same bytes; it is in refs' keys only."""
CHUNK_CODE = "chunk-1"


class _NoText(Exception):
    """The reader found nothing to read."""


def parse(ports: IngestPorts) -> Stage:
    """The stage: discovered in; parsed, no_text or failed out."""

    async def run(event: Stored[Payload], _attempt: int) -> Commands:
        payload = event.event.payload
        if not isinstance(payload, file.FileDiscovered) or not await expected(
            ports, event, payload, "discovered"
        ):
            return []
        started = ports.seconds()
        suffix = PurePosixPath(payload.private.relative_path).suffix.lower()
        owner = owner_of(event.event.aggregate)

        async def make() -> bytes:
            document = await ports.read(await ports.blobs.get(owner, payload.source), suffix=suffix)
            if not document.text.strip():
                raise _NoText
            return (await asyncio.to_thread(document.model_dump_json)).encode()

        inputs = {"source": payload.source, "suffix": suffix, "code": PARSE_CODE}
        try:
            made = await ports.recordings.once(owner, "parse", inputs=inputs, make=make, force=payload.force)
        except _NoText:
            return [settle(event, payload, "parse", at="discovered", payload=_no_text(payload))]
        except DocumentError as error:
            return [settle(event, payload, "parse", at="discovered", payload=failed(payload, "parse", error))]
        document = await asyncio.to_thread(ParsedDocument.model_validate_json, made.data)
        parsed = file.FileParsed(
            version=payload.version,
            profile=payload.profile,
            run=payload.run,
            parsed=made.address,
            n_chars=len(document.text),
            n_pages=document.page_count,
            seconds=round(ports.seconds() - started, 6),
            reused=made.reused,
            force=payload.force,
            private=payload.private,
        )
        return [advance(event, payload, "parse", at="discovered", payload=parsed)]

    return Stage("parse", ("lore.rag.file.*.discovered",), run, parallelism=8)


def chunk(ports: IngestPorts) -> Stage:
    """The stage: parsed in; chunked out."""

    async def run(event: Stored[Payload], _attempt: int) -> Commands:
        payload = event.event.payload
        if not isinstance(payload, file.FileParsed) or not await expected(ports, event, payload, "parsed"):
            return []
        started = ports.seconds()
        profile = await ports.profile(payload.profile)
        owner = owner_of(event.event.aggregate)
        sizes = {
            "strategy": profile.settings["CHUNKING_STRATEGY"],
            "size": profile.settings["CHUNK_SIZE"],
            "overlap": profile.settings["CHUNK_OVERLAP"],
        }

        async def make() -> bytes:
            return await _cut(ports, await ports.blobs.get(owner, payload.parsed), sizes)

        inputs = {"parsed": payload.parsed, "code": CHUNK_CODE, **sizes}
        made = await ports.recordings.once(owner, "chunk", inputs=inputs, make=make, force=payload.force)
        chunks = await asyncio.to_thread(decode_chunks, made.data)
        if not chunks:
            return [settle(event, payload, "chunk", at="parsed", payload=_no_text(payload))]
        chunked = file.FileChunked(
            version=payload.version,
            profile=payload.profile,
            run=payload.run,
            parsed=payload.parsed,
            chunks=made.address,
            n_chunks=len(chunks),
            n_tokens=sum(each.n_tokens for each in chunks),
            seconds=round(ports.seconds() - started, 6),
            reused=made.reused,
            force=payload.force,
            private=payload.private,
        )
        return [advance(event, payload, "chunk", at="parsed", payload=chunked)]

    return Stage("chunk", ("lore.rag.file.*.parsed",), run, parallelism=8)


async def _cut(ports: IngestPorts, parsed: bytes, sizes: dict[str, str]) -> bytes:
    """The document's chunks, cut in a thread so that a long text holds nobody up."""

    def cut() -> bytes:
        chunker = ports.chunkers[sizes["strategy"]]
        chunks = chunker(
            ParsedDocument.model_validate_json(parsed),
            chunk_size=int(sizes["size"]),
            chunk_overlap=int(sizes["overlap"]),
            count_tokens=ports.count_tokens,
        )
        return encode_chunks(chunks)

    return await asyncio.to_thread(cut)


def _no_text(payload: StageEvent) -> file.FileNoText:
    return file.FileNoText(
        version=payload.version, profile=payload.profile, run=payload.run, private=payload.private
    )
