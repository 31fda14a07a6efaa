"""Following the stream: a pull consumer of our own, checked sequence by sequence, healing by itself.

A callback and pull requests replay several times faster than fetch calls. The reader's position is
ours, not the server's: after any doubt the consumer is made again at the next sequence expected.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from loreline.events.envelope import HEADERS, StoredWire, Wire
from loreline.events.highwater import REPAIR, check_event, check_info
from loreline.events.log import LogInfo
from loreline.events.topology import STREAM
from loreline.schemas.errors import DependencyDown, LogHole

_REQUEST = 1000
_LOW_WATER = 500
_EXPIRES_S = 10.0
_SILENCE_S = 3.0
_LINGER_S = 0.02
"""How long a reader with a name (a view) lets more events come: fewer and larger transactions."""


class Follower:
    """One reader of the stream.

    info: the log's state, asked when the stream falls silent.
    get: the event at a sequence, asked where it was read to, whenever the consumer is made.
    """

    def __init__(
        self,
        connection: Client,
        info: Callable[[], Awaitable[LogInfo]],
        get: Callable[[int], Awaitable[StoredWire | None]],
        *,
        after_seq: int,
        filters: Sequence[str],
        name: str | None,
    ) -> None:
        self._nats = connection
        self._info = info
        self._get = get
        self._seq = after_seq
        self._event_id = ""
        self._filters = tuple(filters)
        self._name = name or f"reader-{uuid4().hex[:16]}"
        self._durable = name is not None
        self._queue: asyncio.Queue[Msg] = asyncio.Queue()
        self._outstanding = 0
        self._consumer_seq = 0
        self._pending = 0

    async def batches(self) -> AsyncGenerator[list[StoredWire], None]:
        """Batches in order, an empty one whenever the end of the log is reached; for ever."""
        while True:
            try:
                async for batch in self._read():
                    yield batch
            except (DependencyDown, nats.errors.Error, TimeoutError, OSError):
                await asyncio.sleep(0.2)

    async def _read(self) -> AsyncGenerator[list[StoredWire], None]:
        """Read with one consumer until it must be made again."""
        await self._check()
        self._queue, self._outstanding, self._consumer_seq = asyncio.Queue(), 0, 0
        inbox = self._nats.new_inbox()
        subscription = await self._nats.subscribe(inbox, cb=self._queue.put)
        try:
            await self._create()
            if self._pending == 0:
                yield []
            while True:
                await self._request(inbox)
                batch = await self._next()
                if batch is None:
                    return
                if batch:
                    yield batch
                if self._pending == 0:
                    yield []
        finally:
            await self._drop(subscription)

    async def _check(self) -> None:
        """Check that the log still is the one that was read so far."""
        whose = f"the reader {self._name}"
        check_info(await self._info(), seq=self._seq, whose=whose)
        if self._event_id:
            check_event(await self._get(self._seq), mark=(self._seq, self._event_id), whose=whose)

    async def _create(self) -> None:
        config: dict[str, Any] = {
            "name": self._name,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._seq + 1,
            "mem_storage": True,
            "inactive_threshold": 60_000_000_000,
        }
        if self._filters:
            config["filter_subjects"] = list(self._filters)
        if self._durable:
            config["durable_name"] = self._name
        await self._api(f"CONSUMER.DELETE.{STREAM}.{self._name}", {}, tolerate={404})
        answer = await self._api(
            f"CONSUMER.CREATE.{STREAM}.{self._name}",
            {"stream_name": STREAM, "config": config, "action": "create"},
        )
        self._pending = int(answer.get("num_pending", 0))

    async def _request(self, inbox: str) -> None:
        if self._outstanding > _LOW_WATER:
            return
        body = json.dumps({"batch": _REQUEST, "expires": int(_EXPIRES_S * 1e9)}).encode()
        await self._nats.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{self._name}", body, reply=inbox)
        self._outstanding += _REQUEST

    async def _next(self) -> list[StoredWire] | None:
        """What has arrived, waiting for the first; None when the consumer must be made again."""
        try:
            async with asyncio.timeout(_SILENCE_S):
                messages = [await self._queue.get()]
        except TimeoutError:
            return [] if await self._is_current() else None
        if self._durable:
            await asyncio.sleep(_LINGER_S)
        while len(messages) < _LOW_WATER and not self._queue.empty():
            messages.append(self._queue.get_nowait())
        batch: list[StoredWire] = []
        for message in messages:
            if message.headers and "Status" in message.headers:
                if message.headers["Status"] not in {"404", "408"}:
                    return None
                self._outstanding = 0
                continue
            self._outstanding -= 1
            if not self._accept(message, batch):
                return None
        return batch

    def _accept(self, message: Msg, batch: list[StoredWire]) -> bool:
        """Take a message if it is the next one; False when a delivery was lost on the way.

        The consumer numbers what it delivers: a jump there is a lost delivery, while a jump of the
        stream's own sequence without one is a hole in the log.
        """
        seq, consumer_seq, pending = _delivery(message.reply)
        if consumer_seq != self._consumer_seq + 1:
            return False
        if not self._filters and seq != self._seq + 1:
            raise LogHole(f"sequence {self._seq + 1} is not in the log; {REPAIR}")
        headers = message.headers or {}
        event_headers = {name: headers[name] for name in HEADERS if name in headers}
        batch.append(StoredWire(seq, Wire(message.subject, event_headers, message.data)))
        self._seq, self._consumer_seq, self._pending = seq, consumer_seq, pending
        self._event_id = event_headers.get("ce-id", "")
        return True

    async def _is_current(self) -> bool:
        """Whether silence means that there is nothing to say."""
        answer = await self._api(f"CONSUMER.INFO.{STREAM}.{self._name}", {}, tolerate={404})
        info = await self._info()
        unread = not self._filters and info.last_seq > self._seq
        unreadable = unread and await self._get(self._seq + 1) is None
        if not self._queue.empty():
            return True
        if unreadable:  # a server passes over what it cannot read, and calls that the end
            raise LogHole(f"sequence {self._seq + 1} is not in the log; {REPAIR}")
        if "error" in answer or unread:
            return False
        delivered = int(answer["delivered"]["consumer_seq"])
        return int(answer["num_pending"]) == 0 and delivered == self._consumer_seq

    async def _api(
        self, subject: str, body: dict[str, Any], tolerate: frozenset[int] | set[int] = frozenset()
    ) -> dict[str, Any]:
        reply = await self._nats.request(f"$JS.API.{subject}", json.dumps(body).encode(), timeout=5)
        answer: dict[str, Any] = json.loads(reply.data)
        failure = answer.get("error")
        if failure and failure.get("code") not in tolerate:
            raise DependencyDown("nats", f"nats: {failure.get('description')}")
        return answer

    async def _drop(self, subscription: Any) -> None:
        try:
            await subscription.unsubscribe()
            if not self._durable and self._nats.is_connected:
                await self._api(f"CONSUMER.DELETE.{STREAM}.{self._name}", {}, tolerate={404})
        except (nats.errors.Error, DependencyDown, TimeoutError, OSError):
            return  # the server forgets an inactive consumer by itself


def _delivery(reply: str) -> tuple[int, int, int]:
    """(stream sequence, consumer sequence, pending) of a delivery's reply subject (ADR-15, both forms)."""
    tokens = reply.split(".")
    start = 5 if len(tokens) == 9 else 7
    return int(tokens[start]), int(tokens[start + 1]), int(tokens[start + 3])
