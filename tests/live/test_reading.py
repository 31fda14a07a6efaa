"""Reading in real child processes: limits hold, crashes stay outside, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from loreline.processors.chunkers import CHUNKERS
from loreline.processors.parsers import read
from loreline.processors.parsers.isolation import Reader
from loreline.schemas.errors import DependencyDown, DocumentError

CORPUS = Path(__file__).parents[2] / "docs"
SLOW_PAGE = b"<p>a</p>" * 4_000_000


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    made = Reader(1)
    yield made
    await made.close()


def children(pid: int) -> set[int]:
    """The processes below one, from /proc."""
    return {
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    }


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pids: set[int], *, limit_s: float) -> Iterator[int]:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and any(map(alive, pids)):
        time.sleep(0.02)
    return filter(alive, pids)


async def test_the_sample_corpus_is_read_as_in_this_process(reader: Reader) -> None:
    paths = sorted(
        path for path in CORPUS.iterdir() if path.suffix in (".md", ".txt", ".html", ".docx", ".pdf")
    )
    assert len(paths) >= 5
    for path in paths:
        doc = await reader.read(path.read_bytes(), suffix=path.suffix)
        if path.suffix != ".docx":
            assert doc == read(path.read_bytes(), suffix=path.suffix)
        chunks = CHUNKERS["recursive_character"](doc, chunk_size=1600, chunk_overlap=200, count_tokens=len)
        assert chunks


async def test_a_document_error_crosses_the_process_with_its_code(reader: Reader) -> None:
    with pytest.raises(DocumentError) as caught:
        await reader.read(b"\x89PNG\r\n\x1a\nxx", suffix=".txt")
    assert caught.value.code == "binary_content"
    assert "PNG" in str(caught.value)


async def test_a_time_out_ends_the_document_and_the_next_is_read_without_blocking_the_loop() -> None:
    reader = Reader(1, timeout_s=1.0)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.02)
            ticks += 1

    ticking = asyncio.create_task(tick())
    with pytest.raises(DocumentError) as caught:
        await reader.read(SLOW_PAGE, suffix=".html")
    assert caught.value.code == "parse_timeout"
    assert ticks > 20
    assert (await reader.read(b"next", suffix=".txt")).text == "next"
    ticking.cancel()
    await reader.close()


async def test_too_much_memory_is_this_documents_failure_only() -> None:
    reader = Reader(1, memory_bytes=250 * 1024**2)
    with pytest.raises(DocumentError) as caught:
        await reader.read("é\n\n".encode() * 6_000_000, suffix=".txt")
    assert caught.value.code in ("parse_memory", "parse_crashed")
    assert (await reader.read(b"next", suffix=".txt")).text == "next"
    await reader.close()


async def test_a_killed_worker_is_replaced() -> None:
    reader = Reader(1)
    await reader.read(b"warm", suffix=".txt")
    before = children(os.getpid())
    reading = asyncio.create_task(reader.read(SLOW_PAGE, suffix=".html"))
    await asyncio.sleep(0.5)
    for pid in before:
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(DocumentError) as caught:
        await reading
    assert caught.value.code == "parse_crashed"
    assert (await reader.read(b"next", suffix=".txt")).text == "next"
    await reader.close()


async def test_a_worker_killed_while_idle_costs_no_document() -> None:
    reader = Reader(1)
    await reader.read(b"warm", suffix=".txt")
    for pid in children(os.getpid()):
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    for word in ("one", "two", "three"):
        assert (await reader.read(word.encode(), suffix=".txt")).text == word
    await reader.close()


async def test_workers_are_recycled() -> None:
    reader = Reader(1, max_tasks=2)
    texts = [(await reader.read(f"file {at}".encode(), suffix=".txt")).text for at in range(5)]
    assert texts == [f"file {at}" for at in range(5)]
    await reader.close()


async def test_closing_is_quick_even_in_the_middle_of_a_document_and_blames_no_document() -> None:
    reader = Reader(2)
    await reader.read(b"warm", suffix=".txt")
    reading = asyncio.create_task(reader.read(SLOW_PAGE, suffix=".html"))
    await asyncio.sleep(0.3)
    workers = {
        pid for pid in children(os.getpid()) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }
    began = time.monotonic()
    await reader.close()
    assert time.monotonic() - began < 8  # the page takes far longer
    with pytest.raises(DependencyDown):
        await reading
    with pytest.raises(DependencyDown):
        await reader.read(b"late", suffix=".txt")
    assert list(wait_until_gone(workers, limit_s=1)) == []
    await reader.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_killed_parent_leaves_no_worker() -> None:
    program = (
        "import asyncio\n"
        "from loreline.processors.parsers.isolation import Reader\n"
        "async def main():\n"
        "    reader = Reader(2)\n"
        "    await asyncio.gather(*(reader.read(b'x', suffix='.txt') for _ in range(4)))\n"
        "    print('ready', flush=True)\n"
        "    await reader.read(b'<p>a</p>' * 4_000_000, suffix='.html')\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        workers = children(parent.pid)
        assert len(workers) >= 2
        parent.kill()
    assert list(wait_until_gone(workers, limit_s=3)) == []


async def test_a_word_bomb_of_tags_is_read_whole(reader: Reader) -> None:
    page = b"<div>" * 200_000 + b"deep words" + b"</div>" * 200_000 + b"<p>after</p>"
    assert (await reader.read(page, suffix=".html")).text.split() == ["deep", "words", "after"]


async def test_a_damaged_file_is_corrupt_and_not_a_crash(reader: Reader) -> None:
    with pytest.raises(DocumentError) as caught:
        await reader.read(b"%PDF-1.7 cut off", suffix=".pdf")
    assert caught.value.code == "corrupt"
