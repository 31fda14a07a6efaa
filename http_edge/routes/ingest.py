"""Ingest: start a run, and stream how it goes, from its first frame, whoever asks and whenever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.corpus import CORPUS, CorpusState, Operation
from loreline.events.tasks import end
from loreline.http_edge.ingest_frames import Frame, RunFrames, run_of
from loreline.http_edge.ports import Edge
from loreline.http_edge.preflight import require
from loreline.http_edge.requests import answer, body_of, command_key, edge_of
from loreline.http_edge.sse import EventStream, frame
from loreline.processors.ingest.discover import decode_unsupported
from loreline.projectors.reads import DOCUMENTS, LEXICAL, PASSAGES
from loreline.schemas.errors import Conflict
from loreline.schemas.events.corpus import OperationPlanned, OperationRequested
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import APP_OWNER, RAG_CORPUS
from loreline.schemas.wire import IngestRunOut, IngestStartRequest

FILTERS = ("lore.rag.corpus.main.*", "lore.rag.file.*.*", "lore.app.deadletter.*.parked")
SEARCHABLE = (PASSAGES, LEXICAL, DOCUMENTS)
VIEW_PATIENCE_S = 60.0


async def start_ingest(request: Request) -> Response:
    """`POST /api/ingest`: ask for a run; 202 with its handle. A repeated one gets the run as it is now."""
    edge = edge_of(request)
    body = await body_of(request, IngestStartRequest)
    await require(edge, ("nats", "postgres", "embedder"))
    key = command_key(request, edge)
    requested = OperationRequested(
        kind="ingest", run=key, reingest=body.reingest, force=body.force, again=body.again
    )

    def decide(state: CorpusState) -> Sequence[Payload]:
        if state.holder is not None:
            raise _taken(state.holder)
        return [requested]

    command = Command(RAG_CORPUS, CORPUS, key, decide, actor="user", correlation=key)
    (stored,) = await edge.appender.execute(command)
    return answer(await _run(edge, key, stored.seq), status=202, seq=stored.seq)


async def _run(edge: Edge, run: UUID, seq: int) -> IngestRunOut:
    """A run as it stands, from its corpus's events since it was requested at `seq`."""
    history = await edge.log.read(RAG_CORPUS, after_seq=seq - 1)
    return run_of(run, [edge.codec.decode(each) for each in history])


def _taken(holder: Operation) -> Conflict:
    if holder.kind == "ingest":
        return Conflict("ingest_already_running", "an ingest is running already; follow it or wait for it")
    return Conflict("corpus_busy", f"a {holder.kind} is running; start the ingest when it has ended")


async def ingest_status(request: Request) -> Response:
    """`GET /api/ingest/status`: the newest run's frames from its first, then live until it ends."""
    edge = edge_of(request)
    operation = (await edge.appender.state(RAG_CORPUS, CORPUS)).operation
    if operation is None or operation.kind != "ingest":
        return EventStream(_idle())
    return EventStream(_frames(edge, operation))


async def _idle() -> AsyncGenerator[bytes, None]:
    yield frame("status", {"run": None})


async def _frames(edge: Edge, operation: Operation) -> AsyncGenerator[bytes, None]:
    """The run as it stands, then its frames from the first; `error` if they cannot be read on."""
    snapshot = await _run(edge, operation.run, operation.seq)
    yield frame("status", {"run": snapshot.model_dump(mode="json")})
    run = RunFrames(operation.run)
    queue: asyncio.Queue[Frame | Exception | None] = asyncio.Queue()
    tasks = [
        asyncio.create_task(_follow_log(edge, operation, run, queue)),
        asyncio.create_task(_follow_live(edge, operation.run, run, queue)),
    ]
    try:
        while (each := await queue.get()) is not None:
            if isinstance(each, Exception):
                raise each
            yield frame(each.event, each.data)
    finally:
        await end(*tasks)


async def _follow_log(
    edge: Edge, operation: Operation, run: RunFrames, queue: asyncio.Queue[Frame | Exception | None]
) -> None:
    """Turn the log's events into frames; a file is done once it can be found."""
    try:
        async with aclosing(edge.log.follow(after_seq=operation.seq - 1, filters=FILTERS)) as batches:
            async for batch in batches:
                for sealed in batch:
                    await _take(edge, edge.codec.decode(sealed), run, queue)
                    if run.is_over:
                        queue.put_nowait(None)
                        return
    except Exception as error:  # told to the reader, in whose task it can be
        queue.put_nowait(error)


async def _take(
    edge: Edge, stored: Stored[Payload], run: RunFrames, queue: asyncio.Queue[Frame | Exception | None]
) -> None:
    waited = False
    for each in run.take(stored):
        if each.waits and not waited:
            waited = await edge.wait(stored.seq, SEARCHABLE, timeout_s=VIEW_PATIENCE_S)
        queue.put_nowait(each)
    payload = stored.event.payload
    if isinstance(payload, OperationPlanned) and payload.n_unsupported:
        plan = await edge.blobs.get(APP_OWNER, payload.plan)
        for each in run.passed_over(decode_unsupported(plan)):
            queue.put_nowait(each)


async def _follow_live(
    edge: Edge, run_id: UUID, run: RunFrames, queue: asyncio.Queue[Frame | Exception | None]
) -> None:
    """Pass on the ticks inside a stage, which are nowhere but here."""
    async with edge.live.listen(f"run.{run_id}") as ticks:
        while True:
            _, tick = await ticks.get()
            made = run.tick(tick)
            if made is not None:
                queue.put_nowait(made)
