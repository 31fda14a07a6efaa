"""Chat with a real language model in the stack: llama.cpp's server and a small model, by HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from loreline.cli.attach import Attached, Sent
from loreline.processors.models import LanguageModelSettings, RetryPolicy
from loreline.wiring.stack import Stack
from tests.servers.llm import LlmServer, missing_parts, smollm2_server
from tests.stack import ingest, stack_at

pytestmark = [
    pytest.mark.llm,
    pytest.mark.skipif(missing_parts() is not None, reason=f"language-model engine {missing_parts()}"),
]

FILES: dict[str, str | bytes] = {
    f"harbour-{number}.md": f"# Harbour {number}\n\nThe lighthouse of pier {number} has {number} lamps.\n"
    for number in range(1, 4)
}
TALE = "Write a very long story about a ferry and its captain, with every detail of every crossing."
QUESTION = "How many lamps has the lighthouse of pier 2? Write a long story about it."


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with smollm2_server(context_tokens=2048) as server:
        yield server


@asynccontextmanager
async def answering(
    root: Path, url: str, *, knobs: dict[str, str] | None = None, **changes: object
) -> AsyncIterator[tuple[Stack, Attached]]:
    """A stack whose answers a model at `url` writes, with the files taken in."""
    model = LanguageModelSettings(url=url, retry=RetryPolicy(attempts=1))
    changes = {
        "llm": model,
        "knobs": knobs or {},
        "llm_context_tokens": 2048,
        "llm_max_tokens": 700,
        **changes,
    }
    async with stack_at(root, files=FILES, hooks=None, **changes) as (stack, client):
        await ingest(client)
        yield stack, client


async def busy_slots(server: LlmServer) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        slots = (await client.get(f"{server.url}/slots")).json()
    return sum(slot["is_processing"] for slot in slots)


async def idle(server: LlmServer) -> None:
    async with asyncio.timeout(10):
        while await busy_slots(server):
            await asyncio.sleep(0.02)


async def logged(client: Attached, kind: str) -> list[dict[str, Any]]:
    """Every event of a type in the log so far."""
    path = "/api/events?after_seq=0&follow=false"
    return [sent.data["payload"] async for sent in client.stream("GET", path) if sent.data["type"] == kind]


async def until_logged(client: Attached, kind: str, *, count: int = 1) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while len(found := await logged(client, kind)) < count:
            await asyncio.sleep(0.05)
    return found[-1]


class Turn:
    """A question whose stream is read step by step."""

    def __init__(self, client: Attached, question: str = QUESTION) -> None:
        self.frames = client.stream("POST", "/api/chat", {"query": question})
        self.seen: list[Sent] = []

    async def until(self, *events: str) -> Any:
        """Read up to the first of these frames; its data."""
        async for sent in self.frames:
            self.seen.append(sent)
            if sent.event in events:
                return sent.data
        raise AssertionError(f"none of {events} came; these did: {[sent.event for sent in self.seen]}")

    async def leave(self) -> None:
        await self.frames.aclose()


async def test_an_answer_streams_with_readings_usage_and_checked_citations(
    tmp_path: Path, server: LlmServer
) -> None:
    async with answering(tmp_path, server.url, llm_max_tokens=120) as (_, client):
        turn = Turn(client)
        done = await turn.until("done", "error")
        events = [sent.event for sent in turn.seen]
        assert events[0] == "retrieval"
        assert events[-1] == "done"
        assert events.count("token") > 5
        assert "stats" in events
        readings = [sent.data for sent in turn.seen if sent.event == "stats"]
        assert all(reading["tokens_per_second"] > 0 for reading in readings)
        told = "".join(sent.data["delta"] for sent in turn.seen if sent.event == "token")
        assert told.strip() == done["answer"]
        assert done["answered_by"] == "llm"
        usage = done["usage"]
        assert 5 < usage["completion_tokens"] <= 120
        assert usage["prompt_tokens"] > 100
        assert usage["latency_ms"]["generation"] > 0
        marks = {chunk["trace"]["final_rank"] for chunk in turn.seen[0].data["chunks"]}
        assert {citation["mark"] for citation in done["citations"]} <= marks
        assert not set(done["dropped_marks"]) & marks
        detail = await client.get(f"/api/conversations/{done['conversation_id']}")
        assert detail["messages"][1]["content"] == done["answer"]


async def test_a_stopped_or_forsaken_turn_stops_the_engine_and_is_aborted_in_the_log(
    tmp_path: Path, server: LlmServer
) -> None:
    async with answering(tmp_path, server.url, knobs={"CHAT_ABANDON_S": "4"}) as (stack, client):
        stopped = Turn(client)
        await stopped.until("token")
        assert await busy_slots(server) == 1
        asked = (await logged(client, "conversation.turn_asked"))[-1]
        answer = await client.post(f"/api/chat/{asked['turn']}/abort")
        assert answer["aborted"] is True
        assert (await stopped.until("done", "error"))["code"] == "aborted"
        await idle(server)
        assert (await until_logged(client, "conversation.turn_aborted"))["cause"] == "asked"

        forsaken = Turn(client)
        await forsaken.until("token")
        await forsaken.leave()
        await until_logged(client, "conversation.turn_aborted", count=2)
        await idle(server)
        assert await logged(client, "conversation.turn_answered") == []
        assert await client.get("/api/conversations") == []
        assert not stack.failed.is_set()


async def test_a_model_killed_in_the_middle_fails_the_turn_and_its_return_is_noticed(
    tmp_path: Path,
) -> None:
    with smollm2_server(context_tokens=2048) as doomed:
        async with answering(tmp_path, doomed.url) as (_, client):
            turn = Turn(client)
            await turn.until("token")
            os.kill(doomed.pid, signal.SIGKILL)
            assert (await turn.until("done", "error"))["code"] == "llm_unreachable"
            failed = await until_logged(client, "conversation.turn_failed")
            assert failed["code"] == "llm_unreachable"
            health = await client.get("/api/health")
            assert health["services"]["llm"]["ok"] is False
            answer = await client.http.post("/api/chat", json={"query": QUESTION})
            assert answer.json()["error"]["code"] == "llm_unreachable"
            assert answer.status_code == 503


async def test_after_an_outage_the_next_question_is_answered(tmp_path: Path, server: LlmServer) -> None:
    down = asyncio.Event()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A wire to the engine that can be cut."""
        if down.is_set():
            writer.close()
            return
        there = httpx.URL(server.url)
        back, forth = await asyncio.open_connection(there.host, there.port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while not down.is_set() and (data := await source.read(4096)):
                sink.write(data)
                await sink.drain()
            sink.close()
            writer.close()

        await asyncio.gather(pump(reader, forth), pump(back, writer), return_exceptions=True)

    wire = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{wire.sockets[0].getsockname()[1]}"
    async with answering(tmp_path, url, llm_max_tokens=60) as (_, client):
        turn = Turn(client)
        await turn.until("token")
        down.set()
        assert (await turn.until("done", "error"))["code"] == "llm_unreachable"
        down.clear()
        done = await Turn(client).until("done", "error")
        assert done["answered_by"] == "llm"
    wire.close()


async def test_a_context_that_is_smaller_than_told_is_a_clear_failure(
    tmp_path: Path, server: LlmServer
) -> None:
    async with answering(tmp_path, server.url, llm_context_tokens=100_000) as (_, client):
        error = await Turn(client, "ferry " * 2500).until("done", "error")
        assert "2048" in error["message"]
        failed = await until_logged(client, "conversation.turn_failed")
        assert failed["code"] == error["code"] == "context_too_long"


async def test_a_turn_at_its_deadline_ends_and_stops_the_engine(tmp_path: Path, server: LlmServer) -> None:
    async with answering(tmp_path, server.url, knobs={"CHAT_DEADLINE_S": "5"}, llm_max_tokens=1500) as (
        _,
        client,
    ):
        error = await Turn(client, TALE).until("done", "error")
        assert error["code"] == "aborted"
        assert (await until_logged(client, "conversation.turn_aborted"))["cause"] == "deadline"
        await idle(server)
