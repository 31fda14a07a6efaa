"""The runs reactor: closes an ingest when everything planned has come to its end.

It keeps nothing of its own. It reads the log from the open operation's request, so a restart or a
second replica comes to the same conclusion, and the same conclusion is appended once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from loreline.events.append import Appender, Command
from loreline.events.blobs import SealedBlobs
from loreline.events.envelope import Codec, Stored
from loreline.events.folds.corpus import CORPUS, CorpusState
from loreline.events.highwater import REPAIR
from loreline.events.log import EventLog
from loreline.processors.ingest.discover import decode_plan
from loreline.processors.ingest.profiles import activation
from loreline.schemas.errors import DependencyDown, LogFull, LogHole
from loreline.schemas.events import app, corpus, file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import APP_OWNER, RAG_CORPUS, derived_key

_log = logging.getLogger(__name__)

ACTOR = "stage.runs"
FILTERS = (
    "lore.rag.corpus.main.*",
    "lore.rag.file.*.discovered",
    "lore.rag.file.*.embedded",
    "lore.rag.file.*.no_text",
    "lore.rag.file.*.failed",
    "lore.rag.file.*.deleted",
    "lore.app.deadletter.*.parked",
)

Outcome = Literal["ingested", "no_text", "failed", "parked", "dropped"]

Item = tuple[str, str]
"""(File id, version): one content of a file. A file can change while discovery looks twice."""


@dataclass
class Progress:
    """How far the open run has come.

    Attributes:
        ended: what became of each item of the run.
        plan: the items it has to wait for; None until it is known.
        planned: the planned event.
        discovered: the versions of each file that the run has discovered.
    """

    run: UUID
    reingest: bool
    ended: dict[Item, Outcome] = field(default_factory=dict)
    chunks: dict[Item, int] = field(default_factory=dict)
    plan: frozenset[Item] | None = None
    planned: Stored[Payload] | None = None
    profile: str | None = None
    discovered: dict[str, set[str]] = field(default_factory=dict)

    def take(self, stored: Stored[Payload]) -> None:
        """One more event of the run."""
        payload, file_id = stored.event.payload, stored.event.aggregate.id
        match payload:
            case file.FileDiscovered() if payload.run == self.run:
                self._drop(file_id)  # no stage works on another content of it any more
                self.ended.pop((file_id, payload.version), None)  # it was deleted, and is back
                self.discovered.setdefault(file_id, set()).add(payload.version)
            case file.FileEmbedded() if payload.run == self.run:
                self.ended[file_id, payload.version] = "ingested"
                self.chunks[file_id, payload.version] = payload.n_chunks
            case file.FileNoText() if payload.run == self.run:
                self.ended[file_id, payload.version] = "no_text"
            case file.FileFailed() if payload.run == self.run:
                self.ended[file_id, payload.version] = "failed"
            case file.FileDeleted():
                self._drop(file_id)

    def park(self, item: Item) -> None:
        """A stage gave the item up."""
        self.ended.setdefault(item, "parked")

    def _drop(self, file_id: str) -> None:
        """What is not at its end yet will not come to another one."""
        for version in self.discovered.get(file_id, ()):
            self.ended.setdefault((file_id, version), "dropped")

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to wait for."""
        return self.plan is not None and self.plan <= self.ended.keys()

    @property
    def fills_profile(self) -> bool:
        """Whether the profile it filled may answer: it was to, and no file is left without an outcome."""
        left = "parked" in {self.ended[each] for each in self.plan or ()}
        return self.reingest and self.profile is not None and not left

    def completed(self) -> corpus.OperationCompleted:
        """The event that closes the run."""
        files = self.plan or frozenset()
        counts = Counter(self.ended[each] for each in files)
        return corpus.OperationCompleted(
            run=self.run,
            n_ingested=counts["ingested"],
            n_no_text=counts["no_text"],
            n_failed=counts["failed"] + counts["parked"],
            n_dropped=counts["dropped"],
            n_chunks=sum(self.chunks.get(each, 0) for each in files),
        )


class RunsReactor:
    """Watches the log and closes runs."""

    def __init__(self, log: EventLog, codec: Codec, appender: Appender, blobs: SealedBlobs) -> None:
        self._log = log
        self._codec = codec
        self._appender = appender
        self._blobs = blobs
        self._progress: Progress | None = None

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            try:
                await self._watch()
            except (DependencyDown, LogFull) as error:
                _log.warning("runs wait: %s", error)
                await asyncio.sleep(0.5)

    async def _watch(self) -> None:
        self._progress = None
        info = await self._log.info()
        holder = (await self._appender.state(RAG_CORPUS, CORPUS)).holder
        after_seq = info.last_seq if holder is None else min(info.last_seq, holder.seq - 1)
        async with aclosing(self._log.follow(after_seq=after_seq, filters=FILTERS)) as batches:
            async for batch in batches:
                for stored in batch:
                    await self._take(self._codec.decode(stored))
                await self._close()

    async def _take(self, stored: Stored[Payload]) -> None:
        payload, progress = stored.event.payload, self._progress
        match payload:
            case corpus.OperationRequested() if payload.kind == "ingest":
                self._progress = Progress(payload.run, payload.reingest)
            case corpus.OperationPlanned() if progress and payload.run == progress.run:
                plan = decode_plan(await self._blobs.get(APP_OWNER, payload.plan))
                progress.plan = frozenset(plan)
                progress.planned, progress.profile = stored, payload.profile
            case corpus.OperationCompleted() | corpus.OperationFailed() | corpus.OperationCancelled():
                self._progress = None
            case app.EventParked() if progress and stored.event.correlation == progress.run:
                await self._park(stored, payload, progress)
            case _ if progress is not None:
                progress.take(stored)

    async def _park(self, stored: Stored[Payload], parked: app.EventParked, progress: Progress) -> None:
        """Give up what the parked event was about: the whole run, or the one content of a file."""
        if parked.stage == "discover":
            await self._appender.execute(_failed(stored, progress.run, parked))
            return
        wire = await self._log.get(parked.seq)
        if wire is None:
            raise LogHole(f"the parked event {parked.seq} is not in the log; {REPAIR}")
        event = self._codec.decode(wire).event
        if isinstance(
            event.payload, file.FileDiscovered | file.FileParsed | file.FileChunked | file.FileSituated
        ):
            progress.park((event.aggregate.id, event.payload.version))

    async def _close(self) -> None:
        progress = self._progress
        if progress is None or not progress.is_complete or progress.planned is None:
            return
        self._progress = None
        causation = progress.planned.event.id
        if progress.fills_profile and progress.profile:
            await self._appender.execute(activation(progress.profile, causation=causation))
        completed = progress.completed()

        def decide(state: CorpusState) -> Sequence[Payload]:
            holder = state.holder
            return [completed] if holder is not None and holder.run == progress.run else []

        key = derived_key(causation, "completed")
        await self._appender.execute(
            Command(
                RAG_CORPUS, CORPUS, key, decide, actor=ACTOR, correlation=progress.run, causation=causation
            )
        )


def _failed(stored: Stored[Payload], run: UUID, parked: app.EventParked) -> Command[CorpusState]:
    """The corpus must not stay taken by a run whose discovery was given up."""
    reason = corpus.Reason(reason=f"looking through the corpus folder failed: {parked.private.error}")
    event = corpus.OperationFailed(run=run, code="discover_failed", private=reason)

    def decide(state: CorpusState) -> Sequence[Payload]:
        return [event] if state.holder is not None and state.holder.run == run else []

    key = derived_key(stored.event.id, "failed")
    return Command(RAG_CORPUS, CORPUS, key, decide, actor=ACTOR, correlation=run, causation=stored.event.id)
