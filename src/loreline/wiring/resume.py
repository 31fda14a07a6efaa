"""Where a stage's missing durable has to begin: at the oldest work that is not done."""

from __future__ import annotations

import json
from contextlib import aclosing

from loreline.events.bootstrap import request
from loreline.events.topology import STREAM
from loreline.processors.stage import Stage
from loreline.wiring.core import Core

_TERMINAL = frozenset({"embedded", "no_text", "failed", "deleted"})
_TURN_ENDS = frozenset({"turn_answered", "turn_failed", "turn_aborted"})


async def oldest_open(core: Core, stage: Stage) -> int | None:
    """The sequence to hand a new durable from; None when it stands, or when the log is empty.

    Stages ask an aggregate's fold before they work, so beginning too early costs time, never work.
    """
    durable = stage.consumer(ack_wait_s=60).durable
    answer = await request(core.nats, f"CONSUMER.INFO.{STREAM}.{durable}", {})
    last_seq = (await core.log.info()).last_seq
    if "error" not in answer or last_seq == 0:
        return None
    open_since: dict[str, int] = {}
    async with aclosing(core.log.follow(after_seq=0)) as batches:
        async for batch in batches:
            for stored in batch:
                _note(open_since, stored.wire.subject, stored.wire.body, stored.seq)
            if not batch or batch[-1].seq >= last_seq:
                break
    return min(open_since.values(), default=last_seq + 1)


def _note(open_since: dict[str, int], subject: str, body: bytes, seq: int) -> None:
    """Open or close what an event opens or closes; the public part of an event is enough."""
    _, _, kind, aggregate, event = subject.split(".")
    if kind == "file" and event == "discovered":
        open_since[f"file.{aggregate}"] = seq
    elif kind == "file" and event in _TERMINAL:
        open_since.pop(f"file.{aggregate}", None)
    elif kind == "conversation" and event in {"turn_asked", *_TURN_ENDS}:
        turn = f"turn.{json.loads(body)['turn']}"
        if event == "turn_asked":
            open_since[turn] = seq
        else:
            open_since.pop(turn, None)
    elif kind == "corpus" and event == "operation_requested":
        open_since["operation"] = seq
    elif kind == "corpus" and event in {"completed", "failed", "cancelled", "planned"}:
        open_since.pop("operation", None)
