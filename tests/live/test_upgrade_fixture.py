"""Data that a released program wrote is served by this one: views from the log, nothing parsed again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from loreline.cli.attach import Attached
from tests.fixtures.make_data_fixture import QUESTION
from tests.stack import ingest, stack_at

FIXTURES = Path(__file__).parents[1] / "fixtures"
RELEASES = sorted(path.name for path in FIXTURES.glob("data-*"))
MAX_BYTES = 300_000


def test_a_data_directory_of_a_release_is_kept_and_small() -> None:
    assert RELEASES
    for release in RELEASES:
        sizes = [path.stat().st_size for path in (FIXTURES / release).rglob("*") if path.is_file()]
        assert sum(sizes) < MAX_BYTES


def placed(release: str, root: Path) -> None:
    """A copy with the modes of a data directory: a checkout knows none."""
    shutil.copytree(FIXTURES / release, root, dirs_exist_ok=True)
    for path in (root / "data").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


async def answer(client: Attached) -> dict[str, object]:
    last: dict[str, object] = {}
    async for sent in client.stream("POST", "/api/chat", {"query": QUESTION}):
        if sent.event == "done":
            last = sent.data
    return last


@pytest.mark.parametrize("release", RELEASES)
async def test_data_of_a_release_is_found_and_answers(release: str, tmp_path: Path) -> None:
    placed(release, tmp_path)
    n_blobs = sum(len(files) for _, _, files in os.walk(tmp_path / "data" / "blobs"))
    async with stack_at(tmp_path) as (stack, client):
        last_seq = (await stack.core.log.info()).last_seq
        assert await stack.host.wait(last_seq, views=tuple(stack.host.runners), timeout_s=30)
        documents = await client.get("/api/documents")
        assert {each["relative_path"]: each["n_chunks"] for each in documents} == {
            "harbour.md": 1,
            "ferry/timetable.txt": 1,
            "empty.txt": 0,
        }
        (conversation,) = await client.get("/api/conversations")
        found = await client.get(f"/api/conversations/{conversation['conversation_id']}")
        question, said = found["messages"]
        assert question["content"] == QUESTION
        assert "41 metres" in said["content"]
        assert said["sources"][0]["trace"]["file_name"] == "harbour.md"
        run = await ingest(client)
        assert run["summary"]["ingested"] == 0  # type: ignore[index]
        assert run["summary"]["skipped"] == 3  # type: ignore[index]
        assert (
            sum(len(files) for _, _, files in os.walk(tmp_path / "data" / "blobs")) <= n_blobs + 1
        )  # a plan
        again = await answer(client)
        assert again["answer"] == said["content"]
        for view in stack.host.runners:
            assert (await stack.host.verify(view)).is_equal
