"""Conversations: list, start, read, delete."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from loreline.events.append import Command
from loreline.events.folds.conversation import CONVERSATION, ConversationState
from loreline.http_edge.addresses import conversation_not_found, conversation_of
from loreline.http_edge.requests import LOG_SEQ, answer, await_min_seq, body_of, command_key, edge_of
from loreline.processors.chat.frames import control_topic
from loreline.projectors.reads import CONVERSATIONS, ConversationSummary, Message
from loreline.schemas.events.conversation import ConversationCreated, ConversationDeleted, Title
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import conversation_aggregate, derived_key
from loreline.schemas.wire import (
    ConversationCreateRequest,
    ConversationDetailOut,
    ConversationSummaryOut,
    MessageOut,
    MessageSourceOut,
)

UNTITLED = "New conversation"
_VIEWS = (CONVERSATIONS,)


async def list_conversations(request: Request) -> Response:
    """`GET /api/conversations`: most recently answered first."""
    edge = edge_of(request)
    await await_min_seq(request, edge, _VIEWS)
    return answer([_summary(each) for each in await edge.conversations.list_recent()])


async def create_conversation(request: Request) -> Response:
    """`POST /api/conversations`: start one; with an Idempotency-Key, once."""
    edge = edge_of(request)
    body = await body_of(request, ConversationCreateRequest)
    key = command_key(request, edge)
    created = ConversationCreated(explicit=True, private=Title(title=body.title))

    def decide(state: ConversationState) -> Sequence[Payload]:
        return [] if state.exists else [created]

    aggregate = conversation_aggregate(str(key))
    (stored,) = await edge.appender.execute(Command(aggregate, CONVERSATION, key, decide, actor="user"))
    payload, moment = stored.event.payload, stored.event.time
    assert isinstance(payload, ConversationCreated)
    out = ConversationSummaryOut(
        conversation_id=aggregate.id,
        title=payload.private.title or UNTITLED,
        created_at=moment,
        updated_at=moment,
        message_count=0,
    )
    return answer(out, status=201, seq=stored.seq)


async def get_conversation(request: Request) -> Response:
    """`GET /api/conversations/{id}`: the transcript with each answer's evidence."""
    edge = edge_of(request)
    await await_min_seq(request, edge, _VIEWS)
    conversation_id = conversation_of(request.path_params["conversation_id"]).id
    found = await edge.conversations.get(conversation_id)
    if found is None:
        raise conversation_not_found(conversation_id)
    messages = await edge.conversations.messages(conversation_id)
    return answer(
        ConversationDetailOut(
            conversation_id=found.conversation_id,
            title=found.title or UNTITLED,
            created_at=found.created_at,
            updated_at=found.updated_at,
            messages=[_message(each) for each in messages],
        )
    )


async def delete_conversation(request: Request) -> Response:
    """`DELETE /api/conversations/{id}`: gone from every list."""
    edge = edge_of(request)
    aggregate = conversation_of(request.path_params["conversation_id"])
    state = await edge.appender.state(aggregate, CONVERSATION)
    if not state.exists or state.is_deleted:
        raise conversation_not_found(aggregate.id)

    def decide(state: ConversationState) -> Sequence[Payload]:
        return [] if state.is_deleted else [ConversationDeleted()]

    key = derived_key(UUID(aggregate.id), "delete")
    stored = await edge.appender.execute(Command(aggregate, CONVERSATION, key, decide, actor="user"))
    for turn in state.turns:
        if state.is_open(turn):  # nobody will see its answer
            await edge.live.publish(control_topic(turn), {"stop": True})
    headers = {LOG_SEQ: str(stored[-1].seq)} if stored else {}
    return Response(status_code=204, headers=headers)


def _summary(found: ConversationSummary) -> ConversationSummaryOut:
    return ConversationSummaryOut(
        conversation_id=found.conversation_id,
        title=found.title or UNTITLED,
        created_at=found.created_at,
        updated_at=found.updated_at,
        message_count=found.message_count,
    )


def _message(found: Message) -> MessageOut:
    kept = {name: value for name, value in found.provenance.items() if name in MessageOut.model_fields}
    return MessageOut(
        **kept,
        message_id=found.message_id,
        role="user" if found.role == "user" else "assistant",
        content=found.content,
        created_at=found.created_at,
        sources=[MessageSourceOut(**source) for source in found.sources],
    )
