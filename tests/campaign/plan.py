"""What a seed does: the kills, and the work they fall into. Pure: the same seed, the same plan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

HOOKS = ("after_blob", "after_append", "before_ack", "in_projection")
POINTS = (*HOOKS, "before_answer", "during_rebuild", "nats", "postgres", "everything")
"""The four hooks; a client's own command in the log and not answered yet, so that the client must ask again;
the projection of a rebuild; and three kills from outside."""

AIMS = ("create", "create", "ask", "upload", "ingest", "reingest", "delete_conversation")
"""The commands that `before_answer` is aimed at, by chance."""

_FURTHEST = {"after_blob": 12, "after_append": 20, "before_ack": 14, "in_projection": 24, "during_rebuild": 5}

StepKind = Literal[
    "upload", "lone_upload", "drop", "delete", "ingest", "reingest", "ask", "create", "delete_conversation"
]
Shape = Literal["small", "long", "empty", "broken"]


@dataclass(frozen=True)
class Kill:
    """One kill: at the nth hit of a hook, or `delay_s` after it was armed, from outside."""

    point: str
    nth: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True)
class Step:
    """One thing a client does.

    Attributes:
        key: names it: its Idempotency-Key.
        data, markers: a file's bytes, and the words that stand in it and nowhere else.
        question: to ask; `conversation` is the key of the created conversation it goes to, if any.
    """

    kind: StepKind
    key: str
    path: str = ""
    data: bytes = b""
    markers: tuple[str, ...] = ()
    question: str = ""
    conversation: str | None = None


@dataclass(frozen=True)
class Act:
    """A kill and the work it falls into; `aim`: the key of the step that it must hit, if it must hit one."""

    kill: Kill
    steps: tuple[Step, ...]
    aim: str | None = None


@dataclass
class _Author:
    """Writes files and remembers which there are."""

    chance: random.Random
    files: dict[str, list[Step]] = field(default_factory=dict)
    conversations: list[str] = field(default_factory=list)
    n_steps: int = 0

    def key(self) -> str:
        self.n_steps += 1
        return f"step-{self.n_steps}"

    def write(self, shape: Shape, name: str) -> tuple[bytes, tuple[str, ...]]:
        if shape == "empty":
            return self.chance.choice([b"", b"  \n\n"]), ()
        if shape == "broken":
            return b"%PDF-1.7 torn " + self.chance.randbytes(8).hex().encode(), ()
        count = 3 if shape == "small" else self.chance.randint(40, 70)
        markers = tuple(f"mk{self.chance.randbytes(5).hex()}" for _ in range(count))
        lines = [f"# The book of {name}"] if name.endswith(".md") else []
        for marker in markers:
            height, year = self.chance.randint(10, 400), self.chance.randint(1200, 1990)
            thing = self.chance.choice(["lighthouse", "tower", "bridge", "silo", "mast"])
            lines.append(
                f"The {thing} of {marker} is {height} metres tall. It was built in {year} by the people of "
                f"the coast, who needed it. In winter nobody climbs the {thing}, for the steps are wet."
            )
        return "\n\n".join(lines).encode(), markers

    def put(self, kind: StepKind, shape: Shape, path: str | None = None) -> Step:
        """A file step; an old path gets new content, or at times content that it had before."""
        suffix = {"broken": "pdf"}.get(shape) or self.chance.choice(["txt", "md"])
        folder = "dropped" if kind == "drop" else "lone" if kind == "lone_upload" else "up"
        path = path or f"{folder}/{shape}{self.n_steps}.{suffix}"
        former = self.files.setdefault(path, [])
        if len(former) > 1 and self.chance.random() < 0.5:
            data, markers = former[0].data, former[0].markers
        else:
            data, markers = self.write(shape, path.rsplit("/", 1)[1])
        step = Step(kind, self.key(), path, data, markers)
        former.append(step)
        return step

    def change(self, kind: StepKind) -> Step | None:
        """A change of a file that has text."""
        folder = "dropped/" if kind == "drop" else "up/"
        known = [path for path, steps in self.files.items() if path.startswith(folder) and steps[-1].markers]
        if not known:
            return None
        return self.put(kind, "small", self.chance.choice(known))

    def delete(self) -> Step | None:
        known = [path for path, steps in self.files.items() if steps[-1].markers and "lone" not in path]
        if len(known) < 3:
            return None
        path = self.chance.choice(known)
        self.files.pop(path)
        return Step("delete", self.key(), path)

    def ask(self) -> Step:
        markers = [marker for steps in self.files.values() for marker in steps[-1].markers]
        marker = self.chance.choice(markers) if markers else "nothing"
        key = self.key()
        where = self.chance.choice([None, *self.conversations])
        return Step("ask", key, question=f"How tall is {marker}, {key}?", conversation=where)

    def create(self) -> Step:
        step = Step("create", self.key())
        self.conversations.append(step.key)
        return step

    def delete_conversation(self) -> Step | None:
        if len(self.conversations) < 2:
            return None
        return Step("delete_conversation", self.key(), conversation=self.conversations.pop(0))


def plan(seed: int, *, points: Sequence[str] = POINTS) -> list[Act]:
    """A seed's acts: every point once, in an order of its own."""
    chance = random.Random(seed)
    order = list(points)
    chance.shuffle(order)
    author = _Author(chance)
    return [_act(author, point, first=n == 0) for n, point in enumerate(order)]


def _act(author: _Author, point: str, *, first: bool) -> Act:
    kill, steps = _kill(author.chance, point), _steps(author, first=first)
    if point != "before_answer":
        return Act(kill, steps)
    wanted = author.chance.choice(AIMS)
    aims = [step.key for step in steps if step.kind == wanted] or [
        step.key for step in steps if step.kind == "create"
    ]
    return Act(kill, steps, aims[0])


def _kill(chance: random.Random, point: str) -> Kill:
    if point == "before_answer":
        return Kill(point, nth=1)
    if point in _FURTHEST:
        return Kill(point, nth=chance.randint(1, _FURTHEST[point]))
    return Kill(point, delay_s=chance.uniform(0.0, 1.5))


def _steps(author: _Author, *, first: bool) -> tuple[Step, ...]:
    """An act's work: some files, an ingest, questions and conversations, in an order of their own."""
    chance = author.chance
    files: list[Step | None] = [author.put("upload", "small"), author.put("drop", "small")]
    if first:
        files += [author.put("upload", "empty"), author.put("drop", "broken"), author.put("upload", "long")]
    else:
        shapes: list[Shape] = ["small", "small", "long", "empty", "broken"]
        shape = chance.choice(shapes)
        files += [author.change("upload"), author.change("drop"), author.put("upload", shape)]
    if chance.random() < 0.5:
        files.append(author.put("lone_upload", "small"))
    chance.shuffle(files)
    ingest = Step("reingest" if not first and chance.random() < 0.3 else "ingest", author.key())
    # What is deleted is chosen first: the order is drawn last, and nobody asks in what may be gone.
    talk: list[Step | None] = [author.delete_conversation(), None if first else author.delete()]
    talk += [author.create(), author.ask(), author.ask()]
    chance.shuffle(talk)
    return tuple(step for step in (*files, ingest, *talk) if step is not None)
