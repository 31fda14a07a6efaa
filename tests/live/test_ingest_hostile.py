"""A corpus nobody would wish for, on the real stack: every file ends in a clear state, and nothing hangs."""

from __future__ import annotations

import os
import random
import threading
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from loreline.cli.attach import Attached
from loreline.events.folds.corpus import CORPUS
from loreline.processors.models import EmbedderSettings
from loreline.schemas.ids import RAG_CORPUS
from loreline.wiring.stack import Stack
from tests.stack import ingest, stack_at, write

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

SMALL = EmbedderSettings(backend="hash", dim=32)
NFD = unicodedata.normalize("NFD", "crème brûlée.txt")
NFC = unicodedata.normalize("NFC", NFD)
ODD_NAMES = {
    NFD: "odd decomposed",
    "🚢 ferry — été.txt": "odd emoji",
    'it\'s "quoted" `so`.txt': "odd quotes",
    "two\nlines\tand a tab.txt": "odd newline",
    "%s {schema} $HOME ;drop table files.txt": "odd syntax",
    "n" * 251 + ".txt": "odd long",
    "d/" * 60 + "deep.txt": "odd deep",
    "UPPER.TXT": "odd upper",
    "日本語の文書.txt": "odd cjk 港の灯台は高い",
}
SAME = "The same words stand in both of these files, sameword."
VIEWS = ("passages", "lexical", "documents", "conversations", "settings", "operations")


@dataclass
class Corpus:
    """A running stack and what its first ingest came to."""

    stack: Stack
    client: Attached
    docs: Path
    summary: dict[str, int]

    async def documents(self) -> dict[str, dict[str, Any]]:
        listed = await self.client.get("/api/documents", include="failed")
        return {each["relative_path"]: each for each in listed}

    async def found(self, words: str, *, top_k: int = 10) -> set[str]:
        """The files whose chunks hold the words, as the word index and passages tell together."""
        profile = await profile_of(self.stack)
        hits = await self.stack.views.lexical.search(profile, words, top_k=top_k)
        numbers = [hit.original_index for hit in hits.hits]
        records = await self.stack.views.passages.records(profile, numbers)
        return {record.relative_path for record in records.values()}


async def profile_of(stack: Stack) -> str:
    return (await stack.core.appender.state(RAG_CORPUS, CORPUS)).active or ""


def long_text() -> str:
    """Five megabytes of words in paragraphs."""
    source = random.Random(5)
    words = [f"word{n}" for n in range(3000)]
    paragraphs: list[str] = []
    size = 0
    while size < 5_000_000:
        paragraphs.append(" ".join(source.choices(words, k=100)) + ".")
        size += len(paragraphs[-1]) + 2
    return "\n\n".join([*paragraphs, "At the very end stands endword."])


def plant(root: Path) -> None:
    """Everything at once."""
    docs = root / "docs"
    write(docs, {f"many/f{n:03}.txt": f"File {n} speaks of manyword{n}." for n in range(200)})
    write(docs, ODD_NAMES)
    write(docs, {NFC: "the composed twin, twinword"})
    write(docs, {"one/same.txt": SAME, "two/same.txt": SAME})
    write(docs, {"long.txt": long_text(), "empty.txt": "", "nul.txt": b"a\x00b nulword \xff\xfe\x00c"})
    write(
        docs,
        {".hidden.txt": "hiddenword", ".git/a.txt": "hiddenword", "loreline-exports/a.txt": "hiddenword"},
    )
    write(docs, {"Varagity-Exports/b.txt": "hiddenword", "binary.txt": os.urandom(4096)})
    write(root, {"outside.txt": "outsideword"})
    links: dict[str, str | Path] = {
        "link-out.txt": root / "outside.txt",
        "link-dir": root,
        "loop.txt": "loop.txt",
        "dangling.txt": "nowhere.txt",
        "loop": ".",
        "link-in.txt": "one/same.txt",
        "link-reserved.txt": "loreline-exports/a.txt",
    }
    for name, target in links.items():
        (docs / name).symlink_to(target)
    os.mkfifo(docs / "pipe.txt")
    (docs / "folder.txt").mkdir()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Corpus]:
    root = tmp_path_factory.mktemp("hostile")
    plant(root)
    async with stack_at(root, embedder=SMALL) as (stack, client):
        run = await ingest(client)
        assert run["state"] == "completed"
        summary = run["summary"]
        assert isinstance(summary, dict)
        yield Corpus(stack, client, root / "docs", summary)


async def test_every_file_that_can_be_read_is_listed_and_the_others_are_counted(corpus: Corpus) -> None:
    listed = await corpus.documents()
    odd = {unicodedata.normalize("NFC", name) for name in ODD_NAMES}
    many = {f"many/f{n:03}.txt" for n in range(200)}
    others = {"one/same.txt", "two/same.txt", "link-in.txt", "long.txt", "empty.txt", "nul.txt", "binary.txt"}
    assert set(listed) == many | odd | others
    assert {name for name, each in listed.items() if each["state"] != "embedded"} == {
        "empty.txt",
        "binary.txt",
        "nul.txt",
    }
    assert all(each["reason"] for each in listed.values() if each["state"] == "failed")
    refused = {"link-out.txt", "loop.txt", "dangling.txt", "link-reserved.txt", "pipe.txt", NFC}
    assert corpus.summary["unsupported"] == len(refused)
    assert corpus.summary["discovered"] == len(listed)


async def test_each_is_found_by_its_words_and_by_nothing_it_must_not_hold(corpus: Corpus) -> None:
    for number in (0, 77, 199):
        assert await corpus.found(f"manyword{number}", top_k=1) == {f"many/f{number:03}.txt"}
    for name, words in ODD_NAMES.items():
        assert unicodedata.normalize("NFC", name) in await corpus.found(words, top_k=20), name
    assert await corpus.found("港の灯台", top_k=1) == {"日本語の文書.txt"}
    assert await corpus.found("hiddenword") == set()
    assert await corpus.found("outsideword") == set()
    assert len(await corpus.found("twinword decomposed", top_k=1)) == 1


async def test_five_megabytes_are_one_document_found_to_its_last_word(corpus: Corpus) -> None:
    long = (await corpus.documents())["long.txt"]
    assert long["n_chunks"] > 3000
    assert await corpus.found("endword", top_k=1) == {"long.txt"}


async def test_the_same_content_in_two_places_is_two_documents(corpus: Corpus) -> None:
    assert await corpus.found("sameword") == {"one/same.txt", "two/same.txt", "link-in.txt"}
    listed = await corpus.documents()
    assert listed["one/same.txt"]["doc_id"] != listed["two/same.txt"]["doc_id"]
    gone = await corpus.client.http.delete(f"/api/documents/{listed['one/same.txt']['doc_id']}")
    assert (gone.status_code, gone.json()["pending_views"]) == (200, [])
    assert await corpus.found("sameword") == {"two/same.txt", "link-in.txt"}
    assert "two/same.txt" in await corpus.documents()


async def test_a_file_that_grows_while_it_is_read_is_taken_as_it_was_and_then_as_it_is(
    corpus: Corpus,
) -> None:
    path, stop = corpus.docs / "growing.txt", threading.Event()

    def grow() -> None:
        n = 0
        with path.open("a", buffering=1) as file:
            while not stop.is_set():
                n += 1
                file.write(f"Line {n} of a log that grows.\n")
                stop.wait(0.001)
            file.write("It stops at growthend.\n")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        first = await ingest(corpus.client)
    finally:
        stop.set()
        writer.join()
    assert first["state"] == "completed"
    assert (await corpus.documents())["growing.txt"]["state"] == "embedded"
    await ingest(corpus.client)
    assert await corpus.found("growthend", top_k=1) == {"growing.txt"}


async def test_a_second_look_changes_nothing_and_views_are_what_the_log_says(corpus: Corpus) -> None:
    before = await corpus.documents()
    run = await ingest(corpus.client)
    summary: Any = run["summary"]
    assert (summary["ingested"], summary["unsupported"]) == (0, corpus.summary["unsupported"])
    after = await corpus.documents()
    assert set(before) == set(after)
    for view in VIEWS:
        assert (await corpus.client.post(f"/api/views/{view}/verify"))["equal"], view


async def test_the_folder_may_go_away_and_nothing_is_lost(corpus: Corpus) -> None:
    before = await corpus.documents()
    corpus.docs.rename(corpus.docs.with_name("elsewhere"))
    run = await ingest(corpus.client)
    assert run["state"] == "completed"
    assert (await corpus.documents()).keys() == before.keys()
    corpus.docs.with_name("elsewhere").rename(corpus.docs)
    await ingest(corpus.client)
    assert (await corpus.documents()).keys() == before.keys()
