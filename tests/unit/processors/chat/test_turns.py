"""What becomes of a question: one outcome in the log, whatever happens while it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import numpy as np
import pytest
from tests.conftest import now
from tests.world import CountingEmbedder, World

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.conversation import CONVERSATION, ConversationState
from loreline.events.live import Heard, MemoryLive
from loreline.events.memory import subject_pattern
from loreline.processors.chat.answer import Generation
from loreline.processors.chat.frames import control_topic, frames_topic
from loreline.processors.chat.turns import ChatPorts, chat
from loreline.processors.retrieval.search import Sources
from loreline.projectors.lexical import LexicalResult
from loreline.schemas.errors import DependencyDown, LorelineError, NotReady
from loreline.schemas.events import conversation as events
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import conversation_aggregate, owner_of
from loreline.schemas.ports import Vectors
from loreline.schemas.records import ChunkRecord, Hit

QUESTION = "How tall is the lighthouse of Varn?"
RECORD = ChunkRecord(
    doc_id="d",
    chunk_id="d::0",
    original_index=7,
    chunk_index=0,
    source="/docs/harbour.md",
    relative_path="harbour.md",
    file_name="harbour.md",
    file_type="md",
    content="The lighthouse of Varn is 41 metres tall.",
    contextualized_content="The lighthouse of Varn is 41 metres tall.",
    chunk_size=1200,
    chunk_overlap=150,
    chunking_strategy="recursive_character",
    embedding_model="hash-16",
    n_tokens=9,
    content_hash="0",
    created_at=now(),
)


class Views:
    """Both arms at once: one passage, after whatever the test puts in the way."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.not_ready = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.reached = asyncio.Event()

    async def _pass(self) -> None:
        self.reached.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if self.not_ready > 0:
            self.not_ready -= 1
            raise NotReady("the view is being built; try again shortly")

    async def nearest(
        self, profile: str, vector: Vectors, *, top_k: int, as_of_seq: int | None = None
    ) -> tuple[list[Hit], int]:
        await self._pass()
        assert vector.dtype == np.float32
        return [Hit(chunk_id="d::0", original_index=7, score=0.9)], 3

    async def records(
        self, profile: str, original_indexes: Sequence[int], *, as_of_seq: int | None = None
    ) -> Mapping[int, ChunkRecord]:
        return {7: RECORD}

    async def search(
        self, profile: str, text: str, *, top_k: int, as_of_seq: int | None = None
    ) -> LexicalResult:
        await self._pass()
        return LexicalResult([Hit(chunk_id="d::0", original_index=7, score=4.2)], 4)


class DeafLive(MemoryLive):
    """Frames go out, but nobody can listen."""

    @asynccontextmanager
    async def listen(self, topic: str) -> AsyncIterator[Heard]:
        raise ConnectionResetError("the connection is gone")
        yield


class Chat:
    """The chat stage over one conversation on a log in memory."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.views = Views()
        self.live: MemoryLive = world.live
        self.embedder = world.embedder
        self.conversation = conversation_aggregate(str(uuid4()))

    def ports(self) -> ChatPorts:
        def generation() -> Generation:
            raise AssertionError("no model is asked")

        return ChatPorts(
            appender=self.world.appender,
            blobs=self.world.blobs,
            live=self.live,
            sources=Sources(self.views, self.views, self.embedder),
            quoting=self.embedder,
            model=None,
            generation=generation,
            stem=lambda word: word,
            settings=self.world.settings,
            clock=now,
            seconds=lambda: 0.0,
            ready_delays_s=(0.0, 0.0),
        )

    async def say(self, *payloads: Payload) -> list[Stored[Payload]]:
        def decide(_: ConversationState) -> Sequence[Payload]:
            return payloads

        return await self.world.appender.execute(
            Command(self.conversation, CONVERSATION, uuid4(), decide, actor="user")
        )

    async def ask(
        self, *, deadline_s: float = 60, method: str = "hybrid", engine: str = "simple"
    ) -> Stored[Payload]:
        asked = events.TurnAsked(
            turn=uuid4(),
            retrieval_method=method,
            chat_engine=engine,
            top_k=3,
            deadline=now() + timedelta(seconds=deadline_s),
            private=events.Question(question=QUESTION),
        )
        (stored,) = await self.say(asked)
        return stored

    async def answer(self, asked: Stored[Payload], *, attempt: int = 1) -> list[Payload]:
        """Run the stage on a question, append what it decides; the payloads appended."""
        appended: list[Payload] = []
        for command in await chat(self.ports()).run(asked, attempt):
            appended += [stored.event.payload for stored in await self.world.appender.execute(command)]
        return appended

    async def frames(self, asked: Stored[Payload]) -> list[str]:
        kept = await self.live.recall(frames_topic(turn_of(asked)))
        return [frame["event"] for frame in kept]


def turn_of(asked: Stored[Payload]) -> UUID:
    payload = asked.event.payload
    assert isinstance(payload, events.TurnAsked)
    return payload.turn


@pytest.fixture
async def talk(tmp_path: Path) -> Chat:
    world = World(tmp_path)
    await world.define()
    talk = Chat(world)
    await talk.say(events.ConversationCreated())
    return talk


async def test_the_evidence_comes_first_and_the_answer_is_one_decision_with_the_title(talk: Chat) -> None:
    asked = await talk.ask()
    answered, titled = await talk.answer(asked)
    assert isinstance(answered, events.TurnAnswered)
    assert isinstance(titled, events.ConversationTitled)
    assert "41 metres" in answered.private.answer
    assert [citation.mark for citation in answered.private.citations] == [1]
    assert (answered.passages_seq, answered.lexical_seq, answered.n_passages) == (3, 4, 1)
    assert titled.private.title
    frames = await talk.frames(asked)
    assert frames[0] == "retrieval"
    assert set(frames[1:]) == {"token"}
    evidence = await talk.world.blobs.get(owner_of(talk.conversation), answered.evidence)
    assert b"41 metres" in evidence


async def test_only_the_first_answer_names_a_conversation_and_only_one_without_a_name(talk: Chat) -> None:
    first, second = await talk.ask(), await talk.ask()
    assert [type(each) for each in await talk.answer(first)] == [
        events.TurnAnswered,
        events.ConversationTitled,
    ]
    assert [type(each) for each in await talk.answer(second)] == [events.TurnAnswered]
    talk.conversation = conversation_aggregate(str(uuid4()))
    await talk.say(events.ConversationCreated(private=events.Title(title="Lighthouses")))
    assert [type(each) for each in await talk.answer(await talk.ask())] == [events.TurnAnswered]


async def test_a_question_that_is_delivered_again_is_answered_once(talk: Chat) -> None:
    asked = await talk.ask()
    await talk.answer(asked)
    before = (await talk.world.log.info()).last_seq
    assert await talk.answer(asked, attempt=2) == []
    assert (await talk.world.log.info()).last_seq == before


@pytest.mark.parametrize("ending", ["aborted", "deleted"])
async def test_an_answer_to_a_turn_that_has_ended_meanwhile_decides_to_nothing(
    talk: Chat, ending: str
) -> None:
    asked = await talk.ask()
    talk.views.gate.clear()
    answering = asyncio.create_task(talk.answer(asked))
    await talk.views.reached.wait()
    end = (
        events.ConversationDeleted()
        if ending == "deleted"
        else events.TurnAborted(turn=turn_of(asked), cause="asked")
    )
    await talk.say(end)
    talk.views.gate.set()
    assert await answering == []


async def test_a_turn_past_its_deadline_fails_and_is_not_worked_on(talk: Chat) -> None:
    asked = await talk.ask(deadline_s=-1)
    (failed,) = await talk.answer(asked)
    assert isinstance(failed, events.TurnFailed)
    assert failed.code == "deadline"
    assert not talk.views.reached.is_set()


async def test_a_turn_is_given_up_at_its_deadline(talk: Chat) -> None:
    talk.views.gate.clear()
    (aborted,) = await talk.answer(await talk.ask(deadline_s=0.2))
    assert isinstance(aborted, events.TurnAborted)
    assert aborted.cause == "deadline"


async def test_a_time_out_on_the_way_is_a_failure_and_not_the_deadline(talk: Chat) -> None:
    talk.views.error = TimeoutError("a server did not answer in time")
    with pytest.raises(TimeoutError, match="did not answer"):
        await talk.answer(await talk.ask())


async def test_a_reader_stops_a_turn_at_once(talk: Chat) -> None:
    talk.views.gate.clear()
    asked = await talk.ask()
    answering = asyncio.create_task(talk.answer(asked))
    await talk.views.reached.wait()
    await talk.live.publish(control_topic(turn_of(asked)), {"reading": True})
    await talk.live.publish(control_topic(turn_of(asked)), {"stop": True})
    (aborted,) = await answering
    assert isinstance(aborted, events.TurnAborted)


async def test_a_turn_nobody_reads_is_given_up(talk: Chat) -> None:
    await talk.world.change(CHAT_ABANDON_S="1")
    talk.views.gate.clear()
    (aborted,) = await talk.answer(await talk.ask())
    assert isinstance(aborted, events.TurnAborted)
    assert aborted.cause == "abandoned"


async def test_a_turn_is_answered_although_its_readers_cannot_be_heard(talk: Chat) -> None:
    talk.live = DeafLive(lambda pattern, topic: bool(subject_pattern(pattern).match(topic)))
    asked = await talk.ask()
    answered, _ = await talk.answer(asked)
    assert isinstance(answered, events.TurnAnswered)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DependencyDown("postgres", "it does not answer"), "postgres_unreachable"),
        (LorelineError("something is wrong"), "pipeline_error"),
    ],
)
async def test_what_goes_wrong_ends_the_turn_in_words(talk: Chat, error: Exception, code: str) -> None:
    talk.views.error = error
    (failed,) = await talk.answer(await talk.ask())
    assert isinstance(failed, events.TurnFailed)
    assert (failed.code, failed.private.reason) == (code, str(error))


async def test_a_view_that_is_just_being_built_is_waited_for_a_little(talk: Chat) -> None:
    talk.views.not_ready = 2
    answered, *_ = await talk.answer(await talk.ask(method="bm25"))
    assert isinstance(answered, events.TurnAnswered)
    talk.views.not_ready = 3
    (failed,) = await talk.answer(await talk.ask(method="bm25"))
    assert isinstance(failed, events.TurnFailed)
    assert (failed.code, failed.private.reason) == (
        "not_ready",
        "the view is being built; try again shortly",
    )


async def test_an_engine_or_a_method_that_does_not_exist_is_named(talk: Chat) -> None:
    for asked, code in (
        (await talk.ask(engine="magic"), "unknown_chat_engine"),
        (await talk.ask(method="magic"), "unknown_retrieval_method"),
    ):
        (failed,) = await talk.answer(asked)
        assert isinstance(failed, events.TurnFailed)
        assert failed.code == code


async def test_vectors_of_another_model_are_refused_and_words_still_answer(talk: Chat) -> None:
    talk.embedder = CountingEmbedder(dim=32)
    for method in ("semantic", "hybrid"):
        (failed,) = await talk.answer(await talk.ask(method=method))
        assert isinstance(failed, events.TurnFailed)
        assert failed.code == "embedder_mismatch"
        assert "bm25" in failed.private.reason
    answered, *_ = await talk.answer(await talk.ask(method="bm25"))
    assert isinstance(answered, events.TurnAnswered)
    assert (answered.passages_seq, answered.lexical_seq) == (0, 4)
