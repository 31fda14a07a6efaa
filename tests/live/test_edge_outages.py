"""PostgreSQL and nats-server go away and come back: refusals in time, and everything goes on after."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from loreline.cli.attach import Attached
from loreline.wiring.stack import Stack
from tests.edge import ask, refused, stream
from tests.stack import ingest, stack_at

pytestmark = pytest.mark.asyncio(loop_scope="module")
LONGEST_S = 20.0
"""No refusal takes longer than this, whatever is down."""


@dataclass(frozen=True)
class World:
    """A stack with one document."""

    stack: Stack
    client: Attached

    @property
    def http(self) -> httpx.AsyncClient:
        return self.client.http

    async def health(self) -> dict[str, Any]:
        response = await self.http.get("/api/health")
        assert response.status_code == 200
        health: dict[str, Any] = response.json()
        return health

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(60):
            while not await holds():
                await asyncio.sleep(0.05)

    async def is_healthy(self) -> bool:
        return bool((await self.health())["ok"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    files = {"harbour.md": "The lighthouse of Varn is 41 metres tall.\n"}
    async with stack_at(tmp_path_factory.mktemp("edge"), files=files) as (stack, client):
        await ingest(client)
        yield World(stack, client)


async def test_without_postgres_health_says_so_and_chat_refuses_until_it_is_back(world: World) -> None:
    _, postgres = world.stack.servers
    await postgres.stop()
    try:
        async with asyncio.timeout(LONGEST_S):
            health, made, stored, *refusals = await asyncio.gather(
                world.http.get("/api/health"),
                world.http.post("/api/conversations", json={"title": "Made without a view"}),
                world.http.post("/api/documents", files={"files": ("late.md", b"Varn has one quay.")}),
                world.http.post("/api/chat", json={"query": "How tall is the lighthouse?"}),
                world.http.post("/api/ingest"),
                world.http.get("/api/conversations"),
                world.http.get("/api/documents"),
                world.http.delete("/api/documents/0123456789abcdef"),
            )
        assert health.status_code == 200
        services = health.json()["services"]
        assert health.json()["ok"] is services["postgres"]["ok"] is False
        assert services["postgres"]["detail"]
        assert services["nats"]["ok"] is True
        assert (made.status_code, stored.status_code) == (201, 201)
        for response in refusals:
            assert refused(response) == (503, "postgres_unreachable")
            assert int(response.headers["Retry-After"]) >= 1
    finally:
        await postgres.start()
    await world.until(world.is_healthy)
    frames = await ask(world.http, "How tall is the lighthouse of Varn?")
    assert "41 metres" in frames[-1].data["answer"]
    await world.until(lambda: _is_listed(world, made.json()["conversation_id"]))
    assert (await ingest(world.client))["summary"]["ingested"] == 1  # type: ignore[index]


async def _is_listed(world: World, conversation: str) -> bool:
    return conversation in [each["conversation_id"] for each in await world.client.get("/api/conversations")]


async def test_where_views_stand_is_read_anew_after_postgres_was_killed(world: World) -> None:
    host, (_, postgres) = world.stack.host, world.stack.servers
    before = dict(host.runners)
    assert postgres.pid is not None
    os.kill(postgres.pid, signal.SIGKILL)
    async with asyncio.timeout(LONGEST_S):
        while any(host.runners[name] is runner for name, runner in before.items()):
            await asyncio.sleep(0.01)
    last_seq = (await world.stack.core.log.info()).last_seq
    assert await host.wait(last_seq, views=tuple(before), timeout_s=30)
    await world.until(world.is_healthy)


async def test_without_nats_writes_are_refused_in_time_and_taken_after_it_is_back(world: World) -> None:
    nats, _ = world.stack.servers
    await nats.stop()
    try:
        async with asyncio.timeout(LONGEST_S):
            health, *refusals = await asyncio.gather(
                world.http.get("/api/health"),
                world.http.post("/api/chat", json={"query": "How tall is the lighthouse?"}),
                world.http.post("/api/ingest"),
                world.http.post("/api/conversations", headers={"Idempotency-Key": "during"}),
                world.http.post("/api/documents", files={"files": ("during.md", b"Said during an outage.")}),
            )
        assert health.status_code == 200
        assert health.json()["services"]["nats"]["ok"] is False
        for response in refusals:
            assert refused(response) == (503, "nats_unreachable")
            assert int(response.headers["Retry-After"]) >= 1
    finally:
        await nats.start()
    await world.until(world.is_healthy)
    made = await world.http.post("/api/conversations", headers={"Idempotency-Key": "during"})
    assert made.status_code == 201
    frames = await ask(world.http, "How tall is the lighthouse of Varn?")
    assert "41 metres" in frames[-1].data["answer"]


async def test_kills_during_an_ingest_leave_its_readers_and_the_run_intact(world: World) -> None:
    for n in range(12):
        response = await world.http.post(
            "/api/documents", files={"files": (f"part{n}.md", f"Part {n} of Varn.".encode())}
        )
        assert response.status_code == 201
    await world.http.post("/api/ingest")
    async with asyncio.timeout(90), stream(world.http, "GET", "/api/ingest/status") as status:
        await status.until("progress")
        for server in world.stack.servers:
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        frames = await status.rest()
    assert frames[-1].event == "status", frames[-1]
    assert frames[-1].data["run"]["state"] == "completed"
    assert frames[-1].data["run"]["summary"]["failed"] == 0
    await world.until(world.is_healthy)
    listed = [each["relative_path"] for each in await world.client.get("/api/documents")]
    assert {f"part{n}.md" for n in range(12)} <= set(listed)


async def test_a_kill_in_the_middle_of_requests_is_a_refusal_or_an_ending_and_never_a_hang(
    world: World,
) -> None:
    seen: list[tuple[int, str]] = []

    async def chat(n: int) -> None:
        question = {"query": f"How tall is the lighthouse of Varn? {n}"}
        async with stream(world.http, "POST", "/api/chat", body=question) as turn:
            if turn.response.status_code != 200:
                seen.append(refused(turn.response))
                return
            frames = await turn.rest()
            assert frames[-1].event in {"done", "error"}, frames[-1]
            seen.append((200, frames[-1].event))

    async def read(path: str) -> None:
        response = await world.http.get(path)
        seen.append((200, "") if response.status_code == 200 else refused(response))

    async def create() -> None:
        response = await world.http.post("/api/conversations")
        seen.append((201, "") if response.status_code == 201 else refused(response))

    async def upload(n: int) -> None:
        response = await world.http.post("/api/documents", files={"files": (f"up{n}.md", b"words")})
        seen.append((201, "") if response.status_code == 201 else refused(response))

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for n in range(8):
            for work in (chat(n), read("/api/documents"), read("/api/conversations"), create(), upload(n)):
                group.create_task(work)
            await asyncio.sleep(0.02)
            if n in (1, 5):
                pid = world.stack.servers[n // 4].pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
    assert {status for status, _ in seen} <= {200, 201, 503}, seen
    await world.until(world.is_healthy)
    assert (await ask(world.http, "How tall is the lighthouse of Varn?"))[-1].event == "done"
