"""Rates of the embedded lexical index on made-up text, and recall on a judged set if one is given.

    python benchmarks/lexical.py [--chunks 20000] [--judged FOLDER]

A judged folder holds corpus.jsonl and queries*.jsonl (_id, text), and qrels*.tsv (query, chunk, score).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from loreline.projectors.lexical import AddDocument, LexicalChunk, LexicalSearcher, LexicalStore

BATCH_DOCUMENTS = 100
DOCUMENT_CHUNKS = 20


def made_up_documents(n_chunks: int, words_per_chunk: int = 200) -> list[AddDocument]:
    rng = random.Random(7)
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er")]
    vocabulary = ["".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(50_000)]
    weights = [1 / (rank + 10) for rank in range(len(vocabulary))]
    documents = []
    for d in range(n_chunks // DOCUMENT_CHUNKS):
        chunks = []
        for c in range(DOCUMENT_CHUNKS):
            text = " ".join(rng.choices(vocabulary, weights, k=words_per_chunk))
            chunks.append(
                LexicalChunk(f"{d:08x}-{c}", d << 20 | c, text, f"From file {d}, part {c}.\n\n{text}")
            )
        documents.append(AddDocument(f"f{d}", f"d{d}", d + 1, chunks))
    return documents


def fill(path: Path, documents: list[AddDocument]) -> float:
    store = LexicalStore.open(path)
    started = time.perf_counter()
    for first in range(0, len(documents), BATCH_DOCUMENTS):
        batch = documents[first : first + BATCH_DOCUMENTS]
        store.apply(batch, old_seq=batch[0].seq - 1, new_seq=batch[-1].seq, event_id="e")
    spent_s = time.perf_counter() - started
    store.close()
    return spent_s


def rates(folder: Path, n_chunks: int) -> None:
    documents = made_up_documents(n_chunks)
    path = folder / "rates.sqlite3"
    spent_s = fill(path, documents)
    print(f"index: {n_chunks / spent_s:,.0f} chunks/s; file {path.stat().st_size / 1e6:.0f} MB")
    searcher = LexicalSearcher(path)
    started = time.perf_counter()
    searcher.search("warm", top_k=1)
    print(f"open at {n_chunks} chunks: {time.perf_counter() - started:.2f} s")
    rng = random.Random(8)
    queries = [" ".join(rng.sample(rng.choice(documents).chunks[0].content.split(), 8)) for _ in range(200)]
    spent = []
    for query in queries:
        started = time.perf_counter()
        searcher.search(query, top_k=20)
        spent.append(1000 * (time.perf_counter() - started))
    spent.sort()
    print(f"search, 8 words: p50 {statistics.median(spent):.2f} ms, p95 {spent[190]:.2f} ms")
    started = time.perf_counter()
    searcher.search(queries[0], top_k=20, as_of_seq=len(documents) // 2)
    print(f"search as of the middle: {1000 * (time.perf_counter() - started):.0f} ms")
    follow(path, searcher, len(documents))


def follow(path: Path, searcher: LexicalSearcher, seq: int) -> None:
    store = LexicalStore.open(path)
    extra = made_up_documents(40 * DOCUMENT_CHUNKS)
    applied, searched = [], []
    for i, document in enumerate(extra):
        chunks = [
            LexicalChunk(f"x{c.chunk_id}", c.original_index, c.content, c.content) for c in document.chunks
        ]
        change = AddDocument(f"x{i}", f"x{i}", seq + i + 1, chunks)
        started = time.perf_counter()
        store.apply([change], old_seq=seq + i, new_seq=seq + i + 1, event_id="e")
        applied.append(1000 * (time.perf_counter() - started))
        started = time.perf_counter()
        searcher.search("taken", top_k=1)
        searched.append(1000 * (time.perf_counter() - started))
    print(
        f"one document of {DOCUMENT_CHUNKS} chunks: apply p50 {statistics.median(applied):.1f} ms; "
        f"the search that takes it in p50 {statistics.median(searched):.1f} ms, worst {max(searched):.0f} ms"
    )


def recall(folder: Path, judged: Path) -> None:
    def lines(pattern: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in next(judged.glob(pattern)).read_text("utf-8").splitlines()]

    chunks = [
        LexicalChunk(row["_id"], i, row["text"], row["text"]) for i, row in enumerate(lines("corpus.jsonl"))
    ]
    store = LexicalStore.open(folder / "judged.sqlite3")
    store.apply([AddDocument("f", "d", 1, chunks)], old_seq=0, new_seq=1, event_id="e")
    store.close()
    wanted: dict[str, set[str]] = {}
    for line in next(judged.glob("qrels*.tsv")).read_text("utf-8").splitlines()[1:]:
        query, chunk, score = line.split("\t")
        if int(score) > 0:
            wanted.setdefault(query, set()).add(chunk)
    searcher = LexicalSearcher(folder / "judged.sqlite3")
    found = {
        row["_id"]: [hit.chunk_id for hit in searcher.search(row["text"], top_k=20).hits]
        for row in lines("queries*.jsonl")
        if row["_id"] in wanted
    }
    for top_k in (5, 10, 20):
        shares = [len(wanted[q] & set(ids[:top_k])) / len(wanted[q]) for q, ids in found.items()]
        print(f"recall@{top_k}: {statistics.fmean(shares):.3f} ({len(shares)} questions)")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--chunks", type=int, default=20_000)
    arguments.add_argument("--judged", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.judged is not None:
            recall(Path(folder), options.judged)
        rates(Path(folder), options.chunks)


if __name__ == "__main__":
    main()
