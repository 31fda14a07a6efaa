"""`ask` and `chat`: a question, the answer as it comes, and its evidence."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from loreline.cli.attach import Attached, EdgeRefused, attached
from loreline.cli.ingesting import take_in
from loreline.cli.terminal import PlainWords, plain_words, typed_lines


@dataclass
class Answered:
    """What a turn brought."""

    retrieval: dict[str, Any] = field(default_factory=dict)
    done: dict[str, Any] = field(default_factory=dict)
    shown: str = ""


async def ask(arguments: argparse.Namespace) -> int:
    """Ask one question. Exits with 1 when nothing in the documents answers it."""
    overrides = {"retrieval_method": arguments.method, "top_k": arguments.top_k}
    async with attached(arguments.config) as client:
        body: dict[str, Any] = {"query": arguments.question, "overrides": overrides}
        turn = await _turn(client, body, aloud=not arguments.json)
    if arguments.json:
        print(json.dumps(_as_json(turn), ensure_ascii=False, indent=2))
    else:
        print(_passages(turn))
        if not turn.retrieval.get("chunks"):
            words = "No passage was found. `loreline status` and the page say what is taken in."
            print(words, file=sys.stderr)
    return 0 if turn.done.get("found") else 1


async def chat(arguments: argparse.Namespace) -> int:
    """Take in what is new, then answer question after question."""
    async with attached(arguments.config) as client:
        if not arguments.no_ingest:
            await take_in(client)
        print("Ask; :quit ends it.")
        conversation: str | None = None
        lines = typed_lines()
        while (question := await _next(lines)) is not None:
            if not question.strip():
                continue
            try:
                turn = await _turn(client, {"query": question, "conversation_id": conversation}, aloud=True)
            except EdgeRefused as error:
                print(f"loreline: {error}", file=sys.stderr)
                continue
            conversation = turn.done["conversation_id"]
            print(_passages(turn))
    return 0


async def _next(lines: asyncio.Queue[str | None]) -> str | None:
    """The next line of input; None at its end or at `:quit`."""
    print("\n> ", end="", flush=True)
    line = await lines.get()
    return None if line is None or line.strip() == ":quit" else line


async def _turn(client: Attached, body: dict[str, Any], *, aloud: bool) -> Answered:
    """One turn. Raises EdgeRefused when it ends in an error."""
    turn, plain = Answered(), PlainWords()
    async with aclosing(client.stream("POST", "/api/chat", body)) as frames:
        async for sent in frames:
            match sent.event:
                case "retrieval":
                    turn.retrieval, turn.shown = sent.data, ""
                    plain = PlainWords()
                case "token":
                    turn.shown += sent.data["delta"]
                    if aloud:
                        print(plain.feed(sent.data["delta"]), end="", flush=True)
                case "done":
                    turn.done = sent.data
                case "error":
                    raise EdgeRefused(sent.data["message"], code=sent.data["code"])
    if not turn.done:
        raise EdgeRefused("the stream ended before the answer did; ask again")
    if aloud:
        print(plain.close())
        if turn.shown.strip() != turn.done["answer"].strip():
            # A frame was lost, or a second attempt answered: what counts is what `done` says.
            print("\n" + plain_words(turn.done["answer"]))
    return turn


def _passages(turn: Answered) -> str:
    """The passages: rank, arm ranks, score, file, page, and the first words."""
    cited = {each["mark"] for each in turn.done["citations"]}
    lines = ["", "Passages:"]
    for chunk in turn.retrieval.get("chunks", []):
        trace, known = chunk["trace"], chunk["metadata"]
        rank = trace["final_rank"]
        arms = " · ".join(
            f"{name} #{trace[key]}"
            for name, key in (("semantic", "semantic_rank"), ("bm25", "bm25_rank"))
            if trace[key] is not None
        )
        page = f" p. {known['page']}" if known["page"] is not None else ""
        words = " ".join(chunk["content"].split())[:90]
        mark = "*" if rank in cited else " "
        lines.append(f" {mark}[{rank}] {known['relative_path']}{page}  ({arms} · {chunk['score']:.3f})")
        lines.append(f"      {words}")
    return "\n".join(lines if len(lines) > 2 else [])


def _as_json(turn: Answered) -> dict[str, Any]:
    return {**turn.done, "retrieval": turn.retrieval}
