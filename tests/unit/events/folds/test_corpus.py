from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.events.folds.given import given

from loreline.events.folds.corpus import CORPUS, CorpusState
from loreline.processors.ingest.profiles import activation
from loreline.schemas.events import corpus
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import RAG_CORPUS

P, Q, PLAN = "01" * 16, "02" * 16, "ff" * 32
RUN, OTHER = UUID(int=1), UUID(int=2)


def requested(run: UUID = RUN, *, reingest: bool = False) -> Payload:
    return corpus.OperationRequested(kind="ingest", run=run, reingest=reingest)


def started(run: UUID = RUN) -> Payload:
    return corpus.OperationStarted(kind="ingest", run=run, profile=P)


def planned(run: UUID = RUN) -> Payload:
    counts = {"n_planned": 0, "n_discovered": 0, "n_skipped": 0, "n_unsupported": 0, "n_missing": 0}
    return corpus.OperationPlanned(run=run, profile=P, plan=PLAN, **counts)


def completed(run: UUID = RUN) -> Payload:
    counts = {"n_ingested": 0, "n_no_text": 0, "n_failed": 0, "n_dropped": 0, "n_chunks": 0}
    return corpus.OperationCompleted(run=run, **counts)


def failed(run: UUID = RUN) -> Payload:
    return corpus.OperationFailed(run=run, code="x", private=corpus.Reason(reason="why"))


def cancelled(run: UUID = RUN) -> Payload:
    return corpus.OperationCancelled(run=run)


def defined(profile: str) -> Payload:
    words = corpus.ProfileSettings(settings={"CHUNK_SIZE": "1200"})
    return corpus.ProfileDefined(profile=profile, dim=3, private=words)


def activated(profile: str) -> Payload:
    return corpus.ProfileActivated(profile=profile)


def state(*events: Payload) -> CorpusState:
    return given(CORPUS, RAG_CORPUS, events)


def test_an_operation_holds_the_corpus_from_its_request_until_its_end() -> None:
    for events in ([requested()], [requested(), started()], [requested(), started(), planned()]):
        holder = state(*events).holder
        assert holder is not None
        assert (holder.run, holder.seq) == (RUN, 1)
    assert state().holder is None


@pytest.mark.parametrize("end", [completed, failed, cancelled])
def test_however_an_operation_ends_the_corpus_is_free(end: object) -> None:
    known = state(requested(), started(), planned(), end())  # type: ignore[operator]
    assert known.holder is None
    assert known.operation is not None
    assert known.operation.ended_seq == 4
    again = state(requested(), end(), requested(OTHER)).holder  # type: ignore[operator]
    assert again is not None
    assert again.run == OTHER


def test_word_of_another_run_changes_nothing() -> None:
    known = state(requested(OTHER), started(RUN), planned(RUN), completed(RUN))
    assert known.holder is not None
    assert (known.holder.state, known.holder.profile, known.holder.plan) == ("requested", None, None)


def test_what_the_operation_is_for_is_remembered() -> None:
    holder = state(requested(reingest=True), started(), planned()).holder
    assert holder is not None
    assert (holder.reingest, holder.state, holder.profile, holder.plan) == (True, "running", P, PLAN)


def test_profiles_stay_and_one_of_them_answers() -> None:
    known = state(defined(P), activated(P), defined(Q))
    assert (set(known.profiles), known.active) == ({P, Q}, P)
    assert (known.profiles[P].dim, known.profiles[P].settings["CHUNK_SIZE"]) == (3, "1200")
    assert state(defined(P), activated(P), defined(Q), activated(Q)).active == Q


def test_a_profile_is_activated_once() -> None:
    command = activation(Q, causation=RUN)
    assert command.decide(state(defined(P), activated(P), defined(Q))) == [activated(Q)]
    assert command.decide(state(defined(Q), activated(Q))) == []
