"""The append: read the aggregate, decide, publish with the expectation, and sort out what happened.

    decide(state) -> payloads       pure; state is the fold of the aggregate's events

Event i of a command has id uuid5(command key, i), so a retried command finds what it stored before.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from loreline.events.catalogue import BY_PAYLOAD
from loreline.events.envelope import Codec, Event, Stored, StoredWire, Wire, digest_of
from loreline.events.highwater import REPAIR
from loreline.events.log import EventLog, Group
from loreline.schemas.errors import AppendUncertain, KeyMissing, LogRewritten, StaleAggregate
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import Aggregate, command_event_id, owner_of
from loreline.schemas.ports import Clock, KeyStore

S = TypeVar("S")


@dataclass(frozen=True)
class Fold(Generic[S]):
    """How an aggregate's state comes from its events."""

    name: str
    initial: S
    evolve: Callable[[S, Stored[Payload]], S]


@dataclass(frozen=True)
class Command(Generic[S]):
    """A decision to take on one aggregate.

    Attributes:
        key: names the command; the same key appends its events once, however often it is retried.
        decide: pure; an empty result appends nothing. May raise InputError or Conflict.
        actor: who asks: `user`, `cli`, `stage.<name>`.
        correlation: the conversation, run or request all of this belongs to; the key if None.
        causation: the event that led here.
        recent: the caller asked for the aggregate's state a moment ago. The decision is taken on what
            is known, without reading; only if it comes to nothing, or is refused, is it taken anew.
    """

    aggregate: Aggregate
    fold: Fold[S]
    key: UUID
    decide: Callable[[S], Sequence[Payload]]
    actor: str
    correlation: UUID | None = None
    causation: UUID | None = None
    recent: bool = False


@dataclass
class _History(Generic[S]):
    """What is known of an aggregate: its fold, and where it ends."""

    state: S
    seq: int = 0
    digest: str = ""
    stored: dict[UUID, Stored[Payload]] = field(default_factory=dict)


class Publisher(Protocol):
    """Appends groups; the log itself or a group committer in front of it."""

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        """See EventLog.append."""
        ...


class Appender:
    """Takes decisions and appends them, exactly once, whoever else is appending.

    on_append: told (seq, event id) after every acknowledged append, before it is returned.
    """

    def __init__(
        self,
        log: EventLog,
        codec: Codec,
        keys: KeyStore,
        *,
        clock: Clock,
        publisher: Publisher | None = None,
        on_append: Callable[[int, str], None] | None = None,
        cache_size: int = 4096,
        max_tries: int = 50,
    ) -> None:
        self._log = log
        self._codec = codec
        self._keys = keys
        self._clock = clock
        self._publisher = publisher or log
        self._on_append = on_append
        self._histories: OrderedDict[tuple[Aggregate, str], _History[Any]] = OrderedDict()
        self._cache_size = cache_size
        self._max_tries = max_tries

    async def state(self, aggregate: Aggregate, fold: Fold[S], *, at_least: int | None = None) -> S:
        """The aggregate's state now.

        at_least: a sequence that is enough; what is known is not read again if it contains that.
        """
        known: _History[S] | None = self._histories.get((aggregate, fold.name))
        if known is not None and at_least is not None and known.seq >= at_least:
            return known.state
        return (await self._history(aggregate, fold)).state

    async def execute(self, command: Command[S]) -> list[Stored[Payload]]:
        """Decide and append; returns the command's events, stored now or before.

        Raises what `decide` raises, LogFull, DependencyDown, LogRewritten when the aggregate's events
        do not follow one another, and StaleAggregate only after `max_tries` lost races.
        """
        return (await self.execute_together([command]))[0]

    async def execute_together(self, commands: Sequence[Command[Any]]) -> list[list[Stored[Payload]]]:
        """Decide several commands, one an aggregate, and append them in one atomic batch."""
        if len({command.aggregate for command in commands}) < len(commands):
            raise ValueError("one batch decides an aggregate once")
        if len(commands) == 1 and commands[0].recent and (done := await self._on_what_is_known(commands[0])):
            return [done]
        leader = False
        failure: StaleAggregate | AppendUncertain | None = None
        for _ in range(self._max_tries):
            try:
                return await self._attempt(commands, leader=leader)
            except StaleAggregate as error:
                leader, failure = True, error
            except AppendUncertain as error:
                leader, failure = True, error
                await asyncio.sleep(0.05)
        raise failure or StaleAggregate("no attempt was made")

    async def _on_what_is_known(self, command: Command[S]) -> list[Stored[Payload]]:
        """Decide without reading; nothing when that comes to nothing or somebody was faster."""
        history: _History[S] | None = self._histories.get((command.aggregate, command.fold.name))
        if history is None or _already(command, history):
            return []
        with suppress(StaleAggregate, AppendUncertain):
            return (await self._decide([command], [history]))[0]
        return []

    async def _attempt(
        self, commands: Sequence[Command[Any]], *, leader: bool
    ) -> list[list[Stored[Payload]]]:
        histories = await asyncio.gather(
            *(self._history(command.aggregate, command.fold, leader=leader) for command in commands)
        )
        return await self._decide(commands, histories)

    async def _decide(
        self, commands: Sequence[Command[Any]], histories: Sequence[_History[Any]]
    ) -> list[list[Stored[Payload]]]:
        results: list[list[Stored[Payload]]] = []
        pending: list[tuple[int, Group, list[Event[Payload]]]] = []
        for index, (command, history) in enumerate(zip(commands, histories, strict=True)):
            found = _already(command, history)
            payloads = [] if found else command.decide(history.state)
            results.append(found)
            if payloads:
                events, wires = await self._seal(command, payloads, history)
                pending.append((index, Group(command.aggregate, history.seq, tuple(wires)), events))
        if pending:
            sequences = await self._publisher.append([group for _, group, _ in pending])
            for (index, group, events), seqs in zip(pending, sequences, strict=True):
                results[index] = [
                    Stored(seq, event, digest_of(wire))
                    for seq, event, wire in zip(seqs, events, group.wires, strict=True)
                ]
                self._know(commands[index], histories[index], results[index])
            self._acknowledge(results)
        return results

    def _know(self, command: Command[S], history: _History[S], stored: Sequence[Stored[Payload]]) -> None:
        """Carry on from what was just appended, unless more is known by now."""
        key = (command.aggregate, command.fold.name)
        known = self._histories.get(key)
        if known is None or known.seq <= history.seq:
            self._histories[key] = _carried(history, command.fold, stored)

    def _acknowledge(self, results: Sequence[Sequence[Stored[Payload]]]) -> None:
        if self._on_append is not None:
            newest = max((stored for result in results for stored in result), key=lambda stored: stored.seq)
            self._on_append(newest.seq, str(newest.event.id))

    async def _seal(
        self, command: Command[S], payloads: Sequence[Payload], history: _History[S]
    ) -> tuple[list[Event[Payload]], list[Wire]]:
        """The events a decision becomes: ids from the command's key, each naming its predecessor."""
        owners = [getattr(payload, "owner", None) or owner_of(command.aggregate) for payload in payloads]
        await self._ensure(owners)
        now, previous = self._clock(), history.digest
        events: list[Event[Payload]] = []
        wires: list[Wire] = []
        for index, payload in enumerate(payloads):
            event = Event(
                id=command_event_id(command.key, index),
                type=BY_PAYLOAD[type(payload)].name,
                aggregate=command.aggregate,
                time=now,
                correlation=command.correlation or command.key,
                causation=command.causation,
                actor=command.actor,
                prev=previous,
                payload=payload,
            )
            events.append(event)
            wires.append(self._codec.encode(event))
            previous = digest_of(wires[-1])
        return events, wires

    async def _ensure(self, owners: Sequence[str]) -> None:
        """Make the keys that are missing, away from the event loop: that waits for the disk."""
        try:
            for owner in owners:
                self._keys.current(owner)
        except KeyMissing:
            await asyncio.to_thread(self._keys.ensure, owners)

    async def _history(self, aggregate: Aggregate, fold: Fold[S], *, leader: bool = False) -> _History[S]:
        """The aggregate's history, read from where it was last known to end."""
        key = (aggregate, fold.name)
        known: _History[S] = self._histories.get(key) or _History(fold.initial)
        fresh = await self._log.read(aggregate, after_seq=known.seq, leader=leader)
        history = self._advance(known, fold, fresh)
        newest = self._histories.get(key)
        if newest is not None and newest.seq > history.seq:
            return newest  # somebody appended while this was read
        self._histories[key] = history
        self._histories.move_to_end(key)
        while len(self._histories) > self._cache_size:
            self._histories.popitem(last=False)
        return history

    def _advance(self, known: _History[S], fold: Fold[S], fresh: Sequence[StoredWire]) -> _History[S]:
        if not fresh:
            return known
        return _carried(known, fold, [self._codec.decode(each) for each in fresh])


def _carried(known: _History[S], fold: Fold[S], fresh: Sequence[Stored[Payload]]) -> _History[S]:
    """The history with further events. Raises LogRewritten when they do not follow one another."""
    history = _History(known.state, known.seq, known.digest, dict(known.stored))
    for stored in fresh:
        if stored.event.prev != history.digest:
            raise LogRewritten(
                f"the event at {stored.seq} does not follow the one before it in "
                f"{stored.event.aggregate}; {REPAIR}"
            )
        history.state = fold.evolve(history.state, stored)
        history.seq, history.digest = stored.seq, stored.digest
        history.stored[stored.event.id] = stored
    return history


def _already(command: Command[Any], history: _History[Any]) -> list[Stored[Payload]]:
    """The command's own events, if it was stored before."""
    found: list[Stored[Payload]] = []
    while (stored := history.stored.get(command_event_id(command.key, len(found)))) is not None:
        found.append(stored)
    return found
