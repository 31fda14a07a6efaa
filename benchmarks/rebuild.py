"""Rebuilding every view from the log, beside the bare work it consists of."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

from psycopg import sql

from benchmarks.corpus import write_corpus
from benchmarks.measured import Measured
from benchmarks.stage import ingest, stack_on
from loreline.processors.models.settings import EmbedderBackend
from loreline.projectors.database import schema_of
from loreline.wiring.stack import Stack


async def rebuild(root: Path, backend: EmbedderBackend, *, n_files: int, n_words: int) -> list[Measured]:
    """All views anew: against reading, COPY and CREATE INDEX of the same rows, and against the ingest."""
    write_corpus(root / "docs", n_files=n_files, n_words=n_words, seed=7)
    async with stack_on(root, backend) as (stack, client):
        started = time.perf_counter()
        await ingest(client)
        ingest_s = time.perf_counter() - started
        bare_s, n_rows = await _bare(stack)
        started = time.perf_counter()
        await asyncio.gather(*(stack.host.rebuild(name) for name in stack.host.runners))
        rebuild_s = time.perf_counter() - started
    last = f"{n_files} files, {n_rows} chunks; rebuild of all views {rebuild_s:.2f} s"
    if backend == "hash":
        detail = f"{last}; bare reader + COPY + CREATE INDEX {bare_s:.2f} s"
        name = "bare reader + COPY + CREATE INDEX / rebuild of all views"
        return [Measured(name, bare_s / rebuild_s, "x", 0.5, at_least=True, detail=detail)]
    detail = f"{last}; ingest {ingest_s:.1f} s"
    name = "ingest with the bundled embedder / rebuild of all views"
    return [Measured(name, ingest_s / rebuild_s, "x", 20, at_least=True, detail=detail)]


async def _bare(stack: Stack) -> tuple[float, int]:
    """(Seconds to read the raw log, copy the passages' rows, and index them; how many rows)."""
    (table,) = await stack.views.database.fetch(
        "SELECT table_schema AS s, table_name AS t FROM information_schema.tables"
        " WHERE table_name LIKE 'chunks_%%' AND table_schema = %s",
        (schema_of("passages", 1),),
    )
    source = sql.Identifier(table["s"], table["t"])
    async with stack.views.database.connection() as connection:
        await connection.execute("DROP TABLE IF EXISTS bare")
        await connection.execute(sql.SQL("CREATE UNLOGGED TABLE bare (LIKE {})").format(source))
        outward = sql.SQL("COPY {} TO STDOUT (FORMAT BINARY)").format(source)
        async with connection.cursor() as cursor, cursor.copy(outward) as copy:
            dump = [bytes(block) async for block in copy]
        started = time.perf_counter()
        last = (await stack.core.log.info()).last_seq
        async with aclosing(stack.core.log.follow(after_seq=0)) as batches:
            async for batch in batches:
                if batch and batch[-1].seq >= last:
                    break
        inward = "COPY bare FROM STDIN (FORMAT BINARY)"
        async with connection.cursor() as cursor, cursor.copy(inward) as copy:
            for block in dump:
                await copy.write(block)
        await connection.execute("SET maintenance_work_mem = '512MB'")
        await connection.execute("CREATE INDEX ON bare USING hnsw (embedding vector_cosine_ops)")
        seconds = time.perf_counter() - started
        cursor = await connection.execute("SELECT count(*) AS n FROM bare")
        row = await cursor.fetchone()
        await connection.execute("DROP TABLE bare")
    return seconds, int(row["n"]) if row else 0
