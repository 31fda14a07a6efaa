"""The main job, end to end on the embedded servers: files in, a cited answer out, and still there later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loreline.cli.attach import Attached
from tests.stack import ingest, stack_at, write

FILES: dict[str, str | bytes] = {
    "harbour.md": "# Harbour\n\nThe lighthouse of Varn is 41 metres tall.\n\nIt was built in 1883.\n",
    "ferry/timetable.txt": "The last ferry to Osmund leaves at 18:20.\n\nDogs travel free of charge.\n",
    "empty.txt": "",
    "broken.pdf": b"%PDF-1.4 this is not one",
    "notes.xyz": "not taken in",
}


async def turn(
    client: Attached, question: str, **body: Any
) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    events: list[str] = []
    retrieval: dict[str, Any] = {}
    done: dict[str, Any] = {}
    async for sent in client.stream("POST", "/api/chat", {"query": question, **body}):
        events.append(sent.event)
        if sent.event == "retrieval":
            retrieval = sent.data
        elif sent.event in {"done", "error"}:
            done = sent.data
    return events, retrieval, done


async def test_files_become_a_cited_answer_that_survives_a_restart(tmp_path: Path) -> None:
    async with stack_at(tmp_path, files=FILES) as (_, client):
        run = await ingest(client)
        assert run["state"] == "completed"
        assert run["summary"] == {
            "discovered": 4,
            "ingested": 2,
            "skipped": 0,
            "no_text": 1,
            "failed": 1,
            "unsupported": 1,
            "chunks": 2,
        }
        documents = await client.get("/api/documents")
        assert {each["relative_path"]: each["n_chunks"] for each in documents} == {
            "harbour.md": 1,
            "ferry/timetable.txt": 1,
            "empty.txt": 0,
        }
        events, retrieval, done = await turn(client, "How tall is the lighthouse of Varn?")
        assert events[0] == "retrieval"
        assert events[-1] == "done"
        assert "41 metres" in done["answer"]
        (citation,) = done["citations"][:1]
        cited = next(c for c in retrieval["chunks"] if c["trace"]["final_rank"] == citation["mark"])
        assert cited["metadata"]["relative_path"] == "harbour.md"
        assert citation["quote"] in cited["content"]
    async with stack_at(tmp_path) as (_, client):
        conversations = await client.get("/api/conversations")
        assert [each["message_count"] for each in conversations] == [2]
        detail = await client.get(f"/api/conversations/{conversations[0]['conversation_id']}")
        assert detail["messages"][1]["content"] == done["answer"]
        assert detail["messages"][1]["sources"][0]["trace"]["file_name"]
        again = await ingest(client)
        assert again["summary"] == {
            "discovered": 4,
            "ingested": 0,
            "skipped": 3,
            "no_text": 0,
            "failed": 1,
            "unsupported": 1,
            "chunks": 0,
        }
        _, _, same = await turn(client, "How tall is the lighthouse of Varn?")
        assert same["answer"] == done["answer"]


async def test_a_changed_file_replaces_its_old_text_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    async with stack_at(tmp_path, files=FILES) as (_, client):
        await ingest(client)
        write(tmp_path / "docs", {"harbour.md": "The lighthouse of Varn is 57 metres tall.\n"})
        await ingest(client)
        _, retrieval, done = await turn(client, "How tall is the lighthouse of Varn?")
        assert "57 metres" in done["answer"]
        assert not any("41 metres" in chunk["content"] for chunk in retrieval["chunks"])
        documents = {each["relative_path"]: each["doc_id"] for each in await client.get("/api/documents")}
        gone = await client.http.delete(f"/api/documents/{documents['harbour.md']}")
        assert gone.json() == {
            "doc_id": documents["harbour.md"],
            "chunks_deleted": 1,
            "file_removed": False,
            "pending_views": [],
        }
        _, retrieval, _ = await turn(client, "How tall is the lighthouse of Varn?")
        assert all(chunk["metadata"]["relative_path"] != "harbour.md" for chunk in retrieval["chunks"])
        assert (await ingest(client))["summary"]["ingested"] == 0  # type: ignore[index]
        for view in ("passages", "lexical", "documents", "conversations", "settings", "operations"):
            found = await client.post(f"/api/views/{view}/verify")
            assert found["equal"], view
