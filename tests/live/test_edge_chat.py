"""Turns over HTTP with a model whose every word the test decides: resumed, stopped, abandoned, failing."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from loreline.cli.attach import Attached
from loreline.events.append import Command
from loreline.events.folds.app import SETTINGS_FOLD
from loreline.processors.models import LanguageModelSettings
from loreline.schemas.events.app import SettingsChanged, SettingValues
from loreline.schemas.ids import SETTINGS
from loreline.wiring.stack import Stack
from tests.edge import Frame, Stream, ask, refused, stream
from tests.servers.scripted import Exchange, scripted
from tests.stack import ingest, stack_at

pytestmark = pytest.mark.asyncio(loop_scope="module")
FILES = {
    "harbour.md": "The lighthouse of Varn is 41 metres tall.\n",
    "ferry.md": "The last ferry leaves at 18:20.\n",
}
SOON_S = 15.0


@dataclass
class Author:
    """The model: says a word, waits for `go` where the question holds `slow`, then says the rest.

    Attributes:
        asked: how often each question was asked.
        left: set when whoever asked closed the connection before the end.
    """

    asked: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    go: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    left: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    async def answer(self, exchange: Exchange) -> None:
        if not exchange.path.endswith("/chat/completions"):
            await exchange.send_json({"data": [{"id": "author"}]})
            return
        text = exchange.json()["messages"][-1]["content"]
        question = next(word for word in reversed(text.split()) if word.startswith("q-"))
        self.asked[question] += 1
        await exchange.begin_stream()
        await exchange.send_piece(said({"content": "It is "}))
        if "slow" in question:
            going = asyncio.create_task(self.go[question].wait())
            leaving = asyncio.create_task(exchange.client_gone())
            done, others = await asyncio.wait({going, leaving}, return_when=asyncio.FIRST_COMPLETED)
            for task in others:
                task.cancel()
            if leaving in done:
                self.left[question].set()
                return
        if "cut" in question:
            return
        words = "41\0\ud83d metres [1][9]." if "odd" in question else "41 metres tall [1]."
        await exchange.send_piece(said({"reasoning_content": "Hm."}))
        await exchange.send_piece(said({"content": words}))
        await exchange.send_piece(said({}, finish="stop", usage={"prompt_tokens": 9, "completion_tokens": 5}))
        await exchange.send_piece("data: [DONE]\n\n")
        await exchange.end_stream()


def said(delta: dict[str, str], *, finish: str | None = None, usage: dict[str, int] | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice], **({'usage': usage} if usage else {})})}\n\n"


@dataclass(frozen=True)
class World:
    """A stack with two documents, and the model that answers from them."""

    stack: Stack
    client: Attached
    author: Author

    @property
    def http(self) -> httpx.AsyncClient:
        return self.client.http

    def open(self, question: str, **body: Any) -> Any:
        return stream(self.http, "POST", "/api/chat", body={"query": question, **body})

    def reopen(self, turn: str, *, after: str | None = None) -> Any:
        headers = {} if after is None else {"Last-Event-ID": after}
        return stream(self.http, "GET", f"/api/chat/{turn}/stream", headers=headers)

    async def messages(self, conversation: str, seq: int) -> list[dict[str, Any]]:
        detail = await self.client.get(f"/api/conversations/{conversation}", min_seq=seq)
        messages: list[dict[str, Any]] = detail["messages"]
        return messages

    async def listed(self) -> list[str]:
        seq = (await self.stack.core.log.info()).last_seq
        return [each["conversation_id"] for each in await self.client.get("/api/conversations", min_seq=seq)]

    @asynccontextmanager
    async def abandoning_after(self, seconds: int) -> AsyncIterator[None]:
        """Turns asked inside are given up after so long without a reader."""
        await self._set(CHAT_ABANDON_S=str(seconds))
        try:
            yield
        finally:
            await self._set(CHAT_ABANDON_S="30")

    async def _set(self, **values: str) -> None:
        changed = SettingsChanged(names=tuple(values), private=SettingValues(set=values))
        command = Command(SETTINGS, SETTINGS_FOLD, uuid4(), lambda _: [changed], actor="test")
        await self.stack.core.appender.execute(command)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    author = Author()
    async with scripted(author.answer) as server:
        root, llm = tmp_path_factory.mktemp("edge"), LanguageModelSettings(url=server.url, model="author")
        async with stack_at(root, files=FILES, llm=llm, knobs={"CHAT_ABANDON_S": "30"}) as (stack, client):
            await ingest(client)
            yield World(stack, client, author)


def ids(turn: Stream) -> tuple[str, str]:
    return turn.response.headers["X-Turn-Id"], turn.response.headers["X-Conversation-Id"]


def text_of(frames: list[Frame]) -> str:
    return "".join(each.data["delta"] for each in frames if each.event == "token")


async def test_evidence_comes_before_words_and_done_after_the_answer_is_in_the_log(world: World) -> None:
    async with world.open("How tall is the lighthouse? q-plain") as turn:
        frames = await turn.rest()
        turn_id, conversation = ids(turn)
        assert turn.response.headers["Content-Type"].startswith("text/event-stream")
        assert turn.response.headers["Cache-Control"] == "no-store"
    names = [each.event for each in frames]
    assert (names[0], names[-1]) == ("retrieval", "done")
    assert set(names[1:-1]) == {"token", "reasoning"}
    assert [each.id for each in frames[:-1]] == [f"1-{n}" for n in range(1, len(frames))]
    retrieval, done = frames[0].data, frames[-1].data
    assert set(retrieval) >= {
        "chunks",
        "method",
        "top_k",
        "reranked_to",
        "condensed_query",
        "corpus",
        "graph",
    }
    assert set(retrieval["chunks"][0]) >= {
        "chunk_id", "doc_id", "content", "context", "original_index", "score", "metadata", "trace",
    }  # fmt: skip
    assert set(retrieval["chunks"][0]["trace"]) >= {
        "semantic_rank", "semantic_score", "bm25_rank", "bm25_score", "fused_rank", "fused_score",
        "rerank_score", "rerank_delta", "final_rank",
    }  # fmt: skip
    assert done["answer"] == text_of(frames) == "It is 41 metres tall [1]."
    assert (done["conversation_id"], done["turn_id"]) == (conversation, turn_id)
    assert set(done["usage"]) == {"prompt_tokens", "completion_tokens", "latency_ms", "tokens_per_second"}
    assert set(done["usage"]["latency_ms"]) == {"retrieval", "generation", "total"}
    async with stream(world.http, "GET", f"/api/events?after_seq={done['log_seq'] - 1}&follow=false") as log:
        assert (await log.rest())[0].data["type"] == "conversation.turn_answered"
    question, answer = await world.messages(conversation, done["log_seq"])
    assert set(answer) >= {
        "message_id", "role", "content", "created_at", "retrieval_method", "chat_engine", "condensed_query",
        "latency_ms", "reasoning", "target_corpus", "graph_evidence", "sources",
    }  # fmt: skip
    assert (question["role"], question["content"]) == ("user", "How tall is the lighthouse? q-plain")
    assert (answer["role"], answer["content"]) == ("assistant", done["answer"])
    assert answer["message_id"] == done["message_id"]
    assert (answer["reasoning"], answer["target_corpus"]) == ("Hm.", "rag")
    assert set(answer["sources"][0]) == {"rank", "chunk_id", "trace"}
    assert [each["chunk_id"] for each in answer["sources"]] == [
        each["chunk_id"] for each in retrieval["chunks"]
    ]


async def test_overrides_hold_for_one_turn(world: World) -> None:
    frames = await ask(
        world.http,
        "lighthouse q-over",
        overrides={"retrieval_method": "bm25", "top_k": 1, "chat_engine": "simple"},
    )
    assert (frames[0].data["method"], frames[0].data["top_k"]) == ("bm25", 1)
    assert len(frames[0].data["chunks"]) == 1
    frames = await ask(world.http, "lighthouse q-over")
    assert (frames[0].data["method"], frames[0].data["top_k"]) == ("hybrid", 10)


async def test_a_reader_that_comes_back_gets_exactly_what_it_missed(world: World) -> None:
    async with world.open("How tall? q-slow-resume") as turn:
        first = await turn.until("token")
        turn_id, conversation = ids(turn)
    async with world.reopen(turn_id, after=first[-1].id) as turn:
        world.author.go["q-slow-resume"].set()
        rest = await turn.rest()
    assert [each.id for each in [*first, *rest[:-1]]] == [f"1-{n}" for n in range(1, len(first) + len(rest))]
    assert rest[-1].event == "done"
    assert text_of([*first, *rest]) == rest[-1].data["answer"]
    async with world.reopen(turn_id) as turn:
        again = await turn.rest()
    assert again == [*first, *rest]
    async with world.reopen(turn_id, after="9" * 5000 + "-x") as turn:
        assert await turn.rest() == again
    async with world.reopen(turn_id, after=rest[-2].id) as turn:
        assert await turn.rest() == [rest[-1]]
    assert len(await world.messages(conversation, rest[-1].data["log_seq"])) == 2


async def test_a_turn_nobody_reads_is_stopped_and_leaves_nothing(world: World) -> None:
    async with world.abandoning_after(1), world.open("How tall? q-slow-abandoned") as turn:
        await turn.until("token")
        turn_id, conversation = ids(turn)
    async with asyncio.timeout(SOON_S):
        await world.author.left["q-slow-abandoned"].wait()
    async with world.reopen(turn_id) as turn:
        ending = (await turn.rest())[-1]
    assert (ending.event, ending.data["code"]) == ("error", "aborted")
    assert conversation not in await world.listed()


async def test_a_turn_that_is_read_is_not_taken_for_abandoned(world: World) -> None:
    async with world.abandoning_after(2), world.open("How tall? q-slow-read") as turn:
        await turn.until("token")
        await asyncio.sleep(2.5)  # longer than an unread turn is left
        world.author.go["q-slow-read"].set()
        assert (await turn.rest())[-1].event == "done"


async def test_with_no_patience_a_disconnect_stops_the_turn_at_once(world: World) -> None:
    async with world.abandoning_after(0):
        async with world.open("How tall? q-slow-at-once") as turn:
            await turn.until("token")
            _, conversation = ids(turn)
        async with asyncio.timeout(SOON_S):
            await world.author.left["q-slow-at-once"].wait()
    assert conversation not in await world.listed()


async def test_a_turn_is_stopped_on_request_once(world: World) -> None:
    async with world.open("How tall? q-slow-abort") as turn:
        await turn.until("token")
        turn_id, conversation = ids(turn)
        stopped = await world.http.post(f"/api/chat/{turn_id}/abort")
        assert stopped.json() == {"turn_id": turn_id, "aborted": True}
        ending = (await turn.rest())[-1]
    assert (ending.event, ending.data["code"]) == ("error", "aborted")
    async with asyncio.timeout(SOON_S):
        await world.author.left["q-slow-abort"].wait()
    again = await world.http.post(f"/api/chat/{turn_id}/abort")
    assert again.json() == stopped.json()
    assert conversation not in await world.listed()
    async with world.open("How tall? q-ended") as turn:
        done = (await turn.rest())[-1]
        turn_id, _ = ids(turn)
    late = await world.http.post(f"/api/chat/{turn_id}/abort")
    assert late.json() == {"turn_id": turn_id, "aborted": False}
    assert done.event == "done"


async def test_a_question_asked_twice_under_one_key_is_one_turn(world: World) -> None:
    key = {"Idempotency-Key": "question-once"}
    first, second = await asyncio.gather(
        ask(world.http, "How tall? q-once", headers=key), ask(world.http, "How tall? q-once", headers=key)
    )
    third = await ask(world.http, "How tall? q-once", headers=key)
    assert first == second == third
    assert first[-1].event == "done"
    assert world.author.asked["q-once"] == 1


async def test_two_people_in_one_conversation_both_get_their_answer(world: World) -> None:
    conversation = (await world.client.post("/api/conversations", {"title": "Shared"}))["conversation_id"]
    turns = await asyncio.gather(
        *(ask(world.http, f"How tall? q-shared-{n}", conversation_id=conversation) for n in range(4))
    )
    assert [frames[-1].event for frames in turns] == ["done"] * 4
    seq = max(frames[-1].data["log_seq"] for frames in turns)
    messages = await world.messages(conversation, seq)
    assert [each["role"] for each in messages] == ["user", "assistant"] * 4
    assert {each["content"] for each in messages[::2]} == {f"How tall? q-shared-{n}" for n in range(4)}


async def test_a_model_that_breaks_off_is_an_error_in_the_stream_and_leaves_nothing(world: World) -> None:
    async with world.open("How tall? q-cut") as turn:
        frames = await turn.rest()
        _, conversation = ids(turn)
    assert turn.response.status_code == 200
    assert [frames[0].event, frames[-1].event] == ["retrieval", "error"]
    assert set(frames[-1].data) == {"code", "message"}
    assert conversation not in await world.listed()


async def test_characters_nothing_can_keep_are_kept_out_of_an_answer(world: World) -> None:
    async with world.open("How tall? q-odd") as turn:
        done = (await turn.rest())[-1]
        _, conversation = ids(turn)
    assert done.event == "done"
    assert done.data["answer"] == "It is 41 \ufffd metres [1]."
    assert done.data["dropped_marks"] == [9]
    assert (await world.messages(conversation, done.data["log_seq"]))[1]["content"] == done.data["answer"]


async def test_deleting_a_conversation_ends_its_open_turn(world: World) -> None:
    async with world.open("How tall? q-slow-deleted") as turn:
        await turn.until("token")
        _, conversation = ids(turn)
        assert (await world.http.delete(f"/api/conversations/{conversation}")).status_code == 204
        ending = (await turn.rest())[-1]
    assert (ending.event, ending.data["code"]) == ("error", "aborted")
    async with asyncio.timeout(SOON_S):
        await world.author.left["q-slow-deleted"].wait()
    gone = await world.http.get(f"/api/conversations/{conversation}")
    assert refused(gone) == (404, "conversation_not_found")
