"""What a kill leaves undone in the corpus folder after its event is done at the next start, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx

from loreline.cli.attach import Attached
from loreline.wiring.hooks import Hooks
from tests.stack import ingest, stack_at, write

OLD, NEW, MINE = b"The tower is 41 metres tall.", b"The tower is 57 metres tall.", b"There is no tower."


@dataclass
class Kill:
    """A kill that strikes once the next event is in the log, and its writer does not know yet."""

    is_due: bool = False

    async def __call__(self) -> None:
        if self.is_due:
            self.is_due = False
            raise SystemError("the process dies here")


async def upload(client: Attached, name: str, data: bytes) -> int:
    answer = await client.http.post("/api/documents", files=[("files", (name, data))])
    return answer.status_code


async def delete(client: Attached, doc_id: str, *, key: str) -> httpx.Response:
    headers = {"Idempotency-Key": key}
    return await client.http.delete(f"/api/documents/{doc_id}?remove_file=true", headers=headers)


async def listed(client: Attached) -> dict[str, str]:
    return {each["relative_path"]: each["doc_id"] for each in await client.get("/api/documents")}


def held(docs: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in docs.iterdir() if path.is_file()}


async def test_an_upload_killed_after_its_event_replaces_what_it_was_to_replace(tmp_path: Path) -> None:
    kill, docs = Kill(), tmp_path / "docs"
    known = ("replaced.txt", "edited.txt", "put_back.txt", "same.txt")
    async with stack_at(tmp_path, files=dict.fromkeys(known, OLD), hooks=Hooks(after_append=kill)) as (
        _,
        client,
    ):
        await ingest(client)
        for name in ("replaced.txt", "edited.txt", "put_back.txt", "fresh.txt"):
            kill.is_due = True
            assert await upload(client, name, NEW) == 500
        assert await upload(client, "same.txt", OLD) == 201
        assert held(docs) == dict.fromkeys(known, OLD)
        write(docs, {"edited.txt": MINE, "put_back.txt": OLD})
    async with stack_at(tmp_path) as (_, client):
        assert held(docs) == {
            "replaced.txt": NEW,
            "edited.txt": MINE,
            "put_back.txt": OLD,  # written after the upload was asked for
            "fresh.txt": NEW,
            "same.txt": OLD,
        }
        run = await ingest(client)
        assert (run["summary"]["ingested"], run["summary"]["skipped"]) == (3, 2)  # type: ignore[index]
        (docs / "same.txt").unlink()
        (docs / "fresh.txt").unlink()
    async with stack_at(tmp_path):
        assert set(held(docs)) == {"replaced.txt", "edited.txt", "put_back.txt"}


async def test_a_delete_killed_after_its_event_takes_the_file_and_answers_a_retry(tmp_path: Path) -> None:
    kill, docs = Kill(), tmp_path / "docs"
    names = ("retried.txt", "killed.txt", "edited.txt", "put_back.txt")
    files = dict.fromkeys(names, OLD)
    async with stack_at(tmp_path, files=files, hooks=Hooks(after_append=kill)) as (_, client):
        await ingest(client)
        ids = await listed(client)
        for name in names:
            kill.is_due = True
            assert (await delete(client, ids[name], key=name)).status_code == 500
        assert set(held(docs)) == set(names)
        again = await delete(client, ids["retried.txt"], key="retried.txt")
        assert again.json() == {
            "doc_id": ids["retried.txt"], "chunks_deleted": 1, "file_removed": True, "pending_views": [],
        }  # fmt: skip
        assert "retried.txt" not in held(docs)
        assert (await delete(client, ids["retried.txt"], key="another")).status_code == 404
        write(docs, {"edited.txt": MINE, "put_back.txt": OLD})
    async with stack_at(tmp_path) as (_, client):
        assert held(docs) == {"edited.txt": MINE, "put_back.txt": OLD}
        again = await delete(client, ids["killed.txt"], key="killed.txt")
        assert (again.status_code, again.json()["file_removed"]) == (200, True)
        kept = await delete(client, ids["put_back.txt"], key="put_back.txt")
        assert (kept.status_code, kept.json()["file_removed"]) == (200, False)
        assert set(held(docs)) == {"edited.txt", "put_back.txt"}
