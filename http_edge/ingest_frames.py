"""An ingest run as frames: a pure fold over the log's events. Nothing depends on a frame having been seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from loreline.events.envelope import Stored
from loreline.schemas.events import app, corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.wire import IngestRunOut, IngestSummaryOut

_STAGE_AFTER: dict[type[Payload], str] = {
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


class RunFrames:
    """The frames of one run, in order, from the events it is made of."""

    def __init__(self, run: UUID, reingest: bool) -> None:
        self._run = run
        self._reingest = reingest
        self._started_at: datetime | None = None
        self._paths: dict[str, str] = {}
        self._planned: corpus.OperationPlanned | None = None
        self._done = 0
        self.is_over = False

    def snapshot(self, started_at: datetime, state: str) -> IngestRunOut:
        """The run as its operation stands."""
        shown: Literal["running", "completed", "failed"] = "running"
        if state == "completed":
            shown = "completed"
        elif state in {"failed", "cancelled"}:
            shown = "failed"
        return IngestRunOut(
            run_id=str(self._run), state=shown, reingest=self._reingest, started_at=started_at
        )

    def take(self, stored: Stored[Payload]) -> list[Frame]:
        """The frames one more event makes; none if it is not of this run."""
        payload, file_id = stored.event.payload, stored.event.aggregate.id
        match payload:
            case corpus.OperationRequested() if payload.run == self._run:
                self._started_at = stored.event.time
                return [_progress("discover")]
            case corpus.OperationPlanned() if payload.run == self._run:
                return self._plan(payload)
            case corpus.OperationCompleted() | corpus.OperationFailed() | corpus.OperationCancelled() if (
                payload.run == self._run
            ):
                return self._end(stored, payload)
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
        return {**data, "files_done": self._done, "files_total": total}

    def _stage(self, stage: str, path: str) -> Frame:
        return Frame("progress", self._counted({"stage": stage, "file": path}))

    def _plan(self, planned: corpus.OperationPlanned) -> list[Frame]:
        self._planned = planned
        words = (
            f"{planned.n_discovered} files found: {planned.n_planned} to process, "
            f"{planned.n_skipped} unchanged, {planned.n_unsupported} not supported"
        )
        return [Frame("progress", self._counted({"stage": "discover"})), _said("INFO", words)]

    def _file_done(self, payload: file.FileEmbedded | file.FileNoText | file.FileFailed) -> list[Frame]:
        self._done += 1
        path = payload.private.relative_path
        outcome = {file.FileEmbedded: "ingested", file.FileNoText: "no_text"}.get(type(payload), "failed")
        done: dict[str, Any] = {"stage": "file_done", "file": path, "outcome": outcome}
        frames = []
        if isinstance(payload, file.FileFailed):
            done["reason"] = payload.private.reason
            frames.append(_said("ERROR", f"{path}: {payload.private.reason}"))
        elif isinstance(payload, file.FileNoText):
            frames.append(_said("WARNING", f"{path}: there is no text in it"))
        waits = isinstance(payload, file.FileEmbedded)
        return [*frames, Frame("progress", self._counted(done), waits=waits)]

    def _parked(self, payload: app.EventParked) -> list[Frame]:
        self._done += 1
        path = self._paths.get(payload.owner.removeprefix("file/"), "a file")
        words = f"{path}: {payload.stage} gave up after {payload.attempts} tries: {payload.private.error}"
        done = {"stage": "file_done", "file": path, "outcome": "failed", "reason": payload.private.error}
        return [_said("ERROR", words), Frame("progress", self._counted(done))]

    def _end(
        self,
        stored: Stored[Payload],
        payload: corpus.OperationCompleted | corpus.OperationFailed | corpus.OperationCancelled,
    ) -> list[Frame]:
        self.is_over = True
        started = self._started_at or stored.event.time
        state = "completed" if isinstance(payload, corpus.OperationCompleted) else "failed"
        run = self.snapshot(started, state).model_copy(update={"finished_at": stored.event.time})
        if isinstance(payload, corpus.OperationCompleted):
            run = run.model_copy(update={"summary": self._summary(payload)})
        elif isinstance(payload, corpus.OperationFailed):
            run = run.model_copy(update={"error": payload.private.reason})
        else:
            run = run.model_copy(update={"error": "cancelled"})
        return [Frame("status", {"run": run.model_dump(mode="json")}, waits=True)]

    def _summary(self, completed: corpus.OperationCompleted) -> IngestSummaryOut:
        planned = self._planned
        return IngestSummaryOut(
            discovered=planned.n_discovered if planned else 0,
            ingested=completed.n_ingested,
            skipped=planned.n_skipped if planned else 0,
            no_text=completed.n_no_text,
            failed=completed.n_failed,
            unsupported=planned.n_unsupported if planned else 0,
            chunks=completed.n_chunks,
        )


def _progress(stage: str) -> Frame:
    return Frame("progress", {"stage": stage, "file": None, "files_done": 0, "files_total": None})


def _said(level: str, message: str) -> Frame:
    return Frame("log", {"level": level, "message": message})
