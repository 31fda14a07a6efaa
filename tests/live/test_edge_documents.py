"""Uploads, deletes and ingests: each file by itself, nothing outside the corpus, one run at a time."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from loreline.events.log import EventLog
from loreline.http_edge.routes import uploads
from tests.edge import Frame, ask, refused, stream
from tests.stack import ingest, stack_at, write

pytestmark = pytest.mark.asyncio(loop_scope="module")
KNOBS = {"UPLOAD_MAX_FILES": "20", "UPLOAD_MAX_MB": "1", "UPLOAD_MAX_TOTAL_MB": "3"}
Sent = Sequence[tuple[str, bytes]]


@dataclass(frozen=True)
class World:
    """A stack with an empty corpus, and where that corpus lies."""

    http: httpx.AsyncClient
    docs: Path
    attached: Any
    log: EventLog

    async def upload(
        self, files: Sent, *, headers: Mapping[str, str] | None = None, **fields: list[str]
    ) -> httpx.Response:
        parts = [("files", (name, data)) for name, data in files]
        return await self.http.post("/api/documents", files=parts, data=fields, headers=headers)

    async def documents(self) -> dict[str, dict[str, Any]]:
        listed: list[dict[str, Any]] = (await self.http.get("/api/documents")).json()
        return {each["relative_path"]: each for each in listed}

    async def ingest(self, **body: bool) -> dict[str, Any]:
        run = await ingest(self.attached, **body)
        assert run["state"] == "completed", run
        summary: dict[str, Any] = run["summary"]  # type: ignore[assignment]
        return summary


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    root = tmp_path_factory.mktemp("edge")
    async with stack_at(root, knobs=KNOBS) as (stack, attached):
        yield World(attached.http, (root / "docs").resolve(), attached, stack.core.log)


async def test_before_the_first_run_the_status_is_idle(world: World) -> None:
    async with stream(world.http, "GET", "/api/ingest/status") as status:
        assert await status.rest() == [Frame("status", {"run": None})]


async def test_a_file_is_stored_whole_under_its_name_and_taken_in_by_the_next_ingest(world: World) -> None:
    name = "ré sumé #1 100%.txt"
    response = await world.upload([(name, b"Ada Lovelace wrote the first program.\n")])
    assert response.status_code == 201
    assert response.json() == {
        "files": [
            {
                "file_name": name,
                "relative_path": name,
                "size_bytes": 38,
                "stored": True,
                "replaced": False,
                "reason": None,
            }
        ]
    }
    assert int(response.headers["X-Log-Seq"]) > 0
    assert (world.docs / name).read_bytes() == b"Ada Lovelace wrote the first program.\n"
    assert name not in await world.documents()
    assert (await world.ingest())["ingested"] == 1
    document = (await world.documents())[name]
    assert set(document) >= {
        "doc_id", "file_name", "file_type", "source", "relative_path", "content_hash", "n_chunks",
        "ingested_at", "extraction_mix",
    }  # fmt: skip
    assert (document["file_name"], document["file_type"], document["n_chunks"]) == (name, "txt", 1)
    assert document["source"] == str(world.docs / name)


async def test_a_name_composed_otherwise_is_the_same_file(world: World) -> None:
    composed = "Ängström.txt"
    taken_apart = unicodedata.normalize("NFD", composed)
    first = await world.upload([(taken_apart, b"one")])
    assert first.json()["files"][0]["relative_path"] == composed
    again = await world.upload([(composed, b"two")])
    assert again.json()["files"][0]["replaced"] is True
    (world.docs / composed).rename(world.docs / taken_apart)
    await world.upload([(composed, b"Unit of length.")])
    assert (world.docs / taken_apart).read_bytes() == b"Unit of length."
    assert not (world.docs / composed).exists()
    await world.ingest()
    found = (await world.documents())[composed]
    gone = await world.http.delete(f"/api/documents/{found['doc_id']}", params={"remove_file": "true"})
    assert gone.json()["file_removed"] is True
    assert not (world.docs / taken_apart).exists()


@pytest.mark.parametrize(
    ("name", "path", "reason"),
    [
        ("a.txt", "../a.txt", "invalid_path"),
        ("a.txt", "a/../../a.txt", "invalid_path"),
        ("a.txt", "/etc/a.txt", "invalid_path"),
        ("a.txt", "C:/a.txt", "invalid_path"),
        ("a.txt", "..\\a.txt", "invalid_path"),
        ("a.txt", "a//b.txt", "invalid_path"),
        ("a.txt", "a/./b.txt", "invalid_path"),
        ("a.txt", "a.txt/", "invalid_path"),
        ("a.txt", "a\0b.txt", "invalid_path"),
        ("a.txt", "a\nb.txt", "invalid_path"),
        ("a.txt", " /b.txt", "invalid_path"),
        ("a.txt", ".hidden.txt", "invalid_path"),
        ("a.txt", ".git/a.txt", "invalid_path"),
        ("a.txt", "n" * 241 + ".txt", "name_too_long"),
        ("a.txt", "ä" * 121 + ".txt", "name_too_long"),
        ("a.txt", "d/" * 16 + "a.txt", "path_too_deep"),
        ("a.txt", "varagity-exports/a.txt", "reserved_path"),
        ("a.txt", "Loreline-EXPORTS/x/a.txt", "reserved_path"),
        ("varagity-exports", "", "reserved_path"),
        ("a.exe", "", "extension_not_allowed"),
        ("noextension", "", "extension_not_allowed"),
        ("a.txt", "folder.txt/", "invalid_path"),
    ],
)
async def test_a_path_that_is_none_is_refused_and_nothing_is_written(
    world: World, name: str, path: str, reason: str
) -> None:
    before = sorted(world.docs.rglob("*"))
    response = await world.upload([(name, b"x"), ("good.txt", b"g")], paths=[path, ""])
    assert response.status_code == 201
    bad, good = response.json()["files"]
    assert (bad["stored"], bad["reason"], bad["relative_path"]) == (False, reason, None)
    assert (good["stored"], good["reason"]) == (True, None)
    alone = await world.upload([(name, b"x")], paths=[path])
    assert refused(alone) == (422, "no_file_stored")
    assert reason in alone.json()["error"]["message"]
    assert sorted(world.docs.rglob("*")) == sorted({*before, world.docs / "good.txt"})


@pytest.mark.parametrize(
    "path",
    [
        "12:30 meeting.txt",
        "Screenshot at 3.45\u202fPM.txt",
        "family \U0001f468\u200d\U0001f469\u200d\U0001f467.txt",
        "ドキュメント/資料.txt",
        "..two dots.md".lstrip("."),
        "a" * 236 + ".txt",
        "x/" * 15 + "deep.txt",
        "UPPER.TXT",
        "sub/varagity-exports/kept.txt",
        "varagity-exports.txt",
    ],
)
async def test_a_name_people_give_is_taken(world: World, path: str) -> None:
    response = await world.upload([("a.txt", b"words")], paths=[path])
    assert response.status_code == 201, response.text
    assert response.json()["files"][0]["relative_path"] == path
    assert (world.docs / path).read_bytes() == b"words"


async def test_a_link_that_leads_out_and_a_folder_in_the_way_are_no_place_for_a_file(world: World) -> None:
    outside = world.docs.parent / "outside"
    outside.mkdir()
    (world.docs / "out").symlink_to(outside)
    (world.docs / "loop").symlink_to("loop")
    (world.docs / "folder.txt").mkdir()
    write(world.docs, {"file.txt": "here"})
    for path in ("out/a.txt", "loop/a.txt", "folder.txt", "file.txt/a.txt"):
        assert refused(await world.upload([("a.txt", b"x")], paths=[path])) == (422, "no_file_stored"), path
    assert list(outside.iterdir()) == []
    (world.docs / "out").unlink()
    (world.docs / "loop").unlink()
    (world.docs / "folder.txt").rmdir()


async def test_a_batch_that_is_not_one_is_refused_before_a_byte_is_written(world: World) -> None:
    before = sorted(world.docs.rglob("*"))
    two: Sent = [("new1.txt", b"1"), ("new2.txt", b"2")]
    assert refused(await world.upload(two, paths=["a.txt"])) == (422, "paths_mismatch")
    assert refused(await world.upload(two, modified=["1", "2", "3"])) == (422, "modified_mismatch")
    many: Sent = [(f"new{n}.txt", b"1") for n in range(21)]
    assert refused(await world.upload(many)) == (422, "too_many_files")
    large: Sent = [(f"new{n}.txt", b"x" * 900_000) for n in range(4)]
    assert refused(await world.upload(large)) == (422, "batch_too_large")
    assert refused(await world.upload([("large.txt", b"x" * 1_000_001)])) == (422, "no_file_stored")
    for kind, body in (("application/json", b"{}"), ("multipart/form-data; boundary=b", b"--b--\r\n")):
        response = await world.http.post("/api/documents", content=body, headers={"Content-Type": kind})
        assert refused(response) == (422, "validation_error")
    assert sorted(world.docs.rglob("*")) == before


async def test_a_batch_without_an_announced_length_is_measured_while_it_comes(world: World) -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="endless.txt"\r\n\r\n'
        for _ in range(200):
            yield b"x" * 100_000
        yield b"\r\n--b--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    response = await world.http.post("/api/documents", content=endless(), headers=headers)
    assert refused(response) == (422, "batch_too_large")


async def test_a_file_keeps_the_time_its_client_says_it_has(world: World) -> None:
    sent: Sent = [("t1.txt", b"1"), ("t2.txt", b"2"), ("t3.txt", b"3")]
    response = await world.upload(sent, modified=["1600000000000", "", "nonsense"])
    assert [each["stored"] for each in response.json()["files"]] == [True, True, True]
    assert (world.docs / "t1.txt").stat().st_mtime == 1_600_000_000
    assert (world.docs / "t2.txt").stat().st_mtime > 1_600_000_000
    assert (world.docs / "t3.txt").stat().st_mtime > 1_600_000_000


async def test_a_repeated_upload_writes_nothing_again(world: World) -> None:
    key = {"Idempotency-Key": "upload-once"}
    first = await world.upload([("once.txt", b"first")], headers=key)
    write(world.docs, {"once.txt": "edited since"})
    await world.upload([("once.txt", b"second")])
    again = await world.upload([("once.txt", b"first")], headers=key)
    assert again.json() == first.json()
    assert again.headers["X-Log-Seq"] == first.headers["X-Log-Seq"]
    assert (world.docs / "once.txt").read_bytes() == b"second"


async def test_a_folder_that_cannot_be_written_to_is_told_and_nothing_is_promised(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise PermissionError("read-only")

    before = (await world.log.info()).last_seq
    monkeypatch.setattr(uploads, "put_aside", full)
    response = await world.upload([("a.txt", b"x")])
    assert refused(response) == (500, "docs_path_not_writable")
    mixed = await world.upload([("a.txt", b"x"), ("a.exe", b"x")])
    assert refused(mixed) == (500, "docs_path_not_writable")
    assert (await world.log.info()).last_seq == before


async def test_the_same_content_at_two_paths_is_two_documents_and_an_empty_file_has_no_text(
    world: World,
) -> None:
    sent: Sent = [("same.txt", b"Twice told tale."), ("same.txt", b"Twice told tale."), ("empty.txt", b"")]
    response = await world.upload(sent, paths=["q3/same.txt", "q4/same.txt", ""])
    assert [each["relative_path"] for each in response.json()["files"]] == [
        "q3/same.txt",
        "q4/same.txt",
        "empty.txt",
    ]
    await world.ingest()
    documents = await world.documents()
    one, other = documents["q3/same.txt"], documents["q4/same.txt"]
    assert one["content_hash"] == other["content_hash"]
    assert one["doc_id"] != other["doc_id"]
    assert documents["empty.txt"]["n_chunks"] == 0


async def test_a_replaced_file_is_taken_in_anew(world: World) -> None:
    await world.upload([("tower.txt", b"The tower is 41 metres tall.")])
    await world.ingest()
    before = (await world.documents())["tower.txt"]
    response = await world.upload([("tower.txt", b"The tower is 57 metres tall.")])
    assert response.json()["files"][0]["replaced"] is True
    assert (await world.ingest())["ingested"] == 1
    after = (await world.documents())["tower.txt"]
    assert after["doc_id"] != before["doc_id"]
    evidence = (await ask(world.http, "Is the tower tall?"))[0].data["chunks"]
    of_the_tower = [
        each["content"] for each in evidence if each["doc_id"] in (before["doc_id"], after["doc_id"])
    ]
    assert of_the_tower == ["The tower is 57 metres tall."]


async def test_a_delete_takes_the_file_and_the_folders_it_leaves_empty(world: World) -> None:
    await world.upload([("a.txt", b"Alone in a folder.")], paths=["deep/er/alone.txt"])
    await world.upload([("a.txt", b"Not alone.")], paths=["deep/other.txt"])
    await world.ingest()
    alone = (await world.documents())["deep/er/alone.txt"]["doc_id"]
    gone = await world.http.delete(f"/api/documents/{alone}?remove_file=true")
    assert gone.status_code == 200
    assert gone.json() == {"doc_id": alone, "chunks_deleted": 1, "file_removed": True, "pending_views": []}
    assert not (world.docs / "deep/er").exists()
    assert (world.docs / "deep/other.txt").exists()
    assert refused(await world.http.delete(f"/api/documents/{alone}")) == (404, "document_not_found")
    seq = gone.headers["X-Log-Seq"]
    listed = await world.attached.get("/api/documents", min_seq=seq)
    assert alone not in [each["doc_id"] for each in listed]


async def test_a_deleted_file_still_there_stays_out_until_it_changes_or_is_asked_for(world: World) -> None:
    await world.upload([("stay.txt", b"Once upon a time.")])
    await world.ingest()
    doc_id = (await world.documents())["stay.txt"]["doc_id"]
    await world.http.delete(f"/api/documents/{doc_id}")
    assert (await world.ingest())["ingested"] == 0
    assert "stay.txt" not in await world.documents()
    assert (await world.ingest(again=True))["ingested"] == 1
    assert (await world.documents())["stay.txt"]["doc_id"] == doc_id
    await world.http.delete(f"/api/documents/{doc_id}")
    write(world.docs, {"stay.txt": "Twice upon a time."})
    assert (await world.ingest())["ingested"] == 1


async def test_several_are_deleted_at_once_and_unknown_ids_are_named(world: World) -> None:
    await world.upload([("b1.txt", b"First of the batch."), ("b2.txt", b"Second of the batch.")])
    await world.ingest()
    documents = await world.documents()
    ids = [documents[name]["doc_id"] for name in ("b2.txt", "b1.txt")]
    asked = [ids[0], "0" * 16, ids[1], ids[0], "\0", "é"]
    response = await world.http.post(
        "/api/documents/delete", json={"doc_ids": asked}, params={"remove_file": "1"}
    )
    assert response.status_code == 200
    assert [each["doc_id"] for each in response.json()["deleted"]] == ids
    assert all(each["file_removed"] for each in response.json()["deleted"])
    assert response.json()["not_found"] == ["0" * 16, "\0", "é"]
    again = await world.http.post("/api/documents/delete", json={"doc_ids": ids})
    assert again.json() == {"deleted": [], "not_found": ids}


async def test_one_run_at_a_time_and_every_reader_sees_it_from_its_first_frame(world: World) -> None:
    await world.upload([(f"run{n}.txt", f"Text number {n}.".encode()) for n in range(15)])
    key = {"Idempotency-Key": "run-once"}
    first = await world.http.post("/api/ingest", headers=key)
    second = await world.http.post("/api/ingest")
    repeated = await world.http.post("/api/ingest", headers=key)
    assert first.status_code == repeated.status_code == 202
    assert refused(second) == (409, "ingest_already_running")
    run = first.json()
    assert set(run) == {"run_id", "state", "reingest", "started_at", "finished_at", "summary", "error"}
    assert (run["state"], run["reingest"], run["summary"]) == ("running", False, None)
    assert repeated.json()["run_id"] == run["run_id"]

    async def read() -> list[Frame]:
        async with stream(world.http, "GET", "/api/ingest/status") as status:
            assert status.response.headers["Content-Type"].startswith("text/event-stream")
            return await status.rest()

    async with stream(world.http, "GET", "/api/ingest/status") as status:
        await status.until("progress")  # and this reader goes away in the middle
    readers = [*await asyncio.gather(read(), read())]
    readers.append(await read())
    for frames in readers:
        assert frames[0].event == frames[-1].event == "status"
        assert frames[-1].data["run"]["state"] == "completed"
        assert frames[-1].data["run"]["finished_at"] is not None
        assert frames[-1].data["run"]["summary"]["ingested"] == 15
        progress = [each.data for each in frames if each.event == "progress"]
        assert all(
            set(each) - {"reason"}
            == {"stage", "file", "outcome", "current", "total", "files_done", "files_total"}
            for each in progress
        )
        stages = [each["stage"] for each in progress if each["file"] == "run3.txt"]
        assert list(dict.fromkeys(stages)) == [
            "parse", "chunk", "contextualize", "embed", "store", "file_done",
        ]  # fmt: skip
        done = [each for each in progress if each["stage"] == "file_done"]
        assert [each["outcome"] for each in done] == ["ingested"] * 15
        assert (done[-1]["files_done"], done[-1]["files_total"]) == (15, 15)
    assert readers[2][0].data == readers[2][-1].data
    after = await world.http.post("/api/ingest", headers=key)
    assert after.json() == readers[2][-1].data["run"]


async def test_a_file_that_cannot_be_read_is_the_files_own_failure(world: World) -> None:
    await world.upload([("broken.pdf", b"%PDF-1.4 this is not one")])
    await world.http.post("/api/ingest")
    async with stream(world.http, "GET", "/api/ingest/status") as status:
        frames = await status.rest()
    failed = [each.data for each in frames if each.data.get("outcome") == "failed"]
    assert [each["file"] for each in failed] == ["broken.pdf"]
    assert any(each.event == "log" and each.data["level"] == "ERROR" for each in frames)
    assert frames[-1].data["run"]["state"] == "completed"
    assert frames[-1].data["run"]["summary"]["failed"] == 1
    assert "broken.pdf" not in await world.documents()
    (listed,) = [
        each
        for each in await world.attached.get("/api/documents", include="failed")
        if each["relative_path"] == "broken.pdf"
    ]
    assert (listed["state"], listed["n_chunks"]) == ("failed", 0)
    assert listed["reason"]
    gone = await world.http.delete(f"/api/documents/{listed['doc_id']}", params={"remove_file": "true"})
    assert gone.json() == {
        "doc_id": listed["doc_id"], "chunks_deleted": 0, "file_removed": True, "pending_views": [],
    }  # fmt: skip
    assert not (world.docs / "broken.pdf").exists()
    listed_now = await world.attached.get("/api/documents", include="failed")
    assert "broken.pdf" not in [each["relative_path"] for each in listed_now]
