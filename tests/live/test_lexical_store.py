"""The lexical view on a real SQLite file: what is written is found, at its sequence, and stays."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from loreline.projectors.lexical import (
    AddDocument,
    CheckpointLost,
    LexicalChange,
    LexicalChunk,
    LexicalResult,
    LexicalSearcher,
    LexicalStore,
    LexicalStoreUnusable,
    RetireDocument,
)
from loreline.schemas.errors import NotReady

WORDS = (
    "harbor",
    "light",
    "storm",
    "keeper",
    "ledger",
    "rope",
    "ERR_2041",
    "readLine",
    "v1.2.3",
    "東京都",
    "маяк",
)
QUERIES = ("keeper of the storm", "ERR_2041 read line", "東京", "маяк harbor harbor", "anchor v1.2.3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lexical.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[LexicalStore]:
    store = LexicalStore.open(path)
    yield store
    store.close()


@pytest.fixture
def searcher(path: Path, store: LexicalStore) -> Iterator[LexicalSearcher]:
    searcher = LexicalSearcher(path)
    yield searcher
    searcher.close()


def document(seq: int, *texts: str, file_id: str = "f", doc_id: str | None = None) -> AddDocument:
    name = doc_id or f"d{seq}"
    chunks = [
        LexicalChunk(f"{name}-{i}", seq << 20 | i, text, f"From {file_id}.\n\n{text}")
        for i, text in enumerate(texts)
    ]
    return AddDocument(file_id, name, seq, chunks)


def apply(store: LexicalStore, *changes: LexicalChange) -> None:
    old_seq, _ = store.checkpoint()
    new_seq = max(change.seq for change in changes)
    store.apply(changes, old_seq=old_seq, new_seq=new_seq, event_id=f"event-{new_seq}")


def ids(result: LexicalResult) -> list[str]:
    return [hit.chunk_id for hit in result.hits]


def history(n_steps: int, *, seed: int = 5) -> list[LexicalChange]:
    """A made-up life of ten files: versions added, replaced, retired by version and by file."""
    rng = random.Random(seed)
    changes: list[LexicalChange] = []
    for seq in range(1, n_steps + 1):
        file_id = f"file{rng.randrange(10)}"
        kind = rng.random()
        if kind < 0.7:
            texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(rng.randint(0, 4))]
            changes.append(document(seq, *texts, file_id=file_id, doc_id=f"{file_id}v{rng.randrange(2)}"))
        elif kind < 0.85:
            changes.append(RetireDocument(seq, file_id=file_id))
        else:
            changes.append(RetireDocument(seq, doc_id=f"{file_id}v{rng.randrange(2)}"))
    return changes


def built(path: Path, changes: Sequence[LexicalChange]) -> list[LexicalResult]:
    """What a store fed with exactly these changes at once answers to QUERIES."""
    store = LexicalStore.open(path)
    if changes:
        apply(store, *changes)
    store.close()
    return answers(path)


def answers(path: Path) -> list[LexicalResult]:
    searcher = LexicalSearcher(path)
    results = [searcher.search(query, top_k=50) for query in QUERIES]
    searcher.close()
    return results


def test_what_is_added_is_found_and_what_is_retired_is_not(
    store: LexicalStore, searcher: LexicalSearcher
) -> None:
    assert searcher.search("lamp", top_k=5) == LexicalResult([], 0)
    apply(store, document(3, "the lamp burns", "no light"), document(4, "an old lamp", file_id="g"))
    found = searcher.search("lamps", top_k=5)
    assert (ids(found), found.as_of_seq) == (["d3-0", "d4-0"], 4)
    assert found.hits[0].original_index == 3 << 20
    apply(store, RetireDocument(6, file_id="f"))
    assert ids(searcher.search("lamps", top_k=5)) == ["d4-0"]
    apply(store, RetireDocument(7, doc_id="d4"), RetireDocument(8, doc_id="never was"))
    assert searcher.search("lamps", top_k=5) == LexicalResult([], 8)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ERR_2041", "d1-0"),
        ("err 2041", "d1-0"),
        ("v1.2.3", "d1-1"),
        ("differential executor", "d1-2"),
        ("newDifferentialExecutor", "d1-2"),
        ("маяки", None),
        ("маяк", "d1-3"),
        ("東京", "d1-4"),
        ("京", "d1-4"),
        ("file zebra", "d1-5"),
    ],
)
def test_names_and_other_scripts_are_found(
    store: LexicalStore, searcher: LexicalSearcher, query: str, expected: str | None
) -> None:
    texts = ("failed with ERR_2041 again", "since v1.2.3 only", "call newDifferentialExecutor()")
    apply(store, document(1, *texts, "старый маяк", "彼は東京都に住む", "plain", file_id="zebra"))
    found = ids(searcher.search(query, top_k=1))
    if query == "file zebra":  # the blurb alone holds the word, in every chunk alike but for their lengths
        assert len(ids(searcher.search(query, top_k=9))) == 6
    else:
        assert found == ([expected] if expected else [])


def test_equal_scores_go_by_chunk_id(store: LexicalStore, searcher: LexicalSearcher) -> None:
    apply(store, *(document(seq, "same words", doc_id=name) for seq, name in enumerate("cadb", start=1)))
    assert ids(searcher.search("words", top_k=3)) == ["a-0", "b-0", "c-0"]


@pytest.mark.parametrize("query", ["", "  ", "the of and", "\x00", "\ud800", "?!", "_" * 50])
def test_a_question_without_words_has_no_hits(
    store: LexicalStore, searcher: LexicalSearcher, query: str
) -> None:
    apply(store, document(1, "the words"))
    assert searcher.search(query, top_k=5) == LexicalResult([], 1)
    assert searcher.search(query, top_k=5, as_of_seq=1) == LexicalResult([], 1)


def test_a_question_of_a_megabyte_is_cut(store: LexicalStore, searcher: LexicalSearcher) -> None:
    apply(store, document(1, "the words"))
    query = "words " + " ".join(f"w{i}" for i in range(150_000))
    assert ids(searcher.search(query, top_k=5)) == ["d1-0"]


def test_text_with_nul_and_lone_surrogates_is_kept_and_found(
    store: LexicalStore, searcher: LexicalSearcher
) -> None:
    apply(store, document(1, "before\x00after \ud83d broken"))
    assert ids(searcher.search("after", top_k=5)) == ["d1-0"]
    assert [row[6] for row in store.rows() if row[0] == "chunk"] == ["before\x00after \ufffd broken"]


def test_a_closed_and_reopened_store_answers_the_same(path: Path) -> None:
    changes = history(60)
    before = built(path, changes)
    store = LexicalStore.open(path)
    assert store.checkpoint() == (60, "event-60")
    store.close()
    assert answers(path) == before
    assert any(result.hits for result in before)


def test_step_by_step_equals_at_once(path: Path, tmp_path: Path) -> None:
    changes = history(60)
    store, searcher = LexicalStore.open(path), LexicalSearcher(path)
    for change in changes:
        apply(store, change)
        searcher.search("storm", top_k=3)
    assert [searcher.search(query, top_k=50) for query in QUERIES] == built(tmp_path / "other", changes)
    at_once = LexicalStore.open(tmp_path / "other")
    assert list(store.rows()) == list(at_once.rows())
    for open_store in (store, at_once):
        open_store.close()
    searcher.close()


def test_the_past_is_as_a_store_that_stopped_there(path: Path, tmp_path: Path) -> None:
    changes = history(60)
    built(path, changes)
    searcher = LexicalSearcher(path)
    for seq in (0, 1, 7, 23, 42, 59, 60):
        stopped = built(tmp_path / f"stopped{seq}", changes[:seq])
        assert [searcher.search(query, top_k=50, as_of_seq=seq) for query in QUERIES] == stopped
    with pytest.raises(NotReady, match="not yet 61"):
        searcher.search("storm", top_k=1, as_of_seq=61)
    searcher.close()


class Reader(threading.Thread):
    """Searches until told to stop, and tells the writer how far its answers have come."""

    def __init__(self, searcher: LexicalSearcher, first_query: int) -> None:
        super().__init__()
        self._searcher, self._first_query = searcher, first_query
        self._stop_asked, self._answered = False, threading.Condition()
        self.found: list[tuple[int, LexicalResult]] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stop_asked:
                query = (len(self.found) + self._first_query) % len(QUERIES)
                result = self._searcher.search(QUERIES[query], top_k=50)
                with self._answered:
                    self.found.append((query, result))
                    self._answered.notify()
        except Exception as error:
            self.failure = error

    def reaches(self, seq: int) -> bool:
        with self._answered:
            return self._answered.wait_for(
                lambda: bool(self.found) and self.found[-1][1].as_of_seq >= seq, timeout=10
            )

    def stop(self) -> None:
        self._stop_asked = True
        self.join()


def test_searches_beside_a_writer_equal_a_fresh_build_at_their_sequence(path: Path, tmp_path: Path) -> None:
    changes = history(120, seed=9)
    store, searcher = LexicalStore.open(path), LexicalSearcher(path)
    readers = [Reader(searcher, number) for number in range(3)]
    for reader in readers:
        reader.start()
    for change in changes:
        apply(store, change)
        assert change.seq % 10 or readers[change.seq % 3].reaches(change.seq)
    for reader in readers:
        reader.stop()
        sequences = [result.as_of_seq for _, result in reader.found]
        assert (reader.failure, sequences) == (None, sorted(sequences))
    results = [found for reader in readers for found in reader.found]
    sampled = sorted({result.as_of_seq for _, result in results})[::2]
    assert len(sampled) >= 6
    for seq in sampled:
        fresh = built(tmp_path / f"fresh{seq}", changes[:seq])
        assert all(result == fresh[query] for query, result in results if result.as_of_seq == seq)
    store.close()
    searcher.close()


def test_a_failure_inside_the_transaction_leaves_the_old_state(
    store: LexicalStore, searcher: LexicalSearcher
) -> None:
    apply(store, document(1, "old lamp"))
    rows, found = list(store.rows()), searcher.search("lamp", top_k=5)
    twice = document(3, "new lamp", doc_id="other")
    clash = AddDocument("g", "another", 3, twice.chunks)
    with pytest.raises(LexicalStoreUnusable, match="rebuild"):
        apply(store, RetireDocument(2, doc_id="d1"), twice, clash)
    assert store.checkpoint() == (1, "event-1")
    assert list(store.rows()) == rows
    assert searcher.search("lamp", top_k=5) == found


@pytest.mark.parametrize("point", ["UPDATE state", "UPDATE documents", "INSERT INTO forward", "COMMIT"])
def test_a_writer_killed_inside_its_transaction_leaves_the_old_state(path: Path, point: str) -> None:
    before = built(path, history(20))
    child = os.fork()
    if child == 0:
        try:
            store = LexicalStore.open(path)
            store._connection.set_trace_callback(
                lambda sql: os.kill(os.getpid(), signal.SIGKILL) if sql.startswith(point) else None
            )
            apply(store, RetireDocument(21, file_id="file1"), document(22, "never seen", doc_id="late"))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert answers(path) == before
    store = LexicalStore.open(path)
    assert store.checkpoint() == (20, "event-20")
    apply(store, document(22, "seen now"))
    store.close()


def test_a_lost_checkpoint_stops_the_second_writer(path: Path, store: LexicalStore) -> None:
    second = LexicalStore.open(path)
    apply(store, document(1, "first"))
    rows = list(store.rows())
    with pytest.raises(CheckpointLost, match="stop one"):
        second.apply([document(1, "second")], old_seq=0, new_seq=1, event_id="event-1")
    assert list(store.rows()) == rows
    second.close()


def test_a_repeated_document_is_stored_once(store: LexicalStore, searcher: LexicalSearcher) -> None:
    apply(store, document(1, "lamp", doc_id="d"), document(1, "lamp", doc_id="d"))
    assert len(list(store.rows())) == 2
    apply(store, document(2, "lamp", doc_id="d"))
    assert ids(searcher.search("lamp", top_k=5)) == ["d-0"]


def test_a_change_outside_its_step_is_refused(store: LexicalStore) -> None:
    with pytest.raises(ValueError, match="above sequence 4"):
        store.apply([document(4, "late")], old_seq=4, new_seq=5, event_id="e")
    with pytest.raises(ValueError, match="either"):
        RetireDocument(1)


def test_another_analyzer_version_derives_the_forward_index_again(path: Path, tmp_path: Path) -> None:
    changes = history(40)
    expected = built(tmp_path / "plain", changes)
    store = LexicalStore.open(path, analyzer_version="older/0")
    apply(store, *changes)
    store.close()
    older = LexicalSearcher(path, analyzer_version="older/0")
    older.search("storm", top_k=1)
    spoil = sqlite3.connect(path)
    spoil.execute("UPDATE terms SET term = term || 'x'")
    spoil.commit()
    spoil.close()
    searcher = LexicalSearcher(path)
    with pytest.raises(LexicalStoreUnusable, match="older/0"):
        searcher.search("storm", top_k=1)
    LexicalStore.open(path).close()
    assert [searcher.search(query, top_k=50) for query in QUERIES] == expected
    assert [searcher.search(query, top_k=50, as_of_seq=40) for query in QUERIES] == expected
    with pytest.raises(LexicalStoreUnusable):
        older.search("storm", top_k=1)
    searcher.close()
    older.close()


def test_a_file_that_was_replaced_or_rolled_back_is_noticed(path: Path, tmp_path: Path) -> None:
    built(path, history(30))
    searcher = LexicalSearcher(path)
    searcher.search("storm", top_k=1)
    expected = built(tmp_path / "other", history(30, seed=6))
    os.replace(tmp_path / "other", path)
    assert [searcher.search(query, top_k=50) for query in QUERIES] == expected
    back = sqlite3.connect(path)
    back.execute("PRAGMA foreign_keys = ON")
    back.execute("UPDATE state SET seq = 2")
    back.execute("DELETE FROM documents")
    back.commit()
    back.close()
    with pytest.raises(NotReady):
        searcher.search("storm", top_k=1, as_of_seq=30)
    assert searcher.search("storm", top_k=1) == LexicalResult([], 2)
    searcher.close()


def test_a_missing_foreign_or_damaged_file_is_named(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LexicalStoreUnusable, match="no lexical index"):
        LexicalSearcher(path).search("storm", top_k=1)
    path.write_bytes(b"not a database" * 400)
    with pytest.raises(LexicalStoreUnusable, match="rebuild"):
        LexicalStore.open(path)
    with pytest.raises(LexicalStoreUnusable, match="rebuild"):
        LexicalSearcher(path).search("storm", top_k=1)
    foreign = sqlite3.connect(tmp_path / "foreign")
    foreign.execute("CREATE TABLE t (x)")
    foreign.close()
    with pytest.raises(LexicalStoreUnusable, match="format 0"):
        LexicalStore.open(tmp_path / "foreign")


def test_top_k_must_be_positive(searcher: LexicalSearcher) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        searcher.search("storm", top_k=0)
