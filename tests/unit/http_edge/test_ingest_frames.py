"""A run as frames: the fold of its events, whoever reads it and whenever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from loreline.events.envelope import Event, Stored
from loreline.http_edge.ingest_frames import Frame, RunFrames, run_of
from loreline.schemas.events import app, corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import RAG_CORPUS, Aggregate, file_aggregate

RUN, OTHER = UUID(int=1), UUID(int=2)
STARTED = datetime(2030, 1, 1, tzinfo=UTC)
FILE, PROFILE, VERSION, BLOB = "a" * 32, "b" * 32, "c" * 32, "d" * 64
IDENTITY = file.FileIdentity(relative_path="notes/a.txt", doc_id="0" * 16, content_hash="e" * 64)


def at(seq: int, payload: Payload, aggregate: Aggregate = RAG_CORPUS) -> Stored[Payload]:
    event = Event(
        id=uuid4(),
        type="any",
        aggregate=aggregate,
        time=STARTED + timedelta(seconds=seq),
        correlation=RUN,
        causation=None,
        actor="test",
        prev="",
        payload=payload,
    )
    return Stored(seq, event, "")


REQUESTED = at(1, corpus.OperationRequested(kind="ingest", run=RUN, reingest=True))
PLANNED = at(
    2,
    corpus.OperationPlanned(
        run=RUN,
        profile=PROFILE,
        plan=BLOB,
        n_planned=2,
        n_discovered=5,
        n_skipped=3,
        n_unsupported=1,
        n_missing=0,
    ),
)
DISCOVERED = at(
    3,
    file.FileDiscovered(
        version=VERSION, profile=PROFILE, run=RUN, source=BLOB, size_bytes=1, private=IDENTITY
    ),
    file_aggregate(FILE),
)
FAILED = at(
    4,
    file.FileFailed(
        version=VERSION,
        profile=PROFILE,
        run=RUN,
        stage="parse",
        code="damaged",
        private=file.FailureReason(reason="it is cut short", **IDENTITY.model_dump()),
    ),
    file_aggregate(FILE),
)
PARKED = at(
    5,
    app.EventParked(
        stage="embed",
        seq=3,
        event=UUID(int=3),
        event_type="file.situated",
        owner=f"file/{FILE}",
        attempts=8,
        private=app.ParkedError(error="no luck"),
    ),
    Aggregate("app", "deadletter", "f" * 32),
)
COMPLETED = at(
    6,
    corpus.OperationCompleted(run=RUN, n_ingested=0, n_no_text=0, n_failed=2, n_dropped=0, n_chunks=0),
)


def test_a_run_stands_where_its_events_put_it() -> None:
    running = run_of(RUN, [REQUESTED, PLANNED])
    assert (running.state, running.reingest, running.started_at) == ("running", True, REQUESTED.event.time)
    assert running.summary is None
    ended = run_of(RUN, [REQUESTED, PLANNED, COMPLETED])
    assert (ended.state, ended.finished_at) == ("completed", COMPLETED.event.time)
    assert ended.summary is not None
    assert (ended.summary.discovered, ended.summary.skipped, ended.summary.failed) == (5, 3, 2)
    reason = corpus.Reason(reason="another model")
    refused = run_of(RUN, [REQUESTED, at(2, corpus.OperationFailed(run=RUN, code="x", private=reason))])
    assert (refused.state, refused.error) == ("failed", "another model")


def test_a_run_nobody_asked_for_is_none() -> None:
    with pytest.raises(ValueError, match="nobody asked"):
        run_of(OTHER, [REQUESTED, PLANNED])


def test_each_event_makes_its_frames_and_the_last_one_ends_the_run() -> None:
    run = RunFrames(RUN)
    frames: list[Frame] = []
    for stored in (REQUESTED, PLANNED, DISCOVERED, FAILED, PARKED, COMPLETED):
        assert not run.is_over
        frames += run.take(stored)
    assert run.is_over
    shown = [(each.event, each.data.get("stage") or each.data.get("level")) for each in frames]
    assert shown == [
        ("progress", "discover"),
        ("progress", "discover"),
        ("log", "INFO"),
        ("progress", "parse"),
        ("log", "ERROR"),
        ("progress", "file_done"),
        ("log", "ERROR"),
        ("progress", "file_done"),
        ("status", None),
    ]
    done = frames[5].data
    assert (done["outcome"], done["reason"], done["files_done"], done["files_total"]) == (
        "failed",
        "it is cut short",
        1,
        2,
    )
    assert frames[-1].waits


def test_events_of_another_run_and_of_no_run_make_no_frames() -> None:
    run = RunFrames(OTHER)
    assert [run.take(each) for each in (REQUESTED, PLANNED, DISCOVERED, FAILED, COMPLETED)] == [[]] * 5
    assert not run.is_over


def test_a_tick_is_a_progress_frame_and_anything_else_is_none() -> None:
    run = RunFrames(RUN)
    run.take(PLANNED)
    tick = run.tick({"stage": "embed", "file": "a.txt", "current": 3, "total": 9})
    assert tick is not None
    assert tick.data == {
        "stage": "embed",
        "file": "a.txt",
        "outcome": None,
        "current": 3,
        "total": 9,
        "files_done": 0,
        "files_total": 2,
    }
    assert run.tick({"stage": "embed"}) is None
