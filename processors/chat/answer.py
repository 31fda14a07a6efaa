"""Writing the answer: by quoting, or by a language model whose marks are checked as they come."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from loreline.events.folds.conversation import Turn
from loreline.processors.chat.citations import CitationStream
from loreline.processors.chat.extractive import answer_extractively
from loreline.processors.chat.prompts import PROMPT_VERSION, answer_prompt, fit_history, fit_passages
from loreline.schemas.ids import canonical_json
from loreline.schemas.ports import (
    ChatMessage,
    Delta,
    Embedder,
    GenerationEvent,
    LanguageModel,
    Timings,
    Usage,
)
from loreline.schemas.records import Citation, RetrievedChunk

EXTRACTIVE = "extractive"
CONTEXT_SHARE = 0.6
"""Share of the model's context that passages may take; the rest is for rules, history and the answer."""
HISTORY_SHARE = 0.15


@dataclass(frozen=True)
class Written:
    """An answer, with what it was made from.

    Attributes:
        text: the answer with checked marks only.
        record: what a replay needs: the prompt and what the model said, word for word.
    """

    text: str
    citations: tuple[Citation, ...]
    dropped: tuple[int, ...]
    found: bool
    by: str
    reasoning: str | None = None
    usage: Usage | None = None
    record: dict[str, Any] = field(default_factory=dict)


class Sink(Protocol):
    """Where the answer's frames go while it is written."""

    async def send(self, event: str, data: dict[str, Any]) -> None:
        """One frame."""
        ...


@dataclass(frozen=True)
class Generation:
    """How the model is asked.

    Attributes:
        context_tokens: the model's context; passages and history are cut to fit.
        shows: whether a throughput reading may be shown now.
    """

    context_tokens: int
    max_tokens: int
    temperature: float
    count_tokens: Callable[[str], int]
    shows: Callable[[int], bool]


async def quote(
    question: str,
    passages: Sequence[RetrievedChunk],
    *,
    embedder: Embedder,
    stem: Callable[[str], str],
    sink: Sink,
) -> Written:
    """The sentences that answer, quoted and cited; deterministic."""
    answer = await answer_extractively(question, passages, embedder=embedder, stem=stem)
    for paragraph in _paragraphs(answer.text):
        await sink.send("token", {"delta": paragraph})
    return Written(answer.text, answer.citations, (), answer.found, EXTRACTIVE)


async def generate(
    question: str,
    passages: Sequence[RetrievedChunk],
    *,
    history: Sequence[Turn],
    model: LanguageModel,
    generation: Generation,
    sink: Sink,
) -> Written:
    """The model's answer, streamed; marks that name no passage are dropped before anyone sees them.

    Raises DependencyDown, or what the model's refusal is; closing the task stops the model.
    """
    budget = generation.context_tokens - generation.max_tokens
    fitting = fit_passages(passages, budget_tokens=int(budget * CONTEXT_SHARE), count=generation.count_tokens)
    turns = fit_history(
        _messages(history), budget_tokens=int(budget * HISTORY_SHARE), count=generation.count_tokens
    )
    prompt = answer_prompt(question, fitting, history=turns)
    checked = CitationStream(fitting)
    said, thought, shown = [""], [""], [""]
    usage: Usage | None = None
    stream = model.stream(prompt, max_tokens=generation.max_tokens, temperature=generation.temperature)
    async with aclosing(cast("AsyncGenerator[GenerationEvent, None]", stream)) as events:
        async for event in events:
            match event:
                case Delta(kind="reasoning", text=text):
                    thought.append(text)
                    await sink.send("reasoning", {"delta": text})
                case Delta(text=text):
                    said.append(text)
                    await _show(checked.feed(text), shown, sink)
                case Timings() if generation.shows(event.completion_tokens):
                    reading = {
                        "tokens_per_second": event.tokens_per_second,
                        "completion_tokens": event.completion_tokens,
                    }
                    await sink.send("stats", reading)
                case Usage():
                    usage = event
    await _show(checked.close(), shown, sink)
    text = "".join(shown).strip()
    return Written(
        text=text,
        citations=checked.citations,
        dropped=checked.dropped,
        found=bool(checked.citations),
        by="llm",
        reasoning="".join(thought) or None,
        usage=usage,
        record=_record(prompt, "".join(said), model),
    )


async def _show(text: str, shown: list[str], sink: Sink) -> None:
    if text:
        shown.append(text)
        await sink.send("token", {"delta": text})


def _record(prompt: Sequence[ChatMessage], said: str, model: LanguageModel) -> dict[str, Any]:
    messages = [{"role": message.role, "content": message.content} for message in prompt]
    identity = model.identity
    return {
        "prompt_version": PROMPT_VERSION,
        "prompt": messages,
        "prompt_sha256": hashlib.sha256(canonical_json(messages)).hexdigest(),
        "model": [identity.backend, identity.name, identity.fingerprint],
        "said": said,
    }


def _messages(history: Sequence[Turn]) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for turn in history:
        messages.append(ChatMessage("user", turn.question))
        messages.append(ChatMessage("assistant", turn.answer or ""))
    return messages


def _paragraphs(text: str) -> list[str]:
    """The text in pieces that end with their paragraph break; joined they are the text."""
    pieces = text.split("\n\n")
    return [piece + "\n\n" for piece in pieces[:-1]] + [pieces[-1]]


def encode_evidence(
    passages: Sequence[RetrievedChunk], *, record: dict[str, Any], facts: dict[str, Any]
) -> bytes:
    """The evidence of an answer as its blob holds it: passages with traces, and what was said to whom."""
    held = {"passages": [passage.model_dump(mode="json") for passage in passages], "record": record, **facts}
    return json.dumps(held, ensure_ascii=False).encode()
