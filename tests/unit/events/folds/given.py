"""Given these events: a fold of payloads as if they had come from the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from tests.conftest import now

from loreline.events.append import Fold
from loreline.events.catalogue import BY_PAYLOAD
from loreline.events.envelope import Event, Stored
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate

S = TypeVar("S")


def stored(aggregate: Aggregate, payload: Payload, *, seq: int = 1) -> Stored[Payload]:
    """A payload at a place in the log."""
    event = Event(
        id=UUID(int=seq),
        type=BY_PAYLOAD[type(payload)].name,
        aggregate=aggregate,
        time=now(),
        correlation=UUID(int=0),
        causation=None,
        actor="user",
        prev="",
        payload=payload,
    )
    return Stored(seq, event, "")


def given(fold: Fold[S], aggregate: Aggregate, payloads: Iterable[Payload]) -> S:
    """The state after these events."""
    state = fold.initial
    for seq, payload in enumerate(payloads, start=1):
        state = fold.evolve(state, stored(aggregate, payload, seq=seq))
    return state
