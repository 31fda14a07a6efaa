"""Views built anew and switched on the running stack, while it ingests, deletes and answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loreline.cli.attach import Attached
from tests.stack import ingest, stack_at, write

VIEWS = ("passages", "lexical", "documents", "conversations", "settings", "operations")


class Reader:
    """Asks and lists until stopped; every answer must be whole."""

    def __init__(self, client: Attached) -> None:
        self._client = client
        self.stopped = False
        self.answers = 0

    async def run(self) -> None:
        while not self.stopped:
            events: list[str] = []
            async for sent in self._client.stream(
                "POST", "/api/chat", {"query": "How tall is the keep of Varn?"}
            ):
                events.append(sent.event)
                if sent.event == "retrieval":
                    shown = [each["content"] for each in sent.data["chunks"]]
                if sent.event == "done":
                    assert "41 metres" in sent.data["answer"], (shown, sent.data, self.answers)
                assert sent.event != "error", sent.data
            assert (events[0], events[-1]) == ("retrieval", "done")
            listed = {each["relative_path"] for each in await self._client.get("/api/documents")}
            assert "keep.txt" in listed
            assert await self._client.get("/api/conversations")
            self.answers += 1


@pytest.mark.timeout(180)
async def test_nobody_notices_that_views_are_built_anew(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"keep.txt": "The keep of Varn is 41 metres tall."}
    files |= {f"f{n}.txt": f"File {n} speaks of nets and ropes number {n}." for n in range(15)}
    async with stack_at(tmp_path, files=files) as (_, client):
        await ingest(client)
        reader = Reader(client)
        reading = asyncio.create_task(reader.run())
        for turn in range(2):
            for name in VIEWS:
                write(tmp_path / "docs", {f"new-{turn}-{name}.txt": f"News of {name} in turn {turn}."})
                running, rebuilt = await asyncio.gather(
                    ingest(client), client.post(f"/api/views/{name}/rebuild")
                )
                assert running["state"] == "completed"
                assert rebuilt["equal"], name
        before = reader.answers
        while reader.answers < before + 1:
            await asyncio.sleep(0.01)
            assert not reading.done()
        reader.stopped = True
        await reading
        assert reader.answers > 3
        listed: Any = await client.get("/api/documents")
        assert len(listed) == len(files) + 2 * len(VIEWS)
        for name in VIEWS:
            assert (await client.post(f"/api/views/{name}/verify"))["equal"], name
