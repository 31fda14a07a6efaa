"""The ingest without servers: the real stages on a log in memory, with counters at every dear call."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID, uuid4

from loreline.events.append import Appender, Command
from loreline.events.blobs import MemoryBlobs, SealedBlobs
from loreline.events.envelope import Codec, Stored
from loreline.events.folds.app import SETTINGS_FOLD, Overrides
from loreline.events.folds.corpus import CORPUS, CorpusState
from loreline.events.folds.file import FILE, FileState
from loreline.events.keys import MemoryKeys
from loreline.events.live import MemoryLive
from loreline.events.log import Group
from loreline.events.memory import MemoryLog, subject_pattern
from loreline.events.refs import MemoryRefs, Recordings
from loreline.processors.chunkers import CHUNKERS, Chunker
from loreline.processors.ingest.discover import discover
from loreline.processors.ingest.index import embed, situate
from loreline.processors.ingest.ports import IngestPorts
from loreline.processors.ingest.profiles import define, profile_id, profile_settings
from loreline.processors.ingest.read import chunk, parse
from loreline.processors.ingest.runs import RunsReactor
from loreline.processors.models.hashing import HashEmbedder
from loreline.processors.parsers import read
from loreline.processors.stage import Stage
from loreline.projectors.reads import KnownFile
from loreline.schemas.events import corpus, file
from loreline.schemas.events.app import SettingsChanged, SettingValues
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import (
    APP_OWNER,
    RAG_CORPUS,
    SETTINGS,
    content_hash_of,
    doc_id_of,
    file_aggregate,
    file_id_of,
    owner_of,
    version_of,
)
from loreline.schemas.ports import BlobStore, Embedder, ModelIdentity, Vectors
from loreline.schemas.records import Chunk, ParsedDocument
from loreline.schemas.settings import Settings, resolve
from tests.conftest import now
from tests.stack import write


class CountingLog(MemoryLog):
    """A log that remembers what was appended together: each append is one fsync."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[str]] = []

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        sequences = await super().append(groups)
        self.appends.append([wire.subject for group in groups for wire in group.wires])
        return sequences

    def copied(self) -> CountingLog:
        """A log with the same events."""
        other = CountingLog()
        other._events, other._ids, other._size = list(self._events), set(self._ids), self._size
        return other


class CountingBlobs:
    """A blob store that counts the puts that write, and can be told to fail after one."""

    def __init__(self) -> None:
        self._held = MemoryBlobs()
        self.written = 0
        self.after_put: Callable[[], Awaitable[None]] | None = None

    async def put(self, data: bytes) -> str:
        before = len(self._held._held)
        address = await self._held.put(data)
        self.written += len(self._held._held) - before
        if self.after_put is not None:
            await self.after_put()
        return address

    async def get(self, address: str) -> bytes:
        return await self._held.get(address)

    async def has(self, address: str) -> bool:
        return await self._held.has(address)


class CountingEmbedder:
    """Hash vectors; counts the texts of passages that were embedded."""

    def __init__(self, *, dim: int = 16) -> None:
        self._inner: Embedder = HashEmbedder(dim=dim)
        self.calls = 0

    @property
    def identity(self) -> ModelIdentity:
        return self._inner.identity

    @property
    def dim(self) -> int:
        return self._inner.dim

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        return await self._inner.embed_passages(texts)

    async def embed_query(self, text: str) -> Vectors:
        return await self._inner.embed_query(text)


@dataclass
class Counts:
    """How often the dear things were done."""

    reads: int = 0
    cuts: int = 0


class World:
    """A corpus folder, the five stages and the runs reactor, on a log in memory."""

    def __init__(self, root: Path, *, embedder: CountingEmbedder | None = None) -> None:
        self.docs = root / "docs"
        self.docs.mkdir(parents=True, exist_ok=True)
        self.log = CountingLog()
        self.keys = MemoryKeys()
        self.keys.ensure([APP_OWNER])
        self.codec = Codec(self.keys)
        self.store = CountingBlobs()
        store: BlobStore = self.store
        self.blobs = SealedBlobs(store, self.keys)
        self.scratch = CountingBlobs()
        scratch = SealedBlobs(self.scratch, self.keys)
        self.recordings = Recordings(MemoryRefs(), self.blobs, self.keys, scratch=scratch)
        self.appender = Appender(self.log, self.codec, self.keys, clock=now)
        self.live = MemoryLive(lambda pattern, topic: bool(subject_pattern(pattern).match(topic)))
        self.embedder = embedder or CountingEmbedder()
        self.counts = Counts()
        self.at: dict[str, int] = {}

    def retold(self) -> World:
        """The same world with a log of its own, for another event loop or another continuation."""
        other = copy.copy(self)
        other.log = self.log.copied()
        other.appender = Appender(other.log, self.codec, self.keys, clock=now)
        return other

    def ports(self) -> IngestPorts:
        """The stages' world."""
        return IngestPorts(
            appender=self.appender,
            blobs=self.blobs,
            recordings=self.recordings,
            keys=self.keys,
            live=self.live,
            corpus_root=self.docs,
            read=self._read,
            chunkers={name: self._counted(chunker) for name, chunker in CHUNKERS.items()},
            count_tokens=lambda text: len(text.split()),
            embedder=self.embedder,
            settings=self.settings,
            known_files=self.known_files,
            seconds=lambda: 0.0,
        )

    def stages(self) -> list[Stage]:
        """The stage table of the ingest."""
        ports = self.ports()
        return [discover(ports), parse(ports), chunk(ports), situate(ports), embed(ports)]

    async def settings(self) -> Settings:
        """The settings now."""
        return resolve({}, await self.appender.state(SETTINGS, SETTINGS_FOLD))

    async def change(self, **values: str) -> None:
        """Change settings, as the edge will: decided on the merged whole."""

        def decide(state: Overrides) -> Sequence[Payload]:
            resolve({}, {**state, **values})
            return [SettingsChanged(names=tuple(values), private=SettingValues(set=values))]

        await self.appender.execute(Command(SETTINGS, SETTINGS_FOLD, uuid4(), decide, actor="user"))

    async def define(self) -> str:
        """Define and activate the first profile, as a first start does; its id."""
        settings = profile_settings(
            (await self.settings()).ingest, embedder=self.embedder.identity, dim=self.embedder.dim
        )
        profile = profile_id(self.keys, settings)
        await define(self.appender, profile, settings=settings, actor="wiring")
        return profile

    async def request(self, *, reingest: bool = False, force: bool = False, again: bool = False) -> UUID:
        """Ask for an ingest."""
        run = uuid4()
        asked = corpus.OperationRequested(kind="ingest", run=run, reingest=reingest, force=force, again=again)
        await self.appender.execute(
            Command(RAG_CORPUS, CORPUS, run, lambda _: [asked], actor="user", correlation=run)
        )
        return run

    async def drive(self, *, only: Sequence[str] | None = None) -> None:
        """Let the stages work until nothing is left; each keeps its own place, as a durable does."""
        stages = [stage for stage in self.stages() if only is None or stage.name in only]
        while True:
            moved = False
            for stage in stages:
                moved = await self._advance(stage) or moved
            if not moved:
                return

    async def _advance(self, stage: Stage) -> bool:
        patterns = [subject_pattern(subject) for subject in stage.subjects]
        start = self.at.get(stage.name, 0)
        last_seq = (await self.log.info()).last_seq
        for seq in range(start + 1, last_seq + 1):
            stored = await self.log.get(seq)
            assert stored is not None
            if any(pattern.match(stored.wire.subject) for pattern in patterns):
                for command in await stage.run(self.codec.decode(stored), 1):
                    await self.appender.execute(command)
            self.at[stage.name] = seq
        return last_seq > start

    def reactor(self) -> RunsReactor:
        """A runs reactor."""
        return RunsReactor(self.log, self.codec, self.appender, self.blobs)

    async def close(self, *, reactors: int = 1) -> CorpusState:
        """Run reactors until the open operation has ended and they have read the whole log."""
        tasks = [asyncio.create_task(self.reactor().run()) for _ in range(reactors)]
        try:
            async with asyncio.timeout(20), aclosing(self.log.follow(after_seq=0)) as batches:
                async for _ in batches:
                    state = await self.corpus()
                    if state.holder is None:
                        break
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        return await self.corpus()

    async def ingest(
        self, *, reingest: bool = False, force: bool = False, again: bool = False
    ) -> corpus.OperationCompleted:
        """A whole ingest; how it ended."""
        await self.request(reingest=reingest, force=force, again=again)
        await self.drive()
        await self.close()
        ended = [each.event.payload for each in await self.events()]
        completed = [each for each in ended if isinstance(each, corpus.OperationCompleted)]
        return completed[-1]

    def put(self, **files: str | bytes) -> None:
        """Put files into the corpus: `harbour=...` is `harbour.txt`."""
        write(self.docs, {f"{name}.txt": content for name, content in files.items()})

    async def events(self, *kinds: type[Payload]) -> list[Stored[Payload]]:
        """Every event of these kinds, in order; all without kinds."""
        last_seq = (await self.log.info()).last_seq
        out = []
        for seq in range(1, last_seq + 1):
            wire = await self.log.get(seq)
            assert wire is not None
            stored = self.codec.decode(wire)
            if not kinds or isinstance(stored.event.payload, kinds):
                out.append(stored)
        return out

    async def corpus(self) -> CorpusState:
        """The corpus now."""
        return await self.appender.state(RAG_CORPUS, CORPUS)

    def file_id(self, relative_path: str) -> str:
        """A file's id."""
        return file_id_of(self.keys.current(APP_OWNER).secret, relative_path)

    async def file(self, relative_path: str) -> FileState:
        """A file now."""
        return await self.appender.state(file_aggregate(self.file_id(relative_path)), FILE)

    async def delete(self, relative_path: str) -> None:
        """Delete a file, as the edge does."""

        def decide(state: FileState) -> Sequence[Payload]:
            return [] if state.is_deleted or not state.version else [file.FileDeleted(version=state.version)]

        aggregate = file_aggregate(self.file_id(relative_path))
        await self.appender.execute(Command(aggregate, FILE, uuid4(), decide, actor="user"))

    async def upload(self, relative_path: str, content: str) -> None:
        """Upload a file, as the edge does."""
        data, aggregate = content.encode(), file_aggregate(self.file_id(relative_path))
        self.keys.ensure([owner_of(aggregate)])
        doc_id = doc_id_of(relative_path, content_hash_of(data))
        uploaded = file.FileUploaded(
            version=version_of(self.keys.current(owner_of(aggregate)).secret, doc_id),
            source=await self.blobs.put(owner_of(aggregate), data),
            size_bytes=len(data),
            private=file.FileIdentity(
                relative_path=relative_path, doc_id=doc_id, content_hash=content_hash_of(data)
            ),
        )

        def decide(_: FileState) -> Sequence[Payload]:
            return [uploaded]

        await self.appender.execute(Command(aggregate, FILE, uuid4(), decide, actor="user"))
        write(self.docs, {relative_path: content})

    async def known_files(self, _seq: int) -> Sequence[KnownFile]:
        """The files the corpus knows, as the documents view would tell them."""
        known: dict[str, KnownFile] = {}
        for stored in await self.events():
            payload, file_id = stored.event.payload, stored.event.aggregate.id
            if isinstance(payload, file.FileUploaded | file.FileDiscovered):
                known[file_id] = KnownFile(
                    file_id,
                    payload.version,
                    payload.private.relative_path,
                    payload.source,
                    is_missing=False,
                    is_awaited=isinstance(payload, file.FileUploaded),
                    modified_at=None,
                )
            elif isinstance(payload, file.FileMissing | file.FileFound):
                missing = isinstance(payload, file.FileMissing)
                known[file_id] = replace(known[file_id], is_missing=missing, is_awaited=False)
            elif isinstance(payload, file.FileDeleted):
                known.pop(file_id, None)
        return list(known.values())

    async def _read(self, data: bytes, *, suffix: str) -> ParsedDocument:
        self.counts.reads += 1
        return read(data, suffix=suffix)

    def _counted(self, chunker: Chunker) -> Chunker:
        def cut(
            doc: ParsedDocument,
            *,
            chunk_size: int,
            chunk_overlap: int,
            count_tokens: Callable[[str], int],
        ) -> list[Chunk]:
            self.counts.cuts += 1
            return chunker(doc, chunk_size=chunk_size, chunk_overlap=chunk_overlap, count_tokens=count_tokens)

        return cut


@dataclass
class Failing:
    """A point that fails at given visits, counted from 1."""

    at: frozenset[int]
    seen: int = field(default=0)

    async def __call__(self) -> None:
        self.seen += 1
        if self.seen in self.at:
            raise ConnectionResetError(f"the process dies at visit {self.seen}")


def bodies(events: Sequence[Stored[Payload]]) -> list[str]:
    """What kinds of events these are, for comparing histories."""
    return [stored.event.type for stored in events]


def plan_of(data: bytes) -> list[tuple[str, str]]:
    """The pairs of a plan's blob."""
    return [(file_id, version) for file_id, version in json.loads(data)]
