"""The whole stack on a damaged log: it does not start, or stops serving, and says what to do."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loreline.embedded.nats import EmbeddedNats
from loreline.events.bootstrap import request
from loreline.schemas.errors import KeyMissing, LogError, LogHole, LogRolledBack
from tests.live.test_log_damage import flip
from tests.stack import ingest, stack_at, write

FILES: dict[str, str | bytes] = {
    "harbour.md": "The lighthouse of Varn is 41 metres tall.\n",
    "ferry.txt": "Dogs travel free of charge.\n",
}


async def made(root: Path) -> Path:
    """A data directory whose log went on after a copy of its store was taken; returns the copy."""
    async with stack_at(root, files=FILES) as (_, client):
        await ingest(client)
    shutil.copytree(root / "data/nats/jetstream", root / "older")
    write(root / "docs", {"later.txt": "The ferry to Osmund leaves at 18:20.\n"})
    async with stack_at(root) as (_, client):
        await ingest(client)
    return root / "older"


def roll_back(root: Path) -> None:
    shutil.rmtree(root / "data/nats/jetstream")
    shutil.copytree(root / "older", root / "data/nats/jetstream")


def flip_a_bit(root: Path) -> None:
    flip(next((root / "data").rglob("LORE/msgs/1.blk")), 0.5)


async def start(root: Path) -> None:
    async with stack_at(root):
        pytest.fail("a damaged log was served")


async def test_a_rolled_back_log_is_not_served_with_or_without_the_high_water_mark(tmp_path: Path) -> None:
    await made(tmp_path)
    roll_back(tmp_path)
    with pytest.raises(
        LogRolledBack, match=r"but the high-water mark of this data directory is at \d+; keep"
    ):
        await start(tmp_path)
    mark = (tmp_path / "data/highwater").read_bytes()
    (tmp_path / "data/highwater").unlink()
    with pytest.raises(LogRolledBack, match=r"but the checkpoint of the view \w+ is at \d+; keep"):
        await start(tmp_path)
    (tmp_path / "data/highwater").write_bytes(b"{" + mark[1:40])
    with pytest.raises(LogError, match="highwater is damaged"):
        await start(tmp_path)


async def test_lost_keys_are_named_at_start(tmp_path: Path) -> None:
    async with stack_at(tmp_path, files=FILES) as (_, client):
        await ingest(client)
    with sqlite3.connect(tmp_path / "data/keys/keyring.sqlite3") as keys:
        keys.execute("DELETE FROM keys WHERE owner LIKE 'file/%'")
    keys.close()
    with pytest.raises(KeyMissing, match=r"no key for file/\w+; restore the key backup"):
        await start(tmp_path)


async def test_up_exits_with_one_line_and_serves_nothing(tmp_path: Path) -> None:
    async with stack_at(tmp_path, files=FILES) as (_, client):
        await ingest(client)
    flip_a_bit(tmp_path)
    up = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loreline", "--data", str(tmp_path / "data")),
        *("--docs", str(tmp_path / "docs"), "--graph-docs", str(tmp_path / "graph-docs"), "up"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(up.communicate(), 60)
    assert up.returncode not in (0, None)
    (line,) = err.decode().splitlines()
    assert line.startswith("loreline: sequence ")
    assert "is not in the log" in line
    assert "restore the log from a backup" in line
    assert b"http://" not in out


@pytest.mark.parametrize(("damage", "name"), [(roll_back, LogRolledBack), (flip_a_bit, LogHole)])
async def test_a_server_that_comes_back_on_a_damaged_store_stops_everything(
    tmp_path: Path, damage: Callable[[Path], None], name: type[LogError]
) -> None:
    await made(tmp_path)
    async with stack_at(tmp_path) as (stack, client):
        nats: EmbeddedNats = stack.servers[0]
        assert (await client.get("/api/health"))["services"]["log"]["ok"]
        await nats.stop()
        damage(tmp_path)
        await nats.start()
        assert isinstance(await asyncio.wait_for(stack.core.damage.wait(), 30), name)
        refused = await client.http.get("/api/documents")
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "log_damaged"
        assert "restore the log from a backup" in refused.json()["error"]["message"]
        asked = await client.http.post("/api/chat", json={"query": "How tall is the lighthouse?"})
        assert asked.status_code == 503
        health = await client.get("/api/health")
        assert not health["ok"]
        assert not health["services"]["log"]["ok"]
        if damage is roll_back:
            async with asyncio.timeout(30):
                while {each.state for each in stack.host.runners.values()} != {"halted"}:
                    await asyncio.sleep(0.05)
        async with asyncio.timeout(30):  # the stages ask for no more events
            while (await request(stack.core.nats, "CONSUMER.INFO.LORE.stage-parse", {})).get("num_waiting"):
                await asyncio.sleep(0.05)
        last_seq = (await stack.core.log.info()).last_seq
        with pytest.raises(LogError):
            await stack.core.watch.append([])
        assert (await stack.core.log.info()).last_seq == last_seq


async def test_a_rebuild_that_meets_the_damage_stops_everything(tmp_path: Path) -> None:
    """The bit turns over while the server runs, and nobody reads there until a view is built anew."""
    async with stack_at(tmp_path, files=FILES) as (stack, client):
        await ingest(client)
        flip_a_bit(tmp_path)
        await client.http.post("/api/views/documents/rebuild")
        if stack.core.damage.error is None:  # the server still had the block in its memory
            await stack.servers[0].restart()
        assert isinstance(await asyncio.wait_for(stack.core.damage.wait(), 30), LogHole)
        assert (await client.http.get("/api/documents")).status_code == 503
