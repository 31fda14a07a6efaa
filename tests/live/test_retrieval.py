"""Retrieval on the real views: what each method finds, and the story each passage tells of its rank."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from loreline.cli.attach import Attached
from loreline.events.folds.corpus import CORPUS
from loreline.processors.models import EmbedderSettings
from loreline.schemas.ids import RAG_CORPUS
from loreline.schemas.records import RetrievedChunk
from tests.stack import ingest, stack_at

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES: dict[str, str | bytes] = {
    "harbour.md": "# Harbour\n\nThe lighthouse of Varn is 41 metres tall.\n\nIt was built in 1883.\n",
    "ferry.txt": "The last ferry to Osmund leaves at 18:20. Dogs travel free of charge.\n",
    "code.md": "# Settings\n\nCall `parseFerryTimetable(retry_after_s=30)` of harbour.timetable::Reader.\n",
    "errors.txt": "Error ERR_TIDE_0417 means that the tide gauge at pier B-12 is stuck.\n",
    "灯台.txt": "港の灯台は四十一メートルの高さです。犬は無料で乗船できます。\n",
    "маяк.txt": "Высота маяка в гавани составляет сорок один метр. Паром уходит вечером.\n",
    "phare.txt": "Le phare mesure quarante et un mètres; la dernière traversée part à 18 h 20.\n",
    **{f"noise{n}.txt": f"Report {n} on nets, ropes and anchors of boat number {n}.\n" for n in range(30)},
}
METHODS = ("semantic", "bm25", "hybrid")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("retrieval")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(root: Path) -> AsyncIterator[Attached]:
    async with stack_at(root, files=FILES) as (_, client):
        run = await ingest(client)
        assert run["state"] == "completed"
        yield client


async def ask(client: Attached, question: str, method: str, *, top_k: int = 5) -> dict[str, Any]:
    """The retrieval frame of a turn, or its error."""
    body = {"query": question, "overrides": {"retrieval_method": method, "top_k": top_k}}
    seen: dict[str, Any] = {}
    async for sent in client.stream("POST", "/api/chat", body):
        if sent.event in {"retrieval", "error"}:
            seen[sent.event] = sent.data
    frame: dict[str, Any] = seen.get("error") or seen["retrieval"]
    return frame


def passages(frame: dict[str, Any]) -> list[RetrievedChunk]:
    return [RetrievedChunk.model_validate(each) for each in frame["chunks"]]


@pytest.mark.parametrize("method", METHODS)
async def test_traces_are_complete_and_ranks_begin_at_one(client: Attached, method: str) -> None:
    frame = await ask(client, "How tall is the lighthouse of Varn?", method)
    found = passages(frame)
    assert found[0].metadata.relative_path == "harbour.md"
    assert frame["method"] == method
    assert (frame["passages_seq"] > 0, frame["lexical_seq"] > 0) == (method != "bm25", method != "semantic")
    for rank, passage in enumerate(found, start=1):
        trace = passage.trace
        assert trace is not None
        assert (trace.final_rank, trace.fused_rank) == (rank, rank)
        assert passage.score == trace.fused_score
        semantic, words = trace.semantic_rank is not None, trace.bm25_rank is not None
        assert semantic == (trace.semantic_score is not None)
        assert words == (trace.bm25_score is not None)
        if method == "hybrid":
            assert semantic or words
        else:
            assert (semantic, words) == (method == "semantic", method == "bm25")
            assert passage.score == (trace.semantic_score if semantic else trace.bm25_score)
            assert (trace.semantic_rank or trace.bm25_rank) == rank
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True)
    if method == "semantic":
        assert all(-1 <= score <= 1 for score in scores)


async def test_a_passage_carries_the_whole_record_of_its_chunk(client: Attached, root: Path) -> None:
    (first, *_) = passages(await ask(client, "How tall is the lighthouse of Varn?", "hybrid"))
    record = first.metadata
    assert (record.file_name, record.file_type, record.heading_path) == ("harbour.md", "md", "Harbour")
    assert record.source == str(root / "docs" / "harbour.md")
    assert (record.chunk_size, record.chunk_overlap) == (1200, 150)
    assert record.embedding_model == "hash-384"
    assert first.content == record.content
    assert record.contextualized_content == f"{record.context}\n\n{record.content}"
    assert record.chunk_id == f"{record.doc_id}::{record.chunk_index}" == first.chunk_id
    assert record.original_index >> 20 > 0


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("ERR_TIDE_0417", "errors.txt"),
        ("what does err_tide_0417 mean", "errors.txt"),
        ("parseFerryTimetable", "code.md"),
        ("parse ferry timetable", "code.md"),
        ("retry_after_s", "code.md"),
        ("pier B-12", "errors.txt"),
        ("灯台の高さ", "灯台.txt"),
        ("犬は無料", "灯台.txt"),
        ("высота маяка", "маяк.txt"),
        ("ПАРОМ вечером", "маяк.txt"),
        ("dernière traversée", "phare.txt"),
    ],
)
@pytest.mark.parametrize("method", ["bm25", "hybrid"])
async def test_identifiers_and_other_scripts_are_found(
    client: Attached, question: str, name: str, method: str
) -> None:
    found = [each.metadata.relative_path for each in passages(await ask(client, question, method))]
    assert found[0] == name or (method == "hybrid" and found[1] == name)  # hash vectors are of little help


async def test_a_question_without_a_word_has_no_hits_by_words_and_no_error(client: Attached) -> None:
    assert passages(await ask(client, "??? !!!", "bm25")) == []
    assert "chunks" in await ask(client, "??? !!!", "hybrid")


async def test_vectors_of_another_model_are_refused_and_words_still_answer(tmp_path: Path) -> None:
    few = {"harbour.md": FILES["harbour.md"]}
    async with stack_at(tmp_path, files=few) as (_, client):
        await ingest(client)
    async with stack_at(tmp_path, embedder=EmbedderSettings(backend="hash", dim=64)) as (_, client):
        for method in ("semantic", "hybrid"):
            assert (await ask(client, "How tall?", method))["code"] == "embedder_mismatch"
        found = passages(await ask(client, "lighthouse of Varn", "bm25"))
        assert found[0].metadata.relative_path == "harbour.md"
        run = await ingest(client)
        assert run["state"] == "failed"
        run = await ingest(client, reingest=True)
        assert run["state"] == "completed"
        for method in METHODS:
            found = passages(await ask(client, "lighthouse of Varn", method))
            assert found[0].metadata.embedding_model == "hash-64"


async def test_a_thousand_nearly_equal_chunks_hide_nothing_from_the_semantic_arm(tmp_path: Path) -> None:
    filler = "lorem ipsum dolor sit amet " * 60_000
    files = {"huge.txt": filler, "share.md": "# Shares\n\nA share costs 60 pounds and is paid once."}
    async with stack_at(tmp_path, files=files) as (stack, client):
        await ingest(client)
        profile = (await stack.core.appender.state(RAG_CORPUS, CORPUS)).active or ""
        vector = await stack.models.embedder.embed_query("A share costs 60 pounds and is paid once.")
        hits, _ = await stack.views.passages.nearest(profile, vector, top_k=5)
        records = await stack.views.passages.records(profile, [hits[0].original_index])
        assert records[hits[0].original_index].relative_path == "share.md"
        (huge,) = [each for each in await client.get("/api/documents") if each["file_name"] == "huge.txt"]
        assert (await client.http.delete(f"/api/documents/{huge['doc_id']}")).status_code == 200
        hits, _ = await stack.views.passages.nearest(profile, vector, top_k=5)
        assert len(hits) == 1
