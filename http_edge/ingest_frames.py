"""An ingest run as frames: a pure fold over the log's events. Nothing depends on a frame having been seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from loreline.events.envelope import Stored
from loreline.schemas.events import app, corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.wire import IngestRunOut, IngestSummaryOut

_EMPTY: Mapping[str, Any] = {"stage": None, "file": None, "outcome": None, "current": None, "total": None}
_NAMED = 50

_STAGE_AFTER: Mapping[type[Payload], str] = {
    file.FileDiscovered: "parse",
    file.FileParsed: "chunk",
    file.FileChunked: "contextualize",
    file.FileSituated: "embed",
}


@dataclass(frozen=True)
class Frame:
    """One frame; `waits` when it may be shown only once views contain the event it comes from."""

    event: Literal["status", "progress", "log"]
    data: dict[str, Any]
    waits: bool = False


def run_of(run: UUID, history: Sequence[Stored[Payload]]) -> IngestRunOut:
    """A run as it stands, from its corpus's events since it was requested. Raises ValueError without them."""
    out: IngestRunOut | None = None
    planned: corpus.OperationPlanned | None = None
    for stored in history:
        payload, moment = stored.event.payload, stored.event.time
        if getattr(payload, "run", None) != run:
            continue
        match payload:
            case corpus.OperationRequested():
                out = IngestRunOut(
                    run_id=str(run), state="running", reingest=payload.reingest, started_at=moment
                )
            case corpus.OperationPlanned():
                planned = payload
        if out is not None and (end := _end(payload, planned)) is not None:
            out = out.model_copy(update={**end, "finished_at": moment})
    if out is None:
        raise ValueError(f"nobody asked for the run {run} in these events")
    return out


def _end(payload: Payload, planned: corpus.OperationPlanned | None) -> dict[str, Any] | None:
    """What an event that ends a run makes of it; None for any other."""
    match payload:
        case corpus.OperationCompleted():
            return {"state": "completed", "summary": _summary(payload, planned)}
        case corpus.OperationFailed():
            return {"state": "failed", "error": payload.private.reason}
        case corpus.OperationCancelled():
            return {"state": "failed", "error": "cancelled"}
    return None


def _summary(
    completed: corpus.OperationCompleted, planned: corpus.OperationPlanned | None
) -> IngestSummaryOut:
    return IngestSummaryOut(
        discovered=planned.n_discovered if planned else 0,
        ingested=completed.n_ingested,
        skipped=planned.n_skipped if planned else 0,
        no_text=completed.n_no_text,
        failed=completed.n_failed,
        unsupported=planned.n_unsupported if planned else 0,
        chunks=completed.n_chunks,
    )


class RunFrames:
    """The frames of one run, in order, from the events it is made of."""

    def __init__(self, run: UUID) -> None:
        self._run = run
        self._history: list[Stored[Payload]] = []
        self._paths: dict[str, str] = {}
        self._planned: corpus.OperationPlanned | None = None
        self._done = 0
        self.is_over = False

    def take(self, stored: Stored[Payload]) -> list[Frame]:
        """The frames one more event makes; none if it is not of this run."""
        payload, file_id = stored.event.payload, stored.event.aggregate.id
        if stored.event.aggregate.kind == "corpus":
            self._history.append(stored)
        match payload:
            case corpus.OperationRequested() if payload.run == self._run:
                return [_progress("discover")]
            case corpus.OperationPlanned() if payload.run == self._run:
                return self._plan(payload)
            case corpus.OperationCompleted() | corpus.OperationFailed() | corpus.OperationCancelled() if (
                payload.run == self._run
            ):
                self.is_over = True
                out = run_of(self._run, self._history)
                return [Frame("status", {"run": out.model_dump(mode="json")}, waits=True)]
            case app.EventParked() if stored.event.correlation == self._run:
                return self._parked(payload)
            case file.FileDiscovered() | file.FileParsed() | file.FileChunked() | file.FileSituated() if (
                payload.run == self._run
            ):
                self._paths[file_id] = payload.private.relative_path
                return [self._stage(_STAGE_AFTER[type(payload)], payload.private.relative_path)]
            case file.FileEmbedded() | file.FileNoText() | file.FileFailed() if payload.run == self._run:
                return self._file_done(payload)
        return []

    def tick(self, tick: dict[str, Any]) -> Frame | None:
        """A live tick as a frame; None for what is not one."""
        if not {"stage", "file", "current", "total"} <= tick.keys():
            return None
        return Frame("progress", self._counted(tick))

    def _counted(self, data: dict[str, Any]) -> dict[str, Any]:
        total = self._planned.n_planned if self._planned else None
        return {**_EMPTY, **data, "files_done": self._done, "files_total": total}

    def _stage(self, stage: str, path: str) -> Frame:
        return Frame("progress", self._counted({"stage": stage, "file": path}))

    def _plan(self, planned: corpus.OperationPlanned) -> list[Frame]:
        self._planned = planned
        words = (
            f"{planned.n_discovered} files found: {planned.n_planned} to process, "
            f"{planned.n_skipped} unchanged, {planned.n_unsupported} not supported"
        )
        frames = [Frame("progress", self._counted({"stage": "discover"})), _said("INFO", words)]
        if planned.n_missing:
            gone = f"{planned.n_missing} files are no longer in the folder; they still answer until deleted"
            frames.append(_said("WARNING", gone))
        return frames

    def passed_over(self, unsupported: Sequence[tuple[str, str]]) -> list[Frame]:
        """What is in the folder and not taken in, by name, the first of it if it is much."""
        frames = [_said("WARNING", f"{path}: not taken in: {why}") for path, why in unsupported[:_NAMED]]
        if len(unsupported) > _NAMED:
            frames.append(_said("WARNING", f"and {len(unsupported) - _NAMED} more are not taken in"))
        return frames

    def _file_done(self, payload: file.FileEmbedded | file.FileNoText | file.FileFailed) -> list[Frame]:
        path = payload.private.relative_path
        stored = isinstance(payload, file.FileEmbedded)
        frames = [self._stage("store", path)] if stored else []
        self._done += 1
        outcome = {file.FileEmbedded: "ingested", file.FileNoText: "no_text"}.get(type(payload), "failed")
        done: dict[str, Any] = {"stage": "file_done", "file": path, "outcome": outcome}
        if isinstance(payload, file.FileFailed):
            done["reason"] = payload.private.reason
            frames.append(_said("ERROR", f"{path}: {payload.private.reason}"))
        elif isinstance(payload, file.FileNoText):
            frames.append(_said("WARNING", f"{path}: there is no text in it"))
        return [*frames, Frame("progress", self._counted(done), waits=stored)]

    def _parked(self, payload: app.EventParked) -> list[Frame]:
        self._done += 1
        path = self._paths.get(payload.owner.removeprefix("file/"), "a file")
        words = f"{path}: {payload.stage} gave up after {payload.attempts} tries: {payload.private.error}"
        done = {"stage": "file_done", "file": path, "outcome": "failed", "reason": payload.private.error}
        return [_said("ERROR", words), Frame("progress", self._counted(done))]


def _progress(stage: str) -> Frame:
    return Frame("progress", {**_EMPTY, "stage": stage, "files_done": 0, "files_total": None})


def _said(level: str, message: str) -> Frame:
    return Frame("log", {"level": level, "message": message})
