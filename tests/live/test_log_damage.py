"""A damaged log is noticed, named, and not served: at start, and when the server comes back on it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from loreline.embedded.nats import EmbeddedNats
from loreline.events.append import Appender
from loreline.events.audit import audit
from loreline.events.bootstrap import ensure_stream
from loreline.events.envelope import Codec, Wire
from loreline.events.highwater import check_log
from loreline.events.jetstream import JetStreamLog
from loreline.events.keys import MemoryKeys
from loreline.events.topology import ADMIN, APP, lore_stream
from loreline.schemas.errors import (
    LogError,
    LogHole,
    LogRewritten,
    LogRolledBack,
    ServerFailed,
)
from tests.conftest import connect, embedded_nats, now
from tests.contracts.test_log import conversation, titled

Mark = tuple[int, str]
FILES: dict[str, str | bytes] = {
    "a.md": "The lighthouse of Varn is 41 metres tall.\n",
    "b.txt": "Dogs travel free.",
}
MAX_BYTES = 120_000
"""So small that the server begins block file after block file, and compresses all but the newest."""


async def fill(directory: Path, keys: MemoryKeys, *, count: int, deny: bool = True) -> Mark:
    """Append events to the store in a directory; returns where it ends."""
    server = embedded_nats(directory)
    await server.start()
    admin, app = await connect(server, ADMIN), await connect(server, APP)
    await ensure_stream(admin, lore_stream(max_bytes=MAX_BYTES) | {"deny_delete": deny})
    appender = Appender(JetStreamLog(app), Codec(keys), keys, clock=now)
    aggregates = [conversation() for _ in range(20)]
    for start in range(0, count, 20):
        commands = [titled(each, f"title {start} {os.urandom(100).hex()}") for each in aggregates]
        stored = await appender.execute_together(commands)
    await app.close()
    await admin.close()
    await server.stop()
    return stored[-1][0].seq, str(stored[-1][0].event.id)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mark, MemoryKeys]:
    directory, keys = tmp_path_factory.mktemp("filled"), MemoryKeys()
    return directory, asyncio.run(fill(directory, keys, count=60)), keys


@pytest.fixture
def store(filled: tuple[Path, Mark, MemoryKeys], tmp_path: Path) -> tuple[Path, Mark, MemoryKeys]:
    directory, mark, keys = filled
    shutil.copytree(directory, tmp_path / "nats")
    return tmp_path / "nats", mark, keys


def flip(path: Path, where: float) -> None:
    """Turn one bit over, at a fraction of the file."""
    data = bytearray(path.read_bytes())
    data[min(int(len(data) * where), len(data) - 1)] ^= 0x10
    path.write_bytes(data)


def blocks(directory: Path) -> list[Path]:
    return sorted(directory.rglob("LORE/msgs/*.blk"), key=lambda path: int(path.stem))


async def start_on(directory: Path, mark: Mark, keys: MemoryKeys) -> None:
    """What a start checks of the log alone."""
    server = embedded_nats(directory)
    await server.start()
    try:
        admin, app = await connect(server, ADMIN), await connect(server, APP)
        try:
            await ensure_stream(admin, lore_stream(max_bytes=MAX_BYTES))
            log = JetStreamLog(app)
            await check_log(log, mark=mark, whose="the mark")
            await audit(log, through_seq=(await log.info()).last_seq, codec=Codec(keys))
        finally:
            await app.close()
            await admin.close()
    finally:
        await server.stop()


async def test_a_whole_log_passes(store: tuple[Path, Mark, MemoryKeys]) -> None:
    assert len(blocks(store[0])) > 1
    await start_on(*store)


@pytest.mark.parametrize("index", ["kept", "lost"])
@pytest.mark.parametrize("block", [0, -1])
@pytest.mark.parametrize("where", [0.0, 0.001, 0.5, 0.98, 1.0])
async def test_a_flipped_bit_is_noticed(
    store: tuple[Path, Mark, MemoryKeys], where: float, block: int, index: str
) -> None:
    """The server's index of a clean stop hides what its blocks lost; after a crash it has none."""
    flip(blocks(store[0])[block], where)
    if index == "lost":
        next(store[0].rglob("LORE/msgs/index.db")).unlink()
    with pytest.raises((LogHole, LogRolledBack), match=r"\d.*restore the log from a backup"):
        await start_on(*store)


@pytest.mark.parametrize("name", ["meta.inf", "meta.sum"])
async def test_a_stream_that_the_server_cannot_open_is_named(
    store: tuple[Path, Mark, MemoryKeys], name: str
) -> None:
    flip(next(store[0].rglob(f"LORE/{name}")), 0.2)
    with pytest.raises(ServerFailed, match=r"cannot open the log.*restore"):
        await start_on(*store)


async def test_a_lost_block_file_is_noticed(store: tuple[Path, Mark, MemoryKeys]) -> None:
    blocks(store[0])[0].unlink()
    with pytest.raises(LogHole, match="restore"):
        await start_on(*store)


async def test_a_lost_store_is_noticed(store: tuple[Path, Mark, MemoryKeys]) -> None:
    shutil.rmtree(store[0] / "jetstream")
    with pytest.raises(LogRolledBack, match="ends at 0, but the mark is at 60"):
        await start_on(*store)


@pytest.mark.parametrize("seq", [1, 25, 40])
async def test_a_deleted_event_is_a_hole(tmp_path: Path, seq: int) -> None:
    keys = MemoryKeys()
    (tmp_path / "nats").mkdir()
    mark = await fill(tmp_path / "nats", keys, count=40, deny=False)
    server = embedded_nats(tmp_path / "nats")
    await server.start()
    admin = await connect(server, ADMIN)
    await admin.jetstream().delete_msg("LORE", seq)
    await admin.close()
    await server.stop()
    with pytest.raises(LogHole, match="1 of 40 events are missing"):
        await start_on(tmp_path / "nats", mark, keys)


async def test_an_older_log_that_grew_again_is_named(tmp_path: Path) -> None:
    """The flipped bit's aftermath: the numbers are used again, for other events."""
    keys, old = MemoryKeys(), tmp_path / "old"
    old.mkdir()
    await fill(old, keys, count=20)
    shutil.copytree(old, tmp_path / "nats")
    mark = await fill(tmp_path / "nats", keys, count=20)
    await fill(old, keys, count=60)
    with pytest.raises(LogRewritten, match="another event stands at sequence 40, where the mark is; keep"):
        await start_on(old, mark, keys)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda wire: Wire(wire.subject, wire.headers, b"{not json"), LogError),
        (lambda wire: Wire(wire.subject, wire.headers, b"[1]"), LogError),
        (lambda wire: Wire(wire.subject, wire.headers, b'{"private": "words"}'), LogError),
        (
            lambda wire: Wire(wire.subject, wire.headers, wire.body.replace(b'"box":"', b'"box":"AAAA')),
            LogError,
        ),
        (lambda wire: Wire(wire.subject, {}, wire.body), LogError),
        (lambda wire: Wire(wire.subject, {**wire.headers, "ce-prev": "00" * 32}, wire.body), LogRewritten),
    ],
    ids=["no-json", "no-object", "no-seal", "broken-seal", "no-headers", "broken-chain"],
)
async def test_what_is_no_event_of_ours_is_named_by_its_sequence(
    nats_server: EmbeddedNats,
    jetstream_log: JetStreamLog,
    change: Callable[[Wire], Wire],
    name: type[LogError],
) -> None:
    """As nobody but the application can append it, this stands for a damage that the server does not see."""
    keys = MemoryKeys()
    appender = Appender(jetstream_log, Codec(keys), keys, clock=now)
    one, other = conversation(), conversation()
    (first,) = await appender.execute(titled(one, "first"))
    keys.ensure([f"conversation/{other.id}"])
    wire = change(Codec(keys).encode(replace(first.event, id=uuid4(), aggregate=other)))
    client = await connect(nats_server, APP)
    await client.jetstream().publish(wire.subject, wire.body, headers=dict(wire.headers) or None)
    await client.close()
    with pytest.raises(name, match=r"\b2\b.*restore the log from a backup"):
        await audit(jetstream_log, through_seq=2, codec=Codec(keys))
