"""What the log costs a file: the pipeline beside the same stages called as plain functions."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.corpus import write_corpus
from benchmarks.measured import Measured, fdatasync_ms
from benchmarks.stage import counting, ingest, stack_on
from loreline.processors.chunkers import CHUNKERS
from loreline.processors.chunkers.tokens import cl100k_counter
from loreline.processors.ingest.blurbs import structural_blurbs
from loreline.processors.models import EmbedderSettings, open_embedder
from loreline.processors.models.settings import EmbedderBackend
from loreline.processors.parsers.isolation import Reader
from loreline.projectors.materialize import contextualize

SETTLE_S = 1.0


async def plain_s(docs: Path, backend: EmbedderBackend) -> float:
    """Seconds to read, cut, situate and embed every file, one after the other, nothing kept."""
    embedder, reader, count = open_embedder(EmbedderSettings(backend=backend)), Reader(1), cl100k_counter()
    await embedder.start()
    await embedder.embed_passages(["warm"])
    await reader.read(b"warm", suffix=".txt")
    started = time.perf_counter()
    try:
        for path in sorted(docs.iterdir()):
            document = await reader.read(path.read_bytes(), suffix=path.suffix)
            chunks = CHUNKERS["recursive_character"](
                document, chunk_size=1200, chunk_overlap=150, count_tokens=count
            )
            blurbs = structural_blurbs(chunks, path=path.name, title=document.title)
            texts = [contextualize(each.content, blurb) for each, blurb in zip(chunks, blurbs, strict=True)]
            for start in range(0, len(texts), 16):
                await embedder.embed_passages(texts[start : start + 16])
        return time.perf_counter() - started
    finally:
        await reader.close()
        await embedder.close()


async def overhead(root: Path, backend: EmbedderBackend, *, n_files: int) -> list[Measured]:
    """The log's price a file, in milliseconds and as a ratio."""
    docs, plain_docs = root / "docs", root / "plain"
    write_corpus(plain_docs, n_files=n_files, n_words=150, seed=11)
    plain = await plain_s(plain_docs, backend)
    write_corpus(docs, n_files=5, n_words=150, seed=12)
    sync_ms = fdatasync_ms(root)
    async with stack_on(root, backend) as (_, client):
        await ingest(client)  # five files: whatever starts with the first has started
        write_corpus(docs, n_files=n_files, n_words=150, seed=11)
        await asyncio.sleep(SETTLE_S)
        with counting() as writes:
            started = time.perf_counter()
            await ingest(client)
            whole = time.perf_counter() - started
    a_file = (whole - plain) / n_files * 1000
    fsyncs = writes.fsyncs / n_files
    detail = (
        f"{n_files} files of 150 words; {whole / n_files * 1000:.1f} ms a file with the log, "
        f"{plain / n_files * 1000:.1f} ms plain; {fsyncs:.1f} fsyncs a file "
        f"({writes.appends / n_files:.1f} appends of {writes.events / n_files:.1f} events); "
        f"fdatasync {sync_ms:.2f} ms"
    )
    bound = 1.5 * fsyncs * sync_ms + 10
    if backend == "hash":
        return [Measured("log overhead a file, null embedder", a_file, "ms", bound, detail=detail)]
    return [
        Measured("ingest with the log / plain, bundled embedder", whole / plain, "x", 1.25, detail=detail)
    ]
