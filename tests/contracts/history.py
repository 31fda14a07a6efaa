"""Random histories of everything views are made from, by seed: files, runs, settings, conversations."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from uuid import UUID

from loreline.events.append import Command
from loreline.events.folds.conversation import CONVERSATION, ConversationState
from loreline.events.folds.file import FILE, FileState
from loreline.schemas.events import conversation as events
from loreline.schemas.events.file import FileIdentity, FileUploaded
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import conversation_aggregate, file_aggregate, owner_of
from tests.conftest import now
from tests.world import CountingEmbedder, World

NAMES = ("harbour", "ferry", "lighthouse", "nets")
WORDS = tuple(
    "harbour ferry lighthouse Osmund Varn timetable keeper boats nets herring tide pilot anchor rope "  # noqa: SIM905
    "customs quay signal fog horn crane".split()
)


async def history(root: Path, seed: int, *, dim: int = 16, steps: int = 14) -> World:
    """A world whose log holds `steps` random doings after one of each kind."""
    random = Random(seed)
    world = World(root, embedder=CountingEmbedder(dim=dim))
    await world.define()
    story = Story(world, random)
    doings: list[Callable[[], object]] = [
        story.change_a_file,
        story.change_a_file,
        story.delete_a_file,
        story.lose_a_file,
        story.upload,
        story.reingest,
        story.change_settings,
        story.talk,
        story.talk,
        story.forget_a_conversation,
    ]
    await story.fill()
    for doing in [*doings, *random.choices(doings, k=steps)]:
        await doing()  # type: ignore[misc]
    await story.talk(to_the_end=True)
    return world


def text_of(random: Random) -> str:
    """A text of one to thirty paragraphs."""
    paragraphs = [" ".join(random.choices(WORDS, k=30)) + "." for _ in range(random.choice((1, 3, 30)))]
    return "\n\n".join(paragraphs)


class Story:
    """What can happen in a world."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._conversations: list[str] = []
        self._texts = [text_of(random) for _ in range(5)]

    def _uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    async def fill(self) -> None:
        """A corpus to begin with: an empty and a broken file among others."""
        self._world.put(**{name: self._random.choice(self._texts) for name in NAMES}, empty="")
        (self._world.docs / "broken.pdf").write_bytes(b"%PDF-1.4 this is not one")
        await self._world.ingest()

    async def change_a_file(self) -> None:
        """Write one of a few texts, so that reverts happen, and ingest."""
        self._world.put(**{self._random.choice(NAMES): self._random.choice([*self._texts, ""])})
        await self._world.ingest(again=self._random.random() < 0.3)

    async def delete_a_file(self) -> None:
        """Delete a file as a user does."""
        await self._world.delete(f"{self._random.choice(NAMES)}.txt")

    async def lose_a_file(self) -> None:
        """Remove a file from the disk, and look."""
        (self._world.docs / f"{self._random.choice(NAMES)}.txt").unlink(missing_ok=True)
        await self._world.ingest()

    async def upload(self) -> None:
        """An upload that no ingest has taken in yet."""
        file_id = self._world.file_id("uploaded.txt")
        aggregate = file_aggregate(file_id)
        self._world.keys.ensure([owner_of(aggregate)])
        source = await self._world.blobs.put(owner_of(aggregate), b"uploaded")
        who = FileIdentity(relative_path="uploaded.txt", doc_id="d" * 16, content_hash="e" * 64)
        payload = FileUploaded(version="ab" * 16, source=source, size_bytes=8, private=who)

        def decide(_: FileState) -> Sequence[Payload]:
            return [payload]

        await self._world.appender.execute(Command(aggregate, FILE, self._uuid(), decide, actor="user"))

    async def reingest(self) -> None:
        """Another chunk size, and everything anew."""
        size = self._random.choice(("300", "600", "1200"))
        await self._world.change(CHUNK_SIZE=size, CHUNK_OVERLAP="40")
        await self._world.ingest(reingest=True)

    async def change_settings(self) -> None:
        """A setting that shapes no chunk."""
        await self._world.change(TOP_K=str(self._random.randint(1, 20)))

    async def talk(self, *, to_the_end: bool = False) -> None:
        """A question in a new or an old conversation, with one of the outcomes."""
        if not self._conversations or self._random.random() < 0.5:
            self._conversations.append(str(self._uuid()))
            await self._say(self._conversations[-1], events.ConversationCreated())
        conversation, turn = self._random.choice(self._conversations), self._uuid()
        await self._say(conversation, asked(turn, f"Where are the {self._random.choice(WORDS)}?"))
        outcome = 0.5 if to_the_end else self._random.random()
        if outcome < 0.2:
            await self._say(conversation, events.TurnAborted(turn=turn, cause="asked"))
        elif outcome < 0.9:
            evidence = await self._world.blobs.put(
                owner_of(conversation_aggregate(conversation)), json.dumps({"passages": [PASSAGE]}).encode()
            )
            titled = events.ConversationTitled(private=events.Title(title=f"On {conversation[:4]}"))
            await self._say(conversation, answered(turn, evidence), titled)

    async def forget_a_conversation(self) -> None:
        """Delete a conversation."""
        if self._conversations:
            await self._say(self._conversations.pop(), events.ConversationDeleted())

    async def _say(self, conversation: str, *payloads: Payload) -> None:
        def decide(_: ConversationState) -> Sequence[Payload]:
            return payloads

        aggregate = conversation_aggregate(conversation)
        await self._world.appender.execute(
            Command(aggregate, CONVERSATION, self._uuid(), decide, actor="user")
        )


PASSAGE = {
    "chunk_id": "d::0",
    "doc_id": "d",
    "original_index": 1,
    "content": "The boats are in the harbour.",
    "context": None,
    "score": 1.0,
    "metadata": {"source": "/docs/a.txt", "relative_path": "a.txt", "file_name": "a.txt", "page": None},
    "trace": {"fused_score": 1.0, "fused_rank": 1, "final_rank": 1},
}


def asked(turn: UUID, question: str) -> events.TurnAsked:
    """A question."""
    return events.TurnAsked(
        turn=turn,
        retrieval_method="hybrid",
        chat_engine="simple",
        top_k=3,
        deadline=now(),
        private=events.Question(question=question),
    )


def answered(turn: UUID, evidence: str, *, answer: str = "In the harbour [1].") -> events.TurnAnswered:
    """An answer."""
    return events.TurnAnswered(
        turn=turn,
        attempt=1,
        user_message=UUID(int=turn.int ^ 1),
        assistant_message=UUID(int=turn.int ^ 2),
        found=True,
        retrieval_method="hybrid",
        chat_engine="simple",
        answered_by="extractive",
        n_passages=1,
        evidence=evidence,
        latency_ms=events.LatencyMs(),
        profile="01" * 16,
        private=events.Answer(answer=answer),
    )
