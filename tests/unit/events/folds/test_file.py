from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest
from tests.unit.events.folds.given import given, stored

from loreline.events.envelope import Stored
from loreline.events.folds.file import FILE, FileState, Reached
from loreline.processors.ingest.look import wanted
from loreline.processors.ingest.settle import advance, settle
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import file_aggregate

A, B, P, Q = "aa" * 16, "bb" * 16, "01" * 16, "02" * 16
RUN = UUID(int=1)
AGGREGATE = file_aggregate("cc" * 16)
WHO = file.FileIdentity(relative_path="a.txt", doc_id="d" * 16, content_hash="e" * 64)
BLOB = "ff" * 32


def discovered(version: str = A, *, profile: str = P, run: UUID = RUN) -> Payload:
    return file.FileDiscovered(
        version=version, profile=profile, run=run, source=BLOB, size_bytes=1, private=WHO
    )


def parsed(version: str = A, *, profile: str = P, run: UUID = RUN) -> Payload:
    return file.FileParsed(version=version, profile=profile, run=run, parsed=BLOB, n_chars=1, private=WHO)


def chunked(version: str = A, *, profile: str = P, run: UUID = RUN) -> Payload:
    return file.FileChunked(
        version=version,
        profile=profile,
        run=run,
        parsed=BLOB,
        chunks=BLOB,
        n_chunks=1,
        n_tokens=1,
        private=WHO,
    )


def situated(version: str = A, *, profile: str = P, run: UUID = RUN) -> Payload:
    return file.FileSituated(
        version=version,
        profile=profile,
        run=run,
        chunked_seq=3,
        chunks=BLOB,
        blurbs=BLOB,
        n_chunks=1,
        private=WHO,
    )


def embedded(version: str = A, *, profile: str = P, run: UUID = RUN) -> file.FileEmbedded:
    return file.FileEmbedded(
        version=version,
        profile=profile,
        run=run,
        chunked_seq=3,
        chunks=BLOB,
        blurbs=BLOB,
        vectors=BLOB,
        n_chunks=1,
        extractions={"text": 1},
        dim=1,
        private=WHO,
    )


def failed(version: str = A, *, profile: str = P, run: UUID = RUN) -> Payload:
    reason = file.FailureReason(reason="it cannot be read", **WHO.model_dump())
    return file.FileFailed(
        version=version, profile=profile, run=run, stage="parse", code="corrupt", private=reason
    )


def no_text(version: str = A, *, profile: str = P, run: UUID = RUN) -> Payload:
    return file.FileNoText(version=version, profile=profile, run=run, private=WHO)


def superseded(version: str, by: str) -> Payload:
    return file.FileSuperseded(version=version, by=by)


def deleted(version: str = A) -> Payload:
    return file.FileDeleted(version=version)


def uploaded(version: str = A) -> Payload:
    return file.FileUploaded(version=version, source=BLOB, size_bytes=1, private=WHO)


def whole(version: str = A, *, profile: str = P, run: UUID = RUN) -> list[Payload]:
    makers = (discovered, parsed, chunked, situated, embedded)
    return [make(version, profile=profile, run=run) for make in makers]


def state(*events: Payload) -> FileState:
    return given(FILE, AGGREGATE, events)


def want(known: FileState, version: str = A, *, reingest: bool = False, again: bool = False) -> bool:
    return wanted(known, version=version, profile=P, run=uuid4(), reingest=reingest, again=again)


def ending(known: FileState, payload: file.FileEmbedded, *, at: Reached = "situated") -> Sequence[Payload]:
    event: Stored[Payload] = stored(AGGREGATE, situated())
    return settle(event, payload, "embed", at=at, payload=payload).decide(known)


def test_each_stage_brings_a_version_one_step_further() -> None:
    reached = [state(*whole()[:n]).passes[P].reached for n in range(1, 6)]
    assert reached == ["discovered", "parsed", "chunked", "situated", "embedded"]
    assert [state(*whole()[:n]).live for n in range(1, 6)] == [None, None, None, None, A]


def test_a_result_is_taken_only_at_its_own_step() -> None:
    event = stored(AGGREGATE, discovered())
    command = advance(event, discovered(), "parse", at="discovered", payload=parsed())  # type: ignore[arg-type]
    assert command.decide(state(discovered())) == [parsed()]
    assert command.decide(state(discovered(), parsed())) == []
    assert command.decide(state()) == []


@pytest.mark.parametrize(
    "overtaken",
    [
        [discovered(B, run=UUID(int=2))],
        [discovered(A, run=UUID(int=2))],
        [deleted()],
        [deleted(), uploaded()],
        [failed()],
    ],
    ids=["superseded", "ingested anew", "deleted", "deleted and uploaded again", "ended"],
)
def test_a_result_that_was_overtaken_decides_to_nothing(overtaken: list[Payload]) -> None:
    assert ending(state(*whole()[:4]), embedded()) == [embedded()]
    assert ending(state(*whole()[:4], *overtaken), embedded()) == []


def test_a_new_content_takes_the_place_of_the_old_one_in_one_decision() -> None:
    known = state(*whole(A), *whole(B)[:4])
    assert known.live == A
    assert ending(known, embedded(B)) == [embedded(B), superseded(A, by=B)]
    assert state(*whole(A), *whole(B), superseded(A, by=B)).live == B


def test_a_content_that_comes_back_takes_its_place_again() -> None:
    known = state(*whole(A), *whole(B), superseded(A, by=B), *whole(A)[:4])
    assert (known.live, known.version) == (B, A)
    assert ending(known, embedded(A)) == [embedded(A), superseded(B, by=A)]
    back = state(*whole(A), *whole(B), superseded(A, by=B), *whole(A), superseded(B, by=A))
    assert (back.live, back.passes[P].reached) == (A, "embedded")


def test_the_same_content_under_another_profile_supersedes_nothing() -> None:
    known = state(*whole(A), *whole(A, profile=Q)[:4])
    assert ending(known, embedded(A, profile=Q)) == [embedded(A, profile=Q)]
    assert set(state(*whole(A), *whole(A, profile=Q)).passes) == {P, Q}


def test_an_unchanged_file_is_left_alone_unless_everything_is_to_be_done_anew() -> None:
    for end in (whole(), [discovered(), no_text()]):
        assert not want(state(*end))
        assert want(state(*end), reingest=True)
        assert want(state(*end), B)


def test_a_failed_file_is_tried_again_and_an_unfinished_one_is_taken_up() -> None:
    assert want(state(discovered(), failed()))
    assert want(state(discovered(), parsed()))
    assert want(state(*whole()[:4], discovered(B), parsed(B)), A)


def test_a_file_is_discovered_once_a_run() -> None:
    known = state(discovered())
    assert not wanted(known, version=A, profile=P, run=RUN, reingest=True, again=True)


def test_a_deleted_file_comes_back_by_another_content_an_upload_or_the_users_word() -> None:
    gone = state(*whole(), deleted())
    assert (gone.live, gone.is_deleted, dict(gone.passes)) == (None, True, {})
    assert not want(gone)
    assert not want(gone, reingest=True)
    assert want(gone, B)
    assert want(gone, again=True)
    assert want(state(*whole(), deleted(), uploaded()))
    assert not state(*whole(), deleted(), discovered()).is_deleted


def test_a_file_that_is_missing_keeps_what_it_had() -> None:
    known = state(*whole(), file.FileMissing(version=A, run=RUN))
    assert (known.missing, known.live) == (True, A)
    assert not state(*whole(), file.FileMissing(version=A, run=RUN), discovered()).missing
    assert known.lacks(A)
    back = state(*whole(), file.FileMissing(version=A, run=RUN), file.FileFound(version=A, run=RUN))
    assert (back.missing, back.live, back.lacks(A)) == (False, A, False)


def test_an_upload_is_lacking_until_its_own_content_is_seen() -> None:
    known = state(*whole(A), uploaded(B))
    assert (known.lacks(A), known.lacks(B)) == (False, True)
    assert not state(*whole(A), uploaded(B), discovered(B)).lacks(B)
    assert not state(*whole(A), uploaded(A), file.FileFound(version=A, run=RUN)).lacks(A)
    assert not state(*whole(A), uploaded(B), deleted(A)).lacks(B)


def test_a_failed_content_ends_the_one_before_it() -> None:
    known = state(*whole(A), discovered(B))
    event = stored(AGGREGATE, discovered(B))
    source: file.FileDiscovered = discovered(B)  # type: ignore[assignment]
    decision = settle(event, source, "parse", at="discovered", payload=failed(B)).decide(known)
    assert decision == [failed(B), superseded(A, by=B)]
