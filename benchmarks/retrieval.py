"""Hybrid retrieval, warm, beside the three calls it consists of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from psycopg import sql

from benchmarks.corpus import paragraphs, vocabulary, write_corpus
from benchmarks.measured import Measured
from benchmarks.stage import ingest, stack_on
from loreline.events.folds.corpus import CORPUS
from loreline.processors.models.settings import EmbedderBackend
from loreline.processors.retrieval import RETRIEVERS
from loreline.processors.retrieval.search import MIN_DEPTH, Sources, retrieve
from loreline.projectors.chunk_tables import table_of
from loreline.projectors.database import Connection
from loreline.schemas.ids import RAG_CORPUS
from loreline.schemas.ports import Vectors

N_QUERIES = 60


async def hybrid(root: Path, backend: EmbedderBackend, *, n_files: int, n_words: int) -> list[Measured]:
    """Milliseconds of one hybrid retrieval over the sum of its bare parts, medians of the same queries."""
    write_corpus(root / "docs", n_files=n_files, n_words=n_words, seed=3)
    words = vocabulary(5000, seed=3)
    queries = [next(iter(paragraphs(8, seed=900 + index, words=words))) for index in range(N_QUERIES)]
    async with stack_on(root, backend) as (stack, client):
        await ingest(client)
        profile = (await stack.core.appender.state(RAG_CORPUS, CORPUS)).active or ""
        embedder, views = stack.models.embedder, stack.views
        sources = Sources(views.passages, views.lexical, embedder)
        settings = (await stack.core.settings()).retrieval
        vectors = {text: await embedder.embed_query(text) for text in queries}

        async def whole(text: str) -> object:
            return await retrieve(
                text,
                method="hybrid",
                profile=profile,
                top_k=10,
                sources=sources,
                settings=settings,
                retrievers=RETRIEVERS,
            )

        table = sql.Identifier("passages_v1", table_of(profile))
        async with views.database.connection() as connection:
            parts: dict[str, Callable[[str], Awaitable[object]]] = {
                "embed": embedder.embed_query,
                "SQL": lambda text: _bare_sql(connection, table, vectors[text]),
                "BM25": lambda text: views.lexical.search(profile, text, top_k=MIN_DEPTH),
            }
            taken = {name: await _median_ms(call, queries) for name, call in parts.items()}
        whole_ms = await _median_ms(whole, queries)
        n_chunks = await views.passages.count(profile)
    bare_ms = sum(taken.values())
    detail = f"{n_chunks} chunks; hybrid {whole_ms:.1f} ms; " + ", ".join(
        f"{name} {value:.1f} ms" for name, value in taken.items()
    )
    return [
        Measured(f"hybrid / (embed + SQL + BM25), {backend}", whole_ms / bare_ms, "x", 1.5, detail=detail)
    ]


async def _bare_sql(connection: Connection, table: sql.Identifier, vector: Vectors) -> object:
    """The two statements retrieval consists of: the nearest chunks, and the ten that are returned."""
    nearest = sql.SQL(
        "SELECT chunk_id, original_index, 1 - (embedding <=> %(v)s) AS score FROM {} WHERE to_seq IS NULL"
        " ORDER BY (embedding <=> %(v)s) + 0 LIMIT {}"  # as the product asks a corpus of this size
    ).format(table, sql.Literal(MIN_DEPTH))
    found = await (await connection.execute(nearest, {"v": vector})).fetchall()
    numbers = [row["original_index"] for row in found[:10]]
    rows = sql.SQL("SELECT content, context, metadata FROM {} WHERE original_index = ANY(%s)").format(table)
    return await (await connection.execute(rows, (numbers,))).fetchall()


async def _median_ms(call: Callable[[str], Awaitable[object]], queries: list[str]) -> float:
    taken = []
    for text in [*queries[:10], *queries]:
        started = time.perf_counter()
        await call(text)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken[10:])
