"""What the ingest owes, counted at the log, the blob store, the reader, the chunker and the embedder."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from tests.world import CountingEmbedder, Failing, World

from loreline.processors.ingest.scan import read_file
from loreline.schemas.events import corpus, file

SHORT = "The lighthouse of Varn is 41 metres tall.\n\nIt was built in 1883.\n"
LONG = "\n\n".join(f"Paragraph {n} tells of harbour number {n} and its {n * 7} boats." for n in range(60))
STAGES = ["file.discovered", "file.parsed", "file.chunked", "file.situated", "file.embedded"]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    await world.define()
    return world


def dear(world: World) -> tuple[int, int, int]:
    """(Documents read, documents cut, model calls)."""
    return world.counts.reads, world.counts.cuts, world.embedder.calls


async def test_a_version_costs_five_appends_and_four_blobs_beside_its_source(world: World) -> None:
    world.put(harbour=LONG)
    aggregate = world.file_id("harbour.txt")
    await world.ingest()
    touching = [batch for batch in world.log.appends if any(aggregate in subject for subject in batch)]
    assert [subject.rsplit(".", 1)[1] for batch in touching for subject in batch] == [
        name.removeprefix("file.") for name in STAGES
    ]
    assert len(touching) == 5
    source_and_plan = 2
    assert world.store.written - source_and_plan <= 4


async def test_many_versions_are_discovered_by_few_appends(world: World) -> None:
    world.put(**{f"f{n:03}": f"File {n} is about subject {n}." for n in range(300)})
    ended = await world.ingest()
    assert (ended.n_ingested, ended.n_failed) == (300, 0)
    discovering = [batch for batch in world.log.appends if any("discovered" in each for each in batch)]
    assert len(discovering) == 6


async def test_a_second_ingest_of_unchanged_files_does_nothing_at_all(world: World) -> None:
    world.put(harbour=LONG, ferry=SHORT)
    await world.ingest()
    before, blobs = dear(world), world.store.written
    ended = await world.ingest()
    assert (ended.n_ingested, dear(world)) == (0, before)
    assert world.store.written == blobs + 1  # the plan
    (_, planned) = await world.events(corpus.OperationPlanned)
    assert isinstance(planned.event.payload, corpus.OperationPlanned)
    assert (planned.event.payload.n_planned, planned.event.payload.n_skipped) == (0, 2)


async def test_a_reingest_with_the_same_settings_parses_chunks_and_embeds_nothing(world: World) -> None:
    world.put(harbour=LONG, ferry=SHORT)
    await world.ingest()
    before, blobs = dear(world), world.store.written
    ended = await world.ingest(reingest=True)
    assert ended.n_ingested == 2
    assert dear(world) == before
    assert world.store.written <= blobs + 1  # the plan
    again = [each.event.payload for each in await world.events(file.FileEmbedded)]
    assert [each.reused for each in again if isinstance(each, file.FileEmbedded)] == [
        False,
        False,
        True,
        True,
    ]


async def test_force_does_the_work_again(world: World) -> None:
    world.put(harbour=SHORT)
    await world.ingest()
    reads, cuts, calls = dear(world)
    await world.ingest(reingest=True, force=True)
    assert dear(world) == (2 * reads, 2 * cuts, 2 * calls)


async def test_a_changed_chunk_size_reparses_nothing(world: World) -> None:
    first = await world.define()
    world.put(harbour=LONG, ferry=SHORT)
    await world.ingest()
    reads, cuts, _ = dear(world)
    await world.change(CHUNK_SIZE="400", CHUNK_OVERLAP="50")
    assert (await world.ingest()).n_ingested == 0  # a plain ingest keeps to the active profile
    await world.request(reingest=True)
    await world.drive()
    assert (await world.corpus()).active == first  # the old one answers while the new one fills
    assert (world.counts.reads, world.counts.cuts) == (reads, 2 * cuts)
    state = await world.close()
    assert state.active != first
    assert state.profiles[state.active or ""].settings["CHUNK_SIZE"] == "400"
    kinds = [each.event.type for each in await world.events()]
    assert kinds[-2:] == ["corpus.profile_activated", "corpus.completed"]
    known = await world.file("harbour.txt")
    assert {each.reached for each in known.passes.values()} == {"embedded"}
    assert len(known.passes) == 2


async def test_settings_that_are_set_back_find_their_profile_and_its_work_again(world: World) -> None:
    first = await world.define()
    world.put(harbour=LONG)
    await world.ingest()
    await world.change(CHUNK_SIZE="400", CHUNK_OVERLAP="50")
    await world.ingest(reingest=True)
    before = dear(world)
    await world.change(CHUNK_SIZE="1200", CHUNK_OVERLAP="150")
    await world.ingest(reingest=True)
    state = await world.corpus()
    assert (state.active, len(state.profiles), dear(world)) == (first, 2, before)


@pytest.mark.parametrize("nth", range(1, 8))
async def test_a_crash_after_any_blob_repeats_no_recorded_work_and_loses_nothing(
    world: World, nth: int
) -> None:
    """The seven puts of a file: source, plan, parsed, chunks, blurbs, a batch of vectors, all vectors."""
    world.put(harbour=SHORT)
    world.store.after_put = Failing(frozenset({nth}))
    await world.request()
    for _ in range(2):
        try:
            await world.drive()
        except ConnectionResetError:
            continue
    await world.close()
    assert (await world.file("harbour.txt")).live is not None
    types = [each.event.type for each in await world.events() if each.event.aggregate.kind == "file"]
    assert types == STAGES
    lost = {3: (2, 1, 1), 4: (1, 2, 1), 6: (1, 1, 2)}  # the output's own put failed before its ref stood
    assert dear(world) == lost.get(nth, (1, 1, 1))


async def test_a_crash_after_the_calls_of_a_long_version_repeats_none_of_them(world: World) -> None:
    world.put(harbour="\n\n".join(f"{LONG}\n\nPart {n}." for n in range(12)))
    await world.request()
    await world.drive(only=["discover", "parse", "chunk", "situate"])
    world.store.after_put = Failing(frozenset({1}))  # the whole matrix; its batches are recorded
    with pytest.raises(ConnectionResetError):
        await world.drive()
    made = world.embedder.calls
    assert made > 2
    await world.drive()
    await world.close()
    assert world.embedder.calls == made
    (ended,) = await world.events(file.FileEmbedded)
    assert isinstance(ended.event.payload, file.FileEmbedded)
    assert (ended.event.payload.calls, ended.event.payload.reused) == (0, True)


async def test_a_crash_between_recording_and_append_repeats_no_model_call(world: World) -> None:
    world.put(harbour=SHORT)
    await world.request()
    await world.drive(only=["discover", "parse", "chunk", "situate"])
    crash = mock.patch.object(world.appender, "execute", side_effect=ConnectionResetError)
    with crash, pytest.raises(ConnectionResetError):
        await world.drive()
    assert world.embedder.calls == 1
    await world.drive()
    await world.close()
    assert world.embedder.calls == 1
    assert len(await world.events(file.FileEmbedded)) == 1


async def test_files_with_the_same_content_share_nothing_and_go_one_by_one(world: World) -> None:
    world.put(one=SHORT, two=SHORT)
    await world.ingest()
    kinds = Counter(each.event.aggregate.id for each in await world.events() if each.event.type in STAGES)
    assert sorted(kinds.values()) == [5, 5]
    await world.delete("one.txt")
    assert (await world.file("one.txt")).live is None
    assert (await world.file("two.txt")).live is not None


async def test_a_reverted_file_repeats_no_work_and_supersedes_what_stood_between(world: World) -> None:
    for text in (SHORT, LONG):
        world.put(harbour=text)
        await world.ingest()
    before = dear(world)
    world.put(harbour=SHORT)
    ended = await world.ingest()
    assert (ended.n_ingested, dear(world)) == (1, before)
    gone = [each.event.payload for each in await world.events(file.FileSuperseded)]
    first, second = (each for each in gone if isinstance(each, file.FileSuperseded))
    assert (first.version, first.by) == (second.by, second.version)
    assert (await world.file("harbour.txt")).live == second.by


async def test_another_embedder_is_refused_until_everything_is_embedded_anew(tmp_path: Path) -> None:
    world = World(tmp_path)
    first = await world.define()
    world.put(harbour=SHORT)
    await world.ingest()
    world.embedder = CountingEmbedder(dim=32)
    await world.request()
    await world.drive()
    assert (await world.corpus()).holder is None
    (refused,) = await world.events(corpus.OperationFailed)
    assert isinstance(refused.event.payload, corpus.OperationFailed)
    assert refused.event.payload.code == "embedder_mismatch"
    assert "reingest" in refused.event.payload.private.reason
    ended = await world.ingest(reingest=True)
    state = await world.corpus()
    assert (ended.n_ingested, world.counts.reads) == (1, 1)
    assert state.active not in (None, first)
    assert state.profiles[state.active or ""].dim == 32


async def test_an_event_that_is_delivered_again_changes_nothing(world: World) -> None:
    world.put(harbour=SHORT, ferry=LONG)
    await world.ingest()
    before = (await world.log.info()).last_seq, dear(world), world.store.written
    world.at.clear()
    await world.drive()
    assert ((await world.log.info()).last_seq, dear(world), world.store.written) == before


async def test_an_empty_and_a_broken_file_end_in_words(world: World) -> None:
    world.put(empty="", blank=" \n\t\n")
    (world.docs / "broken.pdf").write_bytes(b"%PDF-1.4 this is not one")
    ended = await world.ingest()
    assert (ended.n_no_text, ended.n_failed, ended.n_ingested) == (2, 1, 0)
    (failure,) = await world.events(file.FileFailed)
    assert isinstance(failure.event.payload, file.FileFailed)
    assert failure.event.payload.private.relative_path == "broken.pdf"
    assert len(failure.event.payload.private.reason) > 20
    again = await world.ingest()
    assert (again.n_no_text, again.n_failed) == (0, 1)  # a failure is tried again, no text is not


async def test_a_deletion_that_overtakes_discovery_wins(world: World) -> None:
    world.put(harbour=SHORT)
    await world.ingest()

    async def delete_meanwhile() -> None:
        world.store.after_put = None
        await world.delete("harbour.txt")

    world.store.after_put = delete_meanwhile
    ended = await world.ingest(reingest=True)
    assert (await world.file("harbour.txt")).is_deleted
    assert ended.n_ingested == 0


async def test_a_file_that_is_gone_from_the_folder_survives_a_reingest(world: World) -> None:
    world.put(harbour=SHORT, ferry=LONG)
    await world.ingest()
    (world.docs / "harbour.txt").unlink()
    await world.ingest()
    known = await world.file("harbour.txt")
    assert (known.missing, known.live is not None) == (True, True)
    await world.change(CHUNK_SIZE="400", CHUNK_OVERLAP="50")
    ended = await world.ingest(reingest=True)
    active = (await world.corpus()).active or ""
    known = await world.file("harbour.txt")
    assert ended.n_ingested == 2
    assert known.passes[active].reached == "embedded"  # activating must not lose what the old profile had
    assert known.missing
    await world.delete("harbour.txt")
    await world.change(CHUNK_SIZE="500")
    assert (await world.ingest(reingest=True)).n_ingested == 1


async def test_a_file_that_is_gone_and_comes_back_unchanged_is_missing_no_more(world: World) -> None:
    world.put(harbour=SHORT)
    await world.ingest()
    (world.docs / "harbour.txt").unlink()
    await world.ingest()
    (known,) = await world.known_files(0)
    assert known.is_missing
    world.put(harbour=SHORT)
    before = dear(world)
    assert (await world.ingest()).n_ingested == 0
    assert dear(world) == before
    (known,) = await world.known_files(0)
    assert ((await world.file("harbour.txt")).missing, known.is_missing) == (False, False)
    await world.ingest()
    assert len(await world.events(file.FileFound)) == 1  # news once
    (world.docs / "harbour.txt").unlink()
    await world.ingest()
    assert (await world.file("harbour.txt")).missing


async def test_an_upload_is_awaited_until_it_was_seen_also_one_of_known_content(world: World) -> None:
    await world.upload("harbour.txt", SHORT)
    await world.ingest()
    assert [each.is_awaited for each in await world.known_files(0)] == [False]
    await world.upload("harbour.txt", SHORT)
    assert [each.is_awaited for each in await world.known_files(0)] == [True]
    assert (await world.ingest()).n_ingested == 0
    assert [each.is_awaited for each in await world.known_files(0)] == [False]
    (world.docs / "harbour.txt").unlink()
    await world.ingest()
    assert [each.is_missing for each in await world.known_files(0)] == [True]


async def test_an_upload_is_awaited_while_what_it_replaces_is_still_seen(world: World) -> None:
    await world.upload("harbour.txt", SHORT)
    await world.ingest()
    await world.upload("harbour.txt", LONG)
    world.put(harbour=SHORT)  # as if the new content had not come into the folder yet
    await world.ingest()
    assert [each.is_awaited for each in await world.known_files(0)] == [True]
    world.put(harbour=LONG)
    assert (await world.ingest()).n_ingested == 1
    assert [each.is_awaited for each in await world.known_files(0)] == [False]


async def test_a_file_that_goes_away_between_look_and_read_is_counted_and_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(known=SHORT, other=LONG)
    await world.ingest()
    world.put(known=SHORT + "More.", fresh=SHORT)

    def vanish(path: Path) -> bytes:
        if path.name in {"known.txt", "fresh.txt"}:
            path.unlink()
        return read_file(path)

    monkeypatch.setattr("loreline.processors.ingest.look.read_file", vanish)
    ended = await world.ingest()
    planned = (await world.events(corpus.OperationPlanned))[-1].event.payload
    assert isinstance(planned, corpus.OperationPlanned)
    assert (ended.n_ingested, planned.n_planned, planned.n_unsupported, planned.n_missing) == (0, 0, 2, 1)
    known = await world.file("known.txt")
    assert (known.live is not None, known.missing) == (True, True)
    assert (await world.file("fresh.txt")).version is None


async def test_what_a_file_becomes_between_look_and_read_is_never_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(fresh=SHORT)

    def turn_into_a_pipe(path: Path) -> bytes:
        path.unlink()
        os.mkfifo(path)
        return read_file(path)

    monkeypatch.setattr("loreline.processors.ingest.look.read_file", turn_into_a_pipe)
    assert (await world.ingest()).n_ingested == 0


async def test_a_long_version_costs_no_more_durable_writes_than_a_short_one(world: World) -> None:
    world.put(long="\n\n".join(f"{LONG}\n\nPart {n}." for n in range(12)))
    ended = await world.ingest()
    n_batches = -(-ended.n_chunks // 16)
    assert n_batches > 2
    assert world.embedder.calls == n_batches
    assert world.store.written == 2 + 4
