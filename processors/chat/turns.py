"""The chat processor: a question in, frames while it is answered, and one outcome in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from loreline.events.append import Appender, Command
from loreline.events.blobs import SealedBlobs
from loreline.events.envelope import Stored
from loreline.events.folds.conversation import CONVERSATION, ConversationState, Turn
from loreline.events.folds.corpus import CORPUS
from loreline.events.live import Live
from loreline.events.tasks import end
from loreline.processors.chat.answer import Generation, Written, encode_evidence, generate, quote
from loreline.processors.chat.engines import ENGINES
from loreline.processors.chat.frames import FrameWriter, control_topic
from loreline.processors.chat.prompts import title_from_question
from loreline.processors.ingest.profiles import uses
from loreline.processors.retrieval import RETRIEVERS
from loreline.processors.retrieval.search import Retrieved, Sources, retrieve
from loreline.processors.stage import Commands, Stage
from loreline.schemas.errors import (
    ContextTooLong,
    DependencyDown,
    InputError,
    LorelineError,
    NotReady,
)
from loreline.schemas.events import conversation as events
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import RAG_CORPUS, command_event_id, derived_key, owner_of
from loreline.schemas.ports import Clock, Embedder, LanguageModel
from loreline.schemas.settings import Settings
from loreline.schemas.text import keepable

STAGE = "chat"
PARALLELISM = 4
MAX_REASONING_CHARS = 30_000


@dataclass(frozen=True)
class ChatPorts:
    """What answering needs from outside.

    Attributes:
        quoting: the embedder that compares sentences; it never waits behind an ingest.
        model: the language model, None for answers by quotation.
        generation: how the model is asked, made anew for each turn.
        seconds: a monotonic clock.
        ready_delays_s: the pauses before asking anew a view that is just starting or being built.
    """

    appender: Appender
    blobs: SealedBlobs
    live: Live
    sources: Sources
    quoting: Embedder
    model: LanguageModel | None
    generation: Callable[[], Generation]
    stem: Callable[[str], str]
    settings: Callable[[], Awaitable[Settings]]
    clock: Clock
    seconds: Callable[[], float]
    ready_delays_s: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0)


class _Stopped(Exception):
    """The turn must not be answered any more."""


def chat(ports: ChatPorts) -> Stage:
    """The stage: turn_asked in; answered, failed or aborted out."""

    async def run(event: Stored[Payload], attempt: int) -> Commands:
        asked = event.event.payload
        if not isinstance(asked, events.TurnAsked):
            return []
        state = await ports.appender.state(event.event.aggregate, CONVERSATION)
        if not state.is_open(asked.turn):
            return []
        frames = FrameWriter(ports.live, asked.turn, attempt)
        remaining_s = (asked.deadline - ports.clock()).total_seconds()
        if remaining_s <= 0:
            return [
                _failed(event, asked, attempt, "deadline", "the question was not answered in time; ask again")
            ]
        abandon_s = (await ports.settings()).chat.abandon_s
        try:
            async with asyncio.timeout(remaining_s) as limit:
                return await _stoppable(ports, event, asked, state, frames, abandon_s)
        except TimeoutError:
            if not limit.expired():
                raise  # somebody else's, on the way: to be tried again
            return [_aborted(event, asked, "deadline")]
        except _Stopped:
            return [_aborted(event, asked, "abandoned")]
        except DependencyDown as error:
            return [_failed(event, asked, attempt, f"{error.dependency}_unreachable", str(error))]
        except LorelineError as error:
            return [_failed(event, asked, attempt, _code(error), str(error))]

    return Stage(STAGE, ("lore.app.conversation.*.turn_asked",), run, parallelism=PARALLELISM)


async def _stoppable(
    ports: ChatPorts,
    event: Stored[Payload],
    asked: events.TurnAsked,
    state: ConversationState,
    frames: FrameWriter,
    abandon_s: float,
) -> Commands:
    """Answer, unless the turn is stopped first or nobody reads it any more."""
    answering = asyncio.create_task(_answer(ports, event, asked, state, frames))
    watching = asyncio.create_task(_until_stopped(ports.live, asked.turn, abandon_s))
    try:
        await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done() and watching.exception() is None:
            raise _Stopped
        return await answering  # also when its readers cannot be heard
    finally:
        await end(answering, watching)


async def _until_stopped(live: Live, turn: UUID, abandon_s: float) -> None:
    """Return when a reader says stop, or when none has been heard of for `abandon_s` (0: never)."""
    async with live.listen(control_topic(turn)) as words:
        while True:
            try:
                async with asyncio.timeout(abandon_s or None):
                    _, word = await words.get()
            except TimeoutError:
                return
            if word.get("stop"):
                return


async def _answer(
    ports: ChatPorts,
    event: Stored[Payload],
    asked: events.TurnAsked,
    state: ConversationState,
    frames: FrameWriter,
) -> Commands:
    started = ports.seconds()
    question, history = asked.private.question, state.history
    engine = ENGINES.get(asked.chat_engine)
    if engine is None:
        raise InputError("unknown_chat_engine", f"there is no chat engine {asked.chat_engine}")
    condensed = await engine(question, history)
    condensed_at = ports.seconds()
    profile, found = await _retrieve(ports, asked, condensed or question)
    retrieved_at = ports.seconds()
    await frames.send("retrieval", retrieval_frame(found, asked, condensed))
    written = await _write(ports, question, found, history, frames)
    done_at = ports.seconds()
    latency = events.LatencyMs(
        condense=_ms(condensed_at - started),
        retrieval=_ms(retrieved_at - condensed_at),
        generation=_ms(done_at - retrieved_at),
        total=_ms(done_at - started),
    )
    evidence = await ports.blobs.put(
        owner_of(event.event.aggregate),
        encode_evidence(found.passages, record=written.record, facts={"n_dropped": found.n_dropped}),
    )
    answered = _answered(event, asked, frames.attempt, found, written, latency, evidence, profile, condensed)
    return [_outcome(event, asked, answered)]


async def _retrieve(ports: ChatPorts, asked: events.TurnAsked, text: str) -> tuple[str, Retrieved]:
    """(The active profile, the passages). Vectors of another model than the running one are refused."""
    corpus = await ports.appender.state(RAG_CORPUS, CORPUS)
    active = corpus.profiles.get(corpus.active or "")
    if active is None:
        raise DependencyDown("corpus", "the corpus is not set up yet; try again shortly")
    if asked.retrieval_method != "bm25" and not uses(active, ports.sources.embedder.identity):
        raise InputError(
            "embedder_mismatch",
            "the corpus was embedded by another model than the one that runs; start with that model, "
            "re-ingest, or ask with the method bm25",
        )
    for delay_s in ports.ready_delays_s:
        try:
            return active.id, await _found(ports, asked, text, active.id, corpus.active_seq)
        except NotReady:
            await asyncio.sleep(delay_s)
    return active.id, await _found(ports, asked, text, active.id, corpus.active_seq)


async def _found(
    ports: ChatPorts, asked: events.TurnAsked, text: str, profile: str, active_seq: int
) -> Retrieved:
    """The passages.

    Raises NotReady while a view is just starting or being built, or has not reached the profile's
    activation: it would answer from a profile that is not filled.
    """
    found = await retrieve(
        text,
        method=asked.retrieval_method,
        profile=profile,
        top_k=asked.top_k,
        sources=ports.sources,
        settings=(await ports.settings()).retrieval,
        retrievers=RETRIEVERS,
    )
    if min((seq for seq in (found.passages_seq, found.lexical_seq) if seq), default=active_seq) < active_seq:
        raise NotReady("the views have not reached the new ingest profile; ask again in a second")
    return found


async def _write(
    ports: ChatPorts, question: str, found: Retrieved, history: Sequence[Turn], frames: FrameWriter
) -> Written:
    if ports.model is None:
        return await quote(question, found.passages, embedder=ports.quoting, stem=ports.stem, sink=frames)
    return await generate(
        question,
        found.passages,
        history=history,
        model=ports.model,
        generation=ports.generation(),
        sink=frames,
    )


def retrieval_frame(found: Retrieved, asked: events.TurnAsked, condensed: str | None) -> dict[str, Any]:
    """The evidence as the stream shows it before the first word of the answer."""
    return {
        "chunks": [passage.model_dump(mode="json") for passage in found.passages],
        "method": found.method,
        "top_k": asked.top_k,
        "reranked_to": None,
        "condensed_query": condensed,
        "corpus": asked.corpus,
        "graph": None,
        "passages_seq": found.passages_seq,
        "lexical_seq": found.lexical_seq,
    }


def _answered(
    event: Stored[Payload],
    asked: events.TurnAsked,
    attempt: int,
    found: Retrieved,
    written: Written,
    latency: events.LatencyMs,
    evidence: str,
    profile: str,
    condensed: str | None,
) -> events.TurnAnswered:
    usage = written.usage
    return events.TurnAnswered(
        turn=asked.turn,
        attempt=attempt,
        user_message=command_event_id(asked.turn, 1),
        assistant_message=command_event_id(asked.turn, 2),
        found=written.found,
        retrieval_method=found.method,
        chat_engine=asked.chat_engine,
        answered_by=written.by,
        corpus=asked.corpus,
        n_passages=len(found.passages),
        evidence=evidence,
        prompt_tokens=usage.prompt_tokens if usage else None,
        completion_tokens=usage.completion_tokens if usage else None,
        tokens_per_second=usage.tokens_per_second if usage else None,
        latency_ms=latency,
        passages_seq=found.passages_seq,
        lexical_seq=found.lexical_seq,
        profile=profile,
        private=events.Answer(
            answer=written.text,
            reasoning=written.reasoning[:MAX_REASONING_CHARS] if written.reasoning else None,
            condensed_query=condensed,
            citations=written.citations,
            dropped_marks=written.dropped,
        ),
    )


def _outcome(event: Stored[Payload], asked: events.TurnAsked, payload: Payload) -> Command[ConversationState]:
    """The decision that ends a turn, once; the first answered turn names an untitled conversation."""

    def decide(state: ConversationState) -> Sequence[Payload]:
        if not state.is_open(asked.turn):
            return []
        if isinstance(payload, events.TurnAnswered) and state.title is None:
            titled = events.ConversationTitled(
                private=events.Title(title=title_from_question(asked.private.question))
            )
            return [payload, titled]
        return [payload]

    return Command(
        event.event.aggregate,
        CONVERSATION,
        derived_key(event.event.id, STAGE),
        decide,
        actor=f"stage.{STAGE}",
        correlation=event.event.correlation,
        causation=event.event.id,
    )


def _code(error: LorelineError) -> str:
    """The machine word of a failure."""
    match error:
        case InputError():
            return error.code
        case ContextTooLong():
            return "context_too_long"
        case NotReady():
            return "not_ready"
    return "pipeline_error"


def _failed(
    event: Stored[Payload], asked: events.TurnAsked, attempt: int, code: str, reason: str
) -> Command[ConversationState]:
    failed = events.TurnFailed(
        turn=asked.turn, attempt=attempt, code=code, private=events.TurnError(reason=keepable(reason))
    )
    return _outcome(event, asked, failed)


def _aborted(
    event: Stored[Payload], asked: events.TurnAsked, cause: Literal["abandoned", "deadline"]
) -> Command[ConversationState]:
    return _outcome(event, asked, events.TurnAborted(turn=asked.turn, cause=cause))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
