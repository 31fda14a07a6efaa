"""The contract of the ref store, run over every adapter, and of recordings on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from loreline.events.blobs import FileBlobs, MemoryBlobs, SealedBlobs
from loreline.events.keys import MemoryKeys
from loreline.events.refs import MemoryRefs, Recorded, Recordings, SqliteRefs
from loreline.schemas.ports import RefStore

OWNER, OTHER = "file/" + "a" * 32, "file/" + "b" * 32
KEY, ADDRESS = "0f" * 32, "ab" * 32


@pytest.fixture(params=["memory", "sqlite"])
def refs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RefStore]:
    if request.param == "memory":
        yield MemoryRefs()
        return
    store = SqliteRefs(tmp_path / "refs.sqlite3")
    yield store
    store.close()


class World:
    """Recordings with everything they stand on, and a maker that counts."""

    def __init__(self, refs: RefStore) -> None:
        self.refs, self.store, self.keys, self.made = refs, MemoryBlobs(), MemoryKeys(), 0
        self.keys.ensure([OWNER, OTHER])
        self.recordings = Recordings(refs, SealedBlobs(self.store, self.keys), self.keys)

    def maker(self, data: bytes) -> Callable[[], Awaitable[bytes]]:
        async def make() -> bytes:
            self.made += 1
            return data

        return make


async def test_a_ref_is_what_was_set_last(refs: RefStore) -> None:
    assert await refs.get(KEY) is None
    await refs.set(KEY, ADDRESS)
    await refs.set(KEY, "cd" * 32)
    assert await refs.get(KEY) == "cd" * 32


async def test_refs_outlive_the_process(tmp_path: Path) -> None:
    first, second = SqliteRefs(tmp_path / "r"), SqliteRefs(tmp_path / "r")
    await first.set(KEY, ADDRESS)
    assert await second.get(KEY) == ADDRESS
    first.close()
    second.close()


async def test_the_same_inputs_are_made_once(refs: RefStore) -> None:
    world = World(refs)
    first = await world.recordings.once(OWNER, "parse", inputs={"a": 1, "b": 2}, make=world.maker(b"one"))
    again = await world.recordings.once(OWNER, "parse", inputs={"b": 2, "a": 1}, make=world.maker(b"two"))
    assert (first.reused, again.reused, world.made) == (False, True, 1)
    assert (again.data, again.address) == (b"one", first.address)


@pytest.mark.parametrize(
    ("owner", "stage", "inputs"), [(OTHER, "parse", 1), (OWNER, "chunk", 1), (OWNER, "parse", 2)]
)
async def test_another_owner_stage_or_input_is_made(
    refs: RefStore, owner: str, stage: str, inputs: int
) -> None:
    world = World(refs)
    await world.recordings.once(OWNER, "parse", inputs={"n": 1}, make=world.maker(b"one"))
    await world.recordings.once(owner, stage, inputs={"n": inputs}, make=world.maker(b"two"))
    assert world.made == 2


async def test_force_makes_again_and_is_what_counts_from_then_on(refs: RefStore) -> None:
    world = World(refs)
    await world.recordings.once(OWNER, "parse", inputs={}, make=world.maker(b"one"))
    await world.recordings.once(OWNER, "parse", inputs={}, make=world.maker(b"two"), force=True)
    assert (await world.recordings.once(OWNER, "parse", inputs={}, make=world.maker(b"x"))).data == b"two"
    assert world.made == 2


async def test_a_ref_whose_blob_is_gone_costs_one_call(refs: RefStore) -> None:
    world = World(refs)
    await refs.set(world.recordings.key(OWNER, "parse", {}), ADDRESS)
    made = await world.recordings.once(OWNER, "parse", inputs={}, make=world.maker(b"one"))
    assert (made.data, made.reused) == (b"one", False)


async def test_what_fails_is_not_recorded(refs: RefStore) -> None:
    world = World(refs)

    async def fail() -> bytes:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await world.recordings.once(OWNER, "parse", inputs={}, make=fail)
    assert await refs.get(world.recordings.key(OWNER, "parse", {})) is None


@pytest.mark.parametrize("lasting", [True, False])
async def test_an_output_that_was_damaged_is_made_again_and_whole_from_then_on(
    tmp_path: Path, lasting: bool
) -> None:
    keys = MemoryKeys()
    keys.ensure([OWNER])
    blobs, scratch = (
        SealedBlobs(FileBlobs(tmp_path / name, durable=name == "blobs"), keys)
        for name in ("blobs", "scratch")
    )
    recordings = Recordings(MemoryRefs(), blobs, keys, scratch=scratch)
    calls: list[int] = []

    async def make() -> bytes:
        calls.append(1)
        return b"vectors"

    async def once() -> bytes:
        return (await recordings.once(OWNER, "embed", inputs={}, make=make, lasting=lasting)).data

    assert await once() == b"vectors"
    (held,) = (path for path in (tmp_path / ("blobs" if lasting else "scratch")).rglob("*") if path.is_file())
    held.write_bytes(bytes(held.stat().st_size))
    assert await once() == b"vectors"
    assert await once() == b"vectors"
    assert len(calls) == 2


@pytest.mark.parametrize("force", [False, True])
async def test_what_is_asked_for_while_it_is_being_made_is_made_once(refs: RefStore, force: bool) -> None:
    world = World(refs)
    gate = asyncio.Event()

    async def slow() -> bytes:
        world.made += 1
        await gate.wait()
        return b"one"

    async def once() -> Recorded:
        return await world.recordings.once(OWNER, "embed", inputs={}, make=slow, force=force)

    asking = [asyncio.create_task(once()) for _ in range(3)]
    await asyncio.sleep(0)  # all three ask, and two of them wait
    other = await world.recordings.once(OWNER, "embed", inputs={"n": 1}, make=world.maker(b"x"))
    assert other.data == b"x"  # another key waits for nobody
    gate.set()
    found = await asyncio.gather(*asking)
    assert world.made == 1 + 1
    assert [each.data for each in found] == [b"one"] * 3
    assert sorted(each.reused for each in found) == [False, True, True]


async def test_who_waits_for_a_making_that_fails_or_is_stopped_makes_it(refs: RefStore) -> None:
    world = World(refs)
    gate, begun = asyncio.Event(), asyncio.Event()

    async def fail() -> bytes:
        begun.set()
        await gate.wait()
        raise RuntimeError("no")

    for stop in (False, True):
        gate.clear()
        begun.clear()
        inputs = {"stop": stop}
        first = asyncio.create_task(world.recordings.once(OWNER, "embed", inputs=inputs, make=fail))
        await begun.wait()
        second = asyncio.create_task(
            world.recordings.once(OWNER, "embed", inputs=inputs, make=world.maker(b"one"))
        )
        if stop:
            first.cancel()
        gate.set()
        assert (await second).data == b"one"
        with pytest.raises(asyncio.CancelledError if stop else RuntimeError):
            await first
    assert world.made == 2
