"""The stage table as FastStream subscribers. The one module that knows FastStream.

Each stage's durable is bootstrap's (`declare=False`); a stage of parallelism n has n subscribers on it,
each handling one event at a time, because a single subscriber would handle a fetched batch at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import nats.errors
from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig

from loreline.events.envelope import HEADERS, StoredWire, Wire
from loreline.events.tasks import end
from loreline.events.topology import STREAM
from loreline.processors.delivery import StageRunner
from loreline.processors.stage import Stage

_log = logging.getLogger(__name__)

_FETCH_TIMEOUT_S = 2.0


class NatsDelivery:
    """A JetStream delivery as the wrapper sees it."""

    def __init__(self, message: Msg) -> None:
        self._message = message
        headers = message.headers or {}
        wire = Wire(
            message.subject, {name: headers[name] for name in HEADERS if name in headers}, message.data
        )
        self._stored = StoredWire(message.metadata.sequence.stream, wire)

    @property
    def stored(self) -> StoredWire:
        """The sealed event."""
        return self._stored

    @property
    def attempt(self) -> int:
        """Which delivery of it this is, from 1."""
        return self._message.metadata.num_delivered or 1

    async def in_progress(self) -> None:
        """Tell the server that work goes on."""
        await self._message.in_progress()

    async def ack(self) -> None:
        """Acknowledge, and wait for the server's word."""
        await self._message.ack_sync()

    async def nak(self, *, delay_s: float) -> None:
        """Give it back, to be delivered again after a while."""
        await self._message.nak(delay=delay_s)


@dataclass(frozen=True)
class Served:
    """A stage with the runner that works on its deliveries."""

    stage: Stage
    runner: StageRunner


class ProcessorApp:
    """Runs stages until stopped.

    hand_back: has delivered again what an earlier process had in work, once before a stage is served;
        None where other processes may be serving it.
    ensure: makes a stage's durable if it is missing; asked at start and every `watch_s`, so that a
    deleted durable comes back within seconds.
    """

    def __init__(
        self,
        url: str,
        served: Sequence[Served],
        *,
        ensure: Callable[[Stage], Awaitable[bool]],
        hand_back: Callable[[Stage], Awaitable[int]] | None = None,
        watch_s: float = 2.0,
    ) -> None:
        self._served = served
        self._ensure = ensure
        self._hand_back = hand_back
        self._watch_s = watch_s
        self._broker = NatsBroker(
            url, max_reconnect_attempts=-1, reconnect_time_wait=1, logger=None, graceful_timeout=5.0
        )
        self._watching: asyncio.Task[None] | None = None
        stream = JStream(STREAM, declare=False)
        for each in served:
            for index in range(each.stage.parallelism):
                self._subscribe(each, stream, index)

    async def start(self) -> None:
        """Make the durables and begin to work."""
        for each in self._served:
            await self._ensure(each.stage)
        if self._hand_back is not None:
            await asyncio.gather(*(self._hand_back(each.stage) for each in self._served))
        await self._broker.start()
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Stop taking events; what is in work is given up and will be delivered again."""
        if self._watching is not None:
            await end(self._watching)
        try:
            await self._broker.stop()
        except nats.errors.Error:  # a connection that is down cannot be drained, only closed
            await (await self._broker.connect()).close()

    def _subscribe(self, served: Served, stream: JStream, index: int) -> None:
        async def handle(_body: bytes, message: NatsMessage) -> None:
            raw = message.raw_message
            assert isinstance(raw, Msg)
            await served.runner.handle(NatsDelivery(raw))

        async def undecoded(message: NatsMessage) -> bytes:
            return bytes(message.body)

        consumer = served.stage.consumer(ack_wait_s=60.0)
        self._broker.subscriber(
            consumer.filters[0],
            durable=consumer.durable,
            config=ConsumerConfig(durable_name=consumer.durable, filter_subjects=list(consumer.filters)),
            stream=stream,
            pull_sub=PullSub(batch_size=1, timeout=_FETCH_TIMEOUT_S),
            ack_policy=AckPolicy.MANUAL,
            no_reply=True,
            decoder=undecoded,
            title=f"{served.stage.name}-{index}",
        )(handle)

    async def _watch(self) -> None:
        """Make durables again that went missing."""
        while True:
            await asyncio.sleep(self._watch_s)
            for each in self._served:
                try:
                    if await self._ensure(each.stage):
                        _log.warning("the durable of stage %s was missing and is made again", each.stage.name)
                except Exception as error:
                    _log.debug("the durable of stage %s could not be checked: %s", each.stage.name, error)
