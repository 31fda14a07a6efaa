"""Chat: ask, read on after a break, stop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.conversation import CONVERSATION, ConversationState
from loreline.http_edge.addresses import conversation_not_found, conversation_of
from loreline.http_edge.ports import Edge
from loreline.http_edge.preflight import require
from loreline.http_edge.requests import LOG_SEQ, body_of, command_key, edge_of
from loreline.http_edge.sse import EventStream
from loreline.http_edge.turns import Reading, TurnStream
from loreline.processors.chat.frames import control_topic, frames_topic
from loreline.projectors.reads import CONVERSATIONS
from loreline.schemas.errors import InputError, NotFound
from loreline.schemas.events import conversation as events
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate, conversation_aggregate, derived_key
from loreline.schemas.wire import ChatOverrides, ChatRequest

LOOK_UP_S = 2.0
SERVICES = ("nats", "postgres", "embedder", "llm")
_PLACE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})", re.ASCII)


async def ask(request: Request) -> Response:
    """`POST /api/chat`: one question in, one stream out: evidence, words, then `done` or `error`."""
    edge = edge_of(request)
    body = await body_of(request, ChatRequest)
    settings = await edge.settings()
    overrides = _checked(edge, body.overrides or ChatOverrides())
    if body.corpus == "graph":
        raise InputError("graph_disabled", "this stack has no message graph; ask the documents", status=403)
    await require(edge, SERVICES)
    key = command_key(request, edge)
    turn = derived_key(key, "turn")
    conversation = await _conversation(edge, body, key)
    asked = events.TurnAsked(
        turn=turn,
        corpus=body.corpus or "rag",
        retrieval_method=overrides.retrieval_method or settings.retrieval.method,
        chat_engine=overrides.chat_engine or settings.chat.engine,
        top_k=overrides.top_k or settings.retrieval.top_k,
        deadline=edge.clock() + timedelta(seconds=settings.chat.deadline_s),
        private=events.Question(question=body.query),
    )
    stream = TurnStream(edge, turn, abandon_s=settings.chat.abandon_s)
    await stream.listen()
    try:
        stored = await edge.appender.execute(_asking(conversation, key, asked))
        # A repeated question was asked before; what it missed meanwhile is in LIVE.
        earlier = [] if stored[-1].event.payload is asked else await edge.live.recall(frames_topic(turn))
    except BaseException:
        await stream.close()
        raise
    headers = {"X-Turn-Id": str(turn), "X-Conversation-Id": conversation.id, LOG_SEQ: str(stored[-1].seq)}
    reading = Reading(conversation, turn, stored[-1].seq, stored[-1].event.id)
    return EventStream(stream.frames(reading, earlier), headers=headers)


def _checked(edge: Edge, overrides: ChatOverrides) -> ChatOverrides:
    """The overrides. Raises InputError when one names what is not there."""
    method, engine = overrides.retrieval_method, overrides.chat_engine
    if method is not None and method not in edge.capabilities.retrievers:
        known = ", ".join(edge.capabilities.retrievers)
        raise InputError(
            "unknown_retrieval_method", f"there is no method {method[:60]!r}; choose one of {known}"
        )
    if engine is not None and engine not in edge.capabilities.chat_engines:
        known = ", ".join(edge.capabilities.chat_engines)
        raise InputError("unknown_chat_engine", f"there is no engine {engine[:60]!r}; choose one of {known}")
    return overrides


async def _conversation(edge: Edge, body: ChatRequest, key: UUID) -> Aggregate:
    """The conversation the turn belongs to; a new one is named by the command's key."""
    if body.conversation_id is None:
        return conversation_aggregate(str(key))
    aggregate = conversation_of(body.conversation_id)
    state = await edge.appender.state(aggregate, CONVERSATION)
    if not state.exists or state.is_deleted:
        raise conversation_not_found(aggregate.id)
    return aggregate


def _asking(conversation: Aggregate, key: UUID, asked: events.TurnAsked) -> Command[ConversationState]:
    def decide(state: ConversationState) -> Sequence[Payload]:
        if state.is_deleted:
            raise conversation_not_found(conversation.id)
        return [asked] if state.exists else [events.ConversationCreated(), asked]

    return Command(conversation, CONVERSATION, key, decide, actor="user", correlation=key)


async def read_on(request: Request) -> Response:
    """`GET /api/chat/{turn_id}/stream`: the turn from the frame after `Last-Event-ID`."""
    edge = edge_of(request)
    turn, conversation = await _turn(request, edge)
    asked = await _asked(edge, turn, conversation)
    seen = _place(request.headers.get("Last-Event-ID", ""))
    stream = TurnStream(edge, turn, abandon_s=(await edge.settings()).chat.abandon_s)
    await stream.listen()
    try:
        earlier = await edge.live.recall(frames_topic(turn))
    except BaseException:
        await stream.close()
        raise
    reading = Reading(conversation, turn, asked.seq, asked.event.id, seen)
    return EventStream(stream.frames(reading, earlier))


async def _asked(edge: Edge, turn: UUID, conversation: Aggregate) -> Stored[Payload]:
    """The event of a turn's question."""
    for each in await edge.log.read(conversation):
        stored = edge.codec.decode(each)
        payload = stored.event.payload
        if isinstance(payload, events.TurnAsked) and payload.turn == turn:
            return stored
    raise _no_turn(str(turn))


async def abort(request: Request) -> Response:
    """`POST /api/chat/{turn_id}/abort`: stop at once. A turn that has ended already stays as it is."""
    edge = edge_of(request)
    turn, conversation = await _turn(request, edge)

    def decide(state: ConversationState) -> Sequence[Payload]:
        return [events.TurnAborted(turn=turn, cause="asked")] if state.is_open(turn) else []

    key = derived_key(turn, "abort")
    stored = await edge.appender.execute(Command(conversation, CONVERSATION, key, decide, actor="user"))
    await edge.live.publish(control_topic(turn), {"stop": True})
    headers = {LOG_SEQ: str(stored[-1].seq)} if stored else {}
    return JSONResponse({"turn_id": str(turn), "aborted": bool(stored)}, headers=headers)


async def _turn(request: Request, edge: Edge) -> tuple[UUID, Aggregate]:
    """The turn and its conversation, looked for as long as a view may lag. Raises NotFound."""
    text = request.path_params["turn_id"]
    try:
        turn = UUID(text)
    except ValueError:
        raise _no_turn(text) from None
    found = await edge.conversations.conversation_of(turn)
    if found is None:  # just asked, perhaps: the view follows the log by some milliseconds
        await edge.wait((await edge.log.info()).last_seq, (CONVERSATIONS,), timeout_s=LOOK_UP_S)
        found = await edge.conversations.conversation_of(turn)
    if found is None:
        raise _no_turn(text)
    return turn, conversation_aggregate(found)


def _no_turn(text: str) -> NotFound:
    return NotFound("turn_not_found", f"there is no turn {text[:60]}")


def _place(text: str) -> tuple[int, int]:
    """A frame's place from its id; (0, 0) for what is not one."""
    found = _PLACE.fullmatch(text.strip())
    return (int(found[1]), int(found[2])) if found else (0, 0)
