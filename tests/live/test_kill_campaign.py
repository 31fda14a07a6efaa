"""One short seed of the kill campaign, and proof that its comparison of views sees a single row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from loreline.cli.attach import Attached
from loreline.wiring.hooks import Hooks
from tests.campaign.check import Chunk, World, database_of, live_chunk_tables, repeated_calls
from tests.campaign.plan import POINTS, plan
from tests.campaign.seed import run_seed
from tests.stack import ingest, stack_at

SHORT = ("before_ack", "postgres", "during_rebuild", "before_answer", "nats")
FILES = {"one.md": "The mast of Orm is 30 metres tall.\n", "two.txt": "The silo of Varn is 12 metres tall.\n"}


@pytest.mark.timeout(240)
async def test_what_was_acknowledged_survives_kills_and_no_committed_call_is_repeated(tmp_path: Path) -> None:
    outcome = await run_seed(11, tmp_path, points=SHORT)
    assert outcome.problems == []
    assert set(outcome.hits) == set(SHORT)
    assert outcome.facts["acknowledged"] > 20


def test_the_same_seed_makes_the_same_plan_and_every_seed_has_every_point() -> None:
    assert plan(3) == plan(3)
    assert plan(3) != plan(4)
    assert sorted(act.kill.point for act in plan(5)) == sorted(POINTS)


TEXT = "passage: one.txt\n\nThe mast is tall."


def world(*, calls: Sequence[float], kills: Sequence[float] = (), embedded: float = 50.0) -> World:
    """One file of one chunk, embedded once; calls, kills and the event at these seconds."""
    moment = datetime.fromtimestamp(embedded, UTC).isoformat()
    return World(
        Path(),
        acknowledged=[{"kind": "upload", "path": "up/one.txt", "content": {"markers": []}}],
        calls=[{"at": at, "texts": [TEXT]} for at in calls],
        kills=[{"kill": n, "at": at} for n, at in enumerate(kills)],
        events=[{"type": "file.embedded", "seq": 9, "time": moment}],
        chunks=[Chunk("x::0", 9, True, "up/one.txt", 0, "The mast is tall.", "one.txt")],
    )


def test_a_call_is_repeated_only_for_a_kill_and_never_after_its_version_is_embedded() -> None:
    assert repeated_calls(world(calls=[40.0])) == []
    assert repeated_calls(world(calls=[40.0, 45.0], kills=[42.0])) == []
    assert "2 calls" in repeated_calls(world(calls=[40.0, 45.0]))[0]
    assert "2 calls" in repeated_calls(world(calls=[40.0, 45.0], kills=[20.0, 46.0]))[0]
    assert "after it was embedded at 9" in repeated_calls(world(calls=[40.0, 51.0], kills=[42.0]))[0]
    assert "sees nothing" in repeated_calls(world(calls=[]))[0]


@contextmanager
def undone(root: Path, change: str) -> Iterator[None]:
    """One row of the chunks changed behind the product's back, and put back as it was."""
    with database_of(root) as database:
        (table,) = live_chunk_tables(database)

        def execute(statement: str) -> None:
            database.execute(statement.format(table=table))

        execute("CREATE TABLE kept AS SELECT * FROM {table}")
        execute(change)
        yield
        execute("DELETE FROM {table}")
        execute("INSERT INTO {table} SELECT * FROM kept")
        execute("DROP TABLE kept")


async def verify(client: Attached) -> bool:
    found: dict[str, Any] = await client.post("/api/views/passages/verify")
    return bool(found["equal"])


async def test_an_upload_that_reached_the_log_reaches_the_folder_at_the_next_start(tmp_path: Path) -> None:
    struck = asyncio.Event()

    async def fail_once_struck() -> None:
        if struck.is_set():
            raise RuntimeError("as if killed here")

    async def dawdle() -> None:
        await asyncio.sleep(0.3)  # the view is behind the log when the start asks it

    hooks = Hooks(after_append=fail_once_struck, in_projection=fail_once_struck)
    async with stack_at(tmp_path, hooks=hooks) as (stack, client):
        await stack.host.wait((await stack.core.log.info()).last_seq, views=["documents"], timeout_s=30)
        struck.set()
        answer = await client.http.post("/api/documents", files={"files": ("late.txt", b"The mast is tall.")})
        assert answer.status_code == 500
    assert not (tmp_path / "docs" / "late.txt").exists()
    async with stack_at(tmp_path, hooks=Hooks(in_projection=dawdle)):
        assert (tmp_path / "docs" / "late.txt").read_bytes() == b"The mast is tall."


ONE = "WHERE chunk_id = (SELECT min(chunk_id) FROM {table})"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {table} SET content = content || '.' " + ONE,
        "UPDATE {table} SET embedding = embedding + array_fill(1e-5, ARRAY[384])::vector " + ONE,
        "DELETE FROM {table} " + ONE,
    ],
    ids=["text", "vector", "missing"],
)
async def test_one_altered_or_missing_row_is_a_difference(stack_with_files: Any, change: str) -> None:
    root, client = stack_with_files
    assert await verify(client)
    with undone(root, change):
        assert not await verify(client)
    assert await verify(client)


@pytest.fixture
async def stack_with_files(tmp_path: Path) -> Any:
    async with stack_at(tmp_path, files=FILES) as (_, client):
        await ingest(client)
        yield tmp_path, client
