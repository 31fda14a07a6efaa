"""The runs reactor: when a run is over, whoever counts it and however often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.world import Failing, World

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.app import DEADLETTER, DeadletterState
from loreline.events.folds.file import FILE, FileState
from loreline.events.tasks import end
from loreline.processors.ingest.runs import Progress
from loreline.schemas.events import app, corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import deadletter_aggregate, file_aggregate, owner_of

TEXT = "The last ferry to Osmund leaves at 18:20.\n"


@pytest.fixture
async def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    await world.define()
    return world


async def park(world: World, stored: Stored[Payload], stage: str, *, run: UUID) -> None:
    """Park an event, as the wrapper does after its last delivery."""
    payload = app.EventParked(
        stage=stage,
        seq=stored.seq,
        event=stored.event.id,
        event_type=stored.event.type,
        owner=owner_of(stored.event.aggregate),
        attempts=8,
        private=app.ParkedError(error="RuntimeError: the disk said no"),
    )

    def decide(_: DeadletterState) -> Sequence[Payload]:
        return [payload]

    aggregate = deadletter_aggregate(stage, stored.seq)
    await world.appender.execute(
        Command(aggregate, DEADLETTER, uuid4(), decide, actor=f"stage.{stage}", correlation=run)
    )


async def fail(world: World, name: str, run: UUID) -> None:
    """End a file by a stage's word."""
    state = await world.file(name)
    assert state.newest is not None
    (profile, current), *_ = state.passes.items()
    reason = file.FailureReason(reason="no", **state.newest.private.model_dump())
    payload = file.FileFailed(
        version=current.version, profile=profile, run=run, stage="parse", code="corrupt", private=reason
    )

    def decide(_: FileState) -> Sequence[Payload]:
        return [payload]

    aggregate = file_aggregate(world.file_id(name))
    await world.appender.execute(Command(aggregate, FILE, uuid4(), decide, actor="stage.parse"))


async def completions(world: World) -> list[corpus.OperationCompleted]:
    found = [stored.event.payload for stored in await world.events(corpus.OperationCompleted)]
    return [each for each in found if isinstance(each, corpus.OperationCompleted)]


async def discovered(world: World, name: str) -> Stored[Payload]:
    file_id = world.file_id(name)
    found = await world.events(file.FileDiscovered)
    return next(stored for stored in reversed(found) if stored.event.aggregate.id == file_id)


async def test_a_run_ends_when_each_of_its_files_has_come_to_its_end(world: World) -> None:
    world.put(good=TEXT, empty="", broken=TEXT, gone=TEXT, parked=TEXT)
    run = await world.request()
    await world.drive(only=["discover"])
    await fail(world, "broken.txt", run)
    await world.delete("gone.txt")
    await park(world, await discovered(world, "parked.txt"), "parse", run=run)
    world.at["parse"] = (await world.log.info()).last_seq  # parse works on two of them only
    for name in ("good.txt", "empty.txt"):
        world.at["parse"] = (await discovered(world, name)).seq - 1
        stored = await discovered(world, name)
        for stage in world.stages():
            if stage.name == "parse":
                for command in await stage.run(stored, 1):
                    await world.appender.execute(command)
    world.at["parse"] = (await world.log.info()).last_seq
    assert (await world.corpus()).holder is not None
    await world.drive()
    await world.close()
    (ended,) = await completions(world)
    assert (ended.n_ingested, ended.n_no_text, ended.n_failed, ended.n_dropped) == (1, 1, 2, 1)
    assert ended.n_chunks == 1


async def test_an_empty_folder_is_a_run_that_ends(world: World) -> None:
    ended = await world.ingest()
    assert (ended.n_ingested, ended.n_failed) == (0, 0)


async def test_a_reactor_that_begins_in_the_middle_comes_to_the_same_end(world: World) -> None:
    world.put(one=TEXT, two="", three=TEXT)
    await world.request()
    await world.drive(only=["discover", "parse"])
    await world.drive()  # all is done before any reactor looks
    await world.close()
    (ended,) = await completions(world)
    assert (ended.n_ingested, ended.n_no_text) == (2, 1)
    await world.request()
    await world.drive()
    assert (await world.close()).holder is None  # a new reactor is not confused by the run before


async def test_two_reactors_append_one_completion(world: World) -> None:
    world.put(one=TEXT)
    await world.change(CHUNK_SIZE="400")
    await world.request(reingest=True)
    await world.drive()
    await world.close(reactors=4)
    assert len(await completions(world)) == 1
    activations = await world.events(corpus.ProfileActivated)
    assert len(activations) == 2  # the first profile's, and the filled one's


async def test_a_parked_discovery_fails_the_run_and_frees_the_corpus(world: World) -> None:
    run = await world.request()
    (requested,) = await world.events(corpus.OperationRequested)
    await park(world, requested, "discover", run=run)
    assert (await world.close()).holder is None
    (failed,) = await world.events(corpus.OperationFailed)
    assert isinstance(failed.event.payload, corpus.OperationFailed)
    assert failed.event.payload.code == "discover_failed"
    assert "the disk said no" in failed.event.payload.private.reason
    world.at.clear()  # the parked request is released: the run it belongs to is over
    await world.drive()
    assert await world.events(corpus.OperationPlanned) == []
    assert (await world.ingest()).n_failed == 0


async def test_a_profile_with_a_parked_file_is_not_activated(world: World) -> None:
    first = await world.define()
    world.put(one=TEXT, two=TEXT)
    await world.ingest()
    await world.change(CHUNK_SIZE="400")
    run = await world.request(reingest=True)
    await world.drive(only=["discover"])
    parked = await discovered(world, "one.txt")
    await park(world, parked, "parse", run=run)
    stored = await discovered(world, "two.txt")
    (parse,) = (stage for stage in world.stages() if stage.name == "parse")
    for command in await parse.run(stored, 1):
        await world.appender.execute(command)
    world.at["parse"] = (await world.log.info()).last_seq
    await world.drive()
    state = await world.close()
    ended = (await completions(world))[-1]
    assert (ended.n_ingested, ended.n_failed) == (1, 1)
    assert state.active == first  # the file that hangs is still answered from
    await world.ingest(reingest=True)
    assert (await world.corpus()).active != first


async def test_a_file_deleted_before_it_is_discovered_again_is_waited_for(world: World) -> None:
    world.put(one=TEXT)
    await world.ingest()
    run = await world.request(again=True)
    await world.delete("one.txt")
    await world.drive(only=["discover"])
    (before, after) = await world.events(file.FileDiscovered)
    assert before.seq < after.seq
    reactor_sees = [stored.event.type for stored in await world.events()][-4:]
    assert reactor_sees == ["file.deleted", "corpus.started", "file.discovered", "corpus.planned"]
    planned = ((await world.file("one.txt")).version or "", world.file_id("one.txt"))
    progress = Progress(run, reingest=False, plan=frozenset({planned[::-1]}))
    for stored in await world.events():
        progress.take(stored)
    assert not progress.is_complete
    await world.drive()
    await world.close()
    assert [each.n_ingested for each in await completions(world)] == [1, 1]


async def test_giving_up_a_content_that_was_overtaken_does_not_end_the_one_in_its_place(world: World) -> None:
    world.put(one=TEXT)
    run = await world.request()
    world.store.after_put = Failing(frozenset({2}))  # the content, and then the plan
    with pytest.raises(ConnectionResetError):
        await world.drive(only=["discover"])
    overtaken = await discovered(world, "one.txt")
    world.put(one="The first ferry to Osmund leaves at 6:10.\n")
    await world.drive(only=["discover"])
    await park(world, overtaken, "parse", run=run)
    reacting = asyncio.create_task(world.reactor().run())
    for _ in range(200):  # time enough to come to an end, on a log in memory
        await asyncio.sleep(0)
    await end(reacting)
    assert await completions(world) == []
    await world.drive()
    await world.close()
    (ended,) = await completions(world)
    assert (ended.n_ingested, ended.n_failed) == (1, 0)


async def test_a_content_that_gave_way_to_another_is_not_waited_for(world: World) -> None:
    world.put(one=TEXT)
    run = await world.request()
    await world.drive(only=["discover"])
    first = await discovered(world, "one.txt")
    assert isinstance(first.event.payload, file.FileDiscovered)
    file_id, version = world.file_id("one.txt"), first.event.payload.version
    progress = Progress(run, reingest=False, plan=frozenset({(file_id, version)}))
    progress.take(first)
    assert not progress.is_complete
    changed = first.event.payload.model_copy(update={"version": "0" * 32})
    progress.take(replace(first, event=replace(first.event, payload=changed)))
    assert progress.is_complete
    assert progress.completed().n_dropped == 1
