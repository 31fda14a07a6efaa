"""The ingest on the real stack: what a changed setting, a crash and a stop in the middle cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from loreline.cli.attach import Attached, EdgeRefused
from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.app import SETTINGS_FOLD, Overrides
from loreline.events.folds.corpus import CORPUS
from loreline.processors.models import EmbedderSettings
from loreline.schemas.events import file
from loreline.schemas.events.app import SettingsChanged, SettingValues
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import RAG_CORPUS, SETTINGS
from loreline.schemas.settings import resolve
from loreline.wiring.hooks import Hooks
from loreline.wiring.stack import Stack
from tests.stack import ingest, stack_at
from tests.world import Failing

PARAGRAPHS = [
    f"Berth {n} of Varn harbour takes ships of {n * 10} metres and costs {n} coins." for n in range(40)
]
FILES: dict[str, str | bytes] = {
    "berths.txt": "\n\n".join(PARAGRAPHS),
    "ferry.md": "# Ferry\n\nThe last ferry to Osmund leaves at 18:20.\n",
}


async def change(stack: Stack, **values: str) -> None:
    """Change settings through the log, as the edge will."""

    def decide(state: Overrides) -> Sequence[Payload]:
        resolve({}, {**state, **values})
        return [SettingsChanged(names=tuple(values), private=SettingValues(set=values))]

    await stack.core.appender.execute(Command(SETTINGS, SETTINGS_FOLD, uuid4(), decide, actor="user"))


async def events_of(stack: Stack, *kinds: type[Payload]) -> list[Stored[Payload]]:
    last_seq = (await stack.core.log.info()).last_seq
    wires = [await stack.core.log.get(seq) for seq in range(1, last_seq + 1)]
    stored = [stack.core.codec.decode(wire) for wire in wires if wire is not None]
    return [each for each in stored if isinstance(each.event.payload, kinds)]


async def chunk_sizes(client: Attached) -> set[int]:
    """The chunk sizes of what a question finds now."""
    sizes: set[int] = set()
    async for sent in client.stream("POST", "/api/chat", {"query": "How long are the ships of berth 7?"}):
        if sent.event == "retrieval":
            sizes = {each["metadata"]["chunk_size"] for each in sent.data["chunks"]}
        assert sent.event != "error", sent.data
    return sizes


async def test_a_changed_chunk_size_reparses_nothing_and_answers_once_it_is_filled(tmp_path: Path) -> None:
    async with stack_at(tmp_path, files=FILES) as (stack, client):
        await ingest(client)
        first = (await stack.core.appender.state(RAG_CORPUS, CORPUS)).active
        assert await chunk_sizes(client) == {1200}
        await change(stack, CHUNK_SIZE="300", CHUNK_OVERLAP="30")
        again: Any = (await ingest(client))["summary"]
        assert (again["ingested"], again["skipped"]) == (0, 2)
        asking = asyncio.create_task(_ask_until_changed(client))
        anew: Any = (await ingest(client, reingest=True))["summary"]
        assert anew["ingested"] == 2
        seen = await asking
        assert {1200} in seen  # the old profile answered while the new one was filled
        assert all(sizes in ({1200}, {300}) for sizes in seen)
        assert (await stack.core.appender.state(RAG_CORPUS, CORPUS)).active != first
        parsed = [each.event.payload for each in await events_of(stack, file.FileParsed)]
        assert [each.reused for each in parsed if isinstance(each, file.FileParsed)] == [
            False,
            False,
            True,
            True,
        ]
    async with stack_at(tmp_path) as (_, client):
        assert await chunk_sizes(client) == {300}


async def _ask_until_changed(client: Attached) -> list[set[int]]:
    seen = [await chunk_sizes(client)]
    while seen[-1] != {300}:
        seen.append(await chunk_sizes(client))
    return seen


async def test_a_failure_after_any_blob_repeats_no_model_call_that_was_recorded(tmp_path: Path) -> None:
    """Puts: source, plan, parsed, chunks, blurbs, all vectors; the last fails, its batches are recorded."""
    hooks = Hooks(after_blob=Failing(frozenset({6})))
    long = "\n\n".join(f"Harbour {n} has {n * 7} boats and {n * 3} berths for visitors." for n in range(600))
    async with stack_at(tmp_path, files={"ferry.md": long}, hooks=hooks) as (stack, client):
        run = await ingest(client)
        assert run["state"] == "completed"
        (ended,) = await events_of(stack, file.FileEmbedded)
        assert isinstance(ended.event.payload, file.FileEmbedded)
        assert ended.event.payload.calls == 0  # made at the delivery before, which got no further


async def test_one_operation_at_a_time_holds_the_corpus(tmp_path: Path) -> None:
    async with stack_at(tmp_path, files=FILES) as (_, client):
        asked = await asyncio.gather(
            *(client.post("/api/ingest", {}) for _ in range(4)), return_exceptions=True
        )
        refused = [each for each in asked if isinstance(each, EdgeRefused)]
        assert len(refused) == 3
        assert all("ingest_already_running" in str(each) for each in refused)
        async for _ in client.stream("GET", "/api/ingest/status"):
            pass
        assert (await ingest(client))["state"] == "completed"


async def test_a_stop_in_the_middle_of_a_run_is_made_good_by_the_next_start(tmp_path: Path) -> None:
    many = {f"f{n:02}.txt": f"File {n} speaks of word{n}." for n in range(60)}
    async with stack_at(tmp_path, files=many) as (stack, client):
        await client.post("/api/ingest", {})
        async with asyncio.timeout(60):
            while not await events_of(stack, file.FileEmbedded):
                await asyncio.sleep(0.01)
    async with stack_at(tmp_path) as (stack, client):
        run: dict[str, Any] = {}
        async for sent in client.stream("GET", "/api/ingest/status"):
            if sent.event == "status":
                run = sent.data["run"]
        assert run["state"] == "completed"
        assert (run["summary"]["ingested"], run["summary"]["chunks"]) == (60, 60)
        embedded = await events_of(stack, file.FileEmbedded)
        assert len({each.event.aggregate for each in embedded}) == len(embedded) == 60
        assert len(await client.get("/api/documents")) == 60
        for view in ("passages", "lexical", "documents", "operations"):
            assert (await client.post(f"/api/views/{view}/verify"))["equal"], view


async def test_another_embedder_on_a_corpus_that_holds_nothing_is_simply_used(tmp_path: Path) -> None:
    async with stack_at(tmp_path):
        pass
    other = EmbedderSettings(backend="hash", dim=128)
    async with stack_at(tmp_path, files=FILES, embedder=other) as (stack, client):
        run = await ingest(client)
        assert run["state"] == "completed"
        assert stack.models.embedder.dim == 128
        assert await client.get("/api/documents")
