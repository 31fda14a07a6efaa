"""The wrapper around every stage: heartbeat, outage, failure, parking, append, then the ack.

It owes two things: an event is acknowledged only when what it led to is in the log, and an event that
cannot be worked on is parked, never dropped and never in the way of the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from loreline.events.append import Appender, Command
from loreline.events.envelope import Codec, Stored, StoredWire
from loreline.events.folds.app import DEADLETTER, DeadletterState
from loreline.events.log import EventLog
from loreline.events.tasks import end
from loreline.processors.stage import Stage
from loreline.schemas.errors import DependencyDown, LogError, LogFull
from loreline.schemas.events.app import EventParked, EventReleased, ParkedError
from loreline.schemas.events.payload import Payload, Shredded
from loreline.schemas.ids import Aggregate, deadletter_aggregate, derived_key, owner_of
from loreline.schemas.text import keepable

_log = logging.getLogger(__name__)

MAX_ERROR_CHARS = 4000


class Delivery(Protocol):
    """One delivery of one event to one stage."""

    @property
    def stored(self) -> StoredWire:
        """The sealed event."""
        ...

    @property
    def attempt(self) -> int:
        """Which delivery of it this is, from 1."""
        ...

    async def in_progress(self) -> None:
        """Tell the server that work goes on."""
        ...

    async def ack(self) -> None:
        """Acknowledge, and wait for the server's word."""
        ...

    async def nak(self, *, delay_s: float) -> None:
        """Give it back, to be delivered again after a while."""
        ...


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how patiently.

    Attributes:
        ack_wait_s: how long the server waits for a sign of life; a third of it is the heartbeat.
        max_failures: the failure that parks the event.
        backoff_s: delay after the first failure; it doubles up to `max_backoff_s`.
        probe_s: delay before the first probe of a dependency that is down; it doubles likewise.
    """

    ack_wait_s: float = 60.0
    max_failures: int = 8
    backoff_s: float = 1.0
    max_backoff_s: float = 60.0
    probe_s: float = 0.5

    def delay_s(self, attempt: int) -> float:
        """How long to wait after the attempt-th failure."""
        return min(self.max_backoff_s, self.backoff_s * 2.0 ** (min(attempt, 30) - 1))


Probe = Callable[[], Awaitable[bool]]


@dataclass
class Gate:
    """Holds work while a dependency is down: one prober a dependency, everybody waits for it.

    probes: dependency -> whether it answers; without a probe, waiting one delay is all there is.
    """

    probes: Mapping[str, Probe]
    policy: RetryPolicy
    down: dict[str, str] = field(default_factory=dict)
    _probing: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def hold(self, error: DependencyDown) -> None:
        """Return when the dependency answers again."""
        task = self._probing.get(error.dependency)
        if task is None or task.done():
            task = asyncio.create_task(self._until_up(error))
            self._probing[error.dependency] = task
        await asyncio.shield(task)

    async def _until_up(self, error: DependencyDown) -> None:
        self.down[error.dependency] = str(error)
        probe, attempt = self.probes.get(error.dependency), 0
        delay_s = error.retry_after_s if error.retry_after_s is not None else self.policy.probe_s
        while True:
            await asyncio.sleep(delay_s)
            if probe is None or await probe():
                break
            attempt += 1
            delay_s = min(self.policy.max_backoff_s, self.policy.probe_s * 2.0 ** min(attempt, 30))
        self.down.pop(error.dependency, None)


class StageRunner:
    """Runs one stage on deliveries.

    on_damage: told of a LogError, after which the stage must not go on.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        log: EventLog,
        codec: Codec,
        appender: Appender,
        gate: Gate,
        policy: RetryPolicy,
        on_damage: Callable[[LogError], None],
        before_ack: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._stage = stage
        self._log = log
        self._codec = codec
        self._appender = appender
        self._gate = gate
        self._policy = policy
        self._on_damage = on_damage
        self._before_ack = before_ack

    async def handle(self, delivery: Delivery) -> None:
        """Work on one delivery until it is acknowledged, parked or given back."""
        async with _heartbeat(delivery, self._policy.ack_wait_s / 3):
            while True:
                try:
                    await self._work(delivery)
                    break
                except DependencyDown as error:
                    _log.warning("%s waits: %s", self._stage.name, error)
                    await self._gate.hold(error)
                except LogFull as error:
                    _log.warning("%s waits: %s", self._stage.name, error)
                    await self._gate.hold(DependencyDown("log", str(error)))
                except LogError as error:
                    self._on_damage(error)
                    await _quietly(delivery.nak(delay_s=self._policy.max_backoff_s))
                    return
                except Exception as error:
                    if not await self._failed(delivery, error):
                        return
                    break
            if self._before_ack is not None:
                await self._before_ack()
            await _quietly(delivery.ack())

    async def _work(self, delivery: Delivery) -> None:
        event = await self._event(delivery)
        if event is None:
            return
        for command in await self._stage.run(event, delivery.attempt):
            await self._appender.execute(command)

    async def _event(self, delivery: Delivery) -> Stored[Payload] | None:
        """The event to work on; None when there is nothing to do for this stage."""
        original = await self._original(delivery.stored)
        if original is None:
            return None
        stored = self._codec.decode(original)
        return None if isinstance(stored.event.payload, Shredded) else stored

    async def _original(self, stored: StoredWire) -> StoredWire | None:
        """The event a delivery is about: itself, or the parked one that it releases to this stage."""
        if stored.wire.headers.get("ce-type") != "deadletter.released":
            return stored
        payload = self._codec.decode(stored).event.payload
        if not isinstance(payload, EventReleased) or payload.stage != self._stage.name:
            return None
        return await self._log.get(payload.seq)

    async def _failed(self, delivery: Delivery, error: Exception) -> bool:
        """Give the event back, or park it after its last failure; True if it was parked."""
        seq = delivery.stored.seq
        _log.warning("%s failed on %d (attempt %d): %s", self._stage.name, seq, delivery.attempt, error)
        if delivery.attempt < self._policy.max_failures:
            await _quietly(delivery.nak(delay_s=self._policy.delay_s(delivery.attempt)))
            return False
        try:
            original = await self._original(delivery.stored) or delivery.stored
            await self._appender.execute(self._park(original, delivery, error))
        except (DependencyDown, LogFull) as trouble:
            _log.warning("%s could not park %d yet: %s", self._stage.name, seq, trouble)
            await _quietly(delivery.nak(delay_s=self._policy.delay_s(delivery.attempt)))
            return False
        return True

    def _park(self, original: StoredWire, delivery: Delivery, error: Exception) -> Command[DeadletterState]:
        """The decision to park an event; once for each time it was handed to the stage."""
        wire = original.wire
        payload = EventParked(
            stage=self._stage.name,
            seq=original.seq,
            event=UUID(wire.id),
            event_type=wire.headers["ce-type"],
            owner=owner_of(Aggregate.of_subject(wire.subject)),
            attempts=delivery.attempt,
            private=ParkedError(error=keepable(f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS])),
        )
        handed_over = UUID(delivery.stored.wire.id)
        return Command(
            deadletter_aggregate(self._stage.name, original.seq),
            DEADLETTER,
            derived_key(handed_over, f"park.{self._stage.name}", str(original.seq)),
            lambda _: [payload],
            actor=self._stage.actor,
            correlation=UUID(wire.headers["ce-correlationid"]),
            causation=handed_over,
        )


@asynccontextmanager
async def _heartbeat(delivery: Delivery, every_s: float) -> AsyncIterator[None]:
    """Tell the server every so often that the delivery is in work."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(every_s)
            await _quietly(delivery.in_progress())

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        await end(task)


async def _quietly(call: Awaitable[None]) -> None:
    """A word to the server that may be lost: it only means that the event comes again."""
    try:
        await call
    except Exception as error:
        _log.debug("a word to the server was lost: %s", error)
