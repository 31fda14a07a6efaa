"""The log on NATS JetStream: the EventLog port over the raw API, for one server or a cluster.

The raw API is used because it is the contract of ADR-31 (direct get), ADR-50 (atomic batch) and the
expectation headers; the client's wrappers lack or reset parts of it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from loreline.events.envelope import HEADERS, StoredWire, Wire
from loreline.events.follow import Follower
from loreline.events.log import Group, LogInfo
from loreline.events.topology import STREAM
from loreline.schemas.errors import (
    AppendUncertain,
    DependencyDown,
    LogError,
    LogFull,
    StaleAggregate,
)
from loreline.schemas.ids import Aggregate

_STALE, _DUPLICATE, _FULL, _TOO_LARGE, _NO_MESSAGE = 10071, 10201, {10077, 10047, 10023}, 10054, 10037
_READ_BATCH = 256


class JetStreamLog:
    """An EventLog on the stream LORE. The connection is the caller's.

    timeout_s: how long one request may take before its outcome counts as unknown.
    """

    def __init__(self, connection: Client, *, timeout_s: float = 5.0) -> None:
        self._nats = connection
        self._timeout_s = timeout_s

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        """Append all groups or none; see EventLog."""
        messages = [message for group in groups for message in _messages(group)]
        if not messages:
            return [[] for _ in groups]
        if len(messages) > 1000:
            raise ValueError(f"{len(messages)} events in one append; at most 1000")
        if len(messages) > 1:
            batch = uuid4().hex
            for index, (subject, headers, body) in enumerate(messages[:-1], start=1):
                marks = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(index)}
                await self._publish(subject, body, headers | marks)
            messages[-1][1].update(
                {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(len(messages)), "Nats-Batch-Commit": "1"}
            )
        ack = await self._acknowledged(*messages[-1])
        last = int(ack["seq"])
        if ack.get("duplicate"):
            raise AppendUncertain("an event of this append is in the log already")
        sequences = iter(range(last - len(messages) + 1, last + 1))
        return [[next(sequences) for _ in group.wires] for group in groups]

    async def read(
        self, aggregate: Aggregate, *, after_seq: int = 0, leader: bool = False
    ) -> list[StoredWire]:
        """The aggregate's events after a sequence; see EventLog."""
        if leader:
            return await self._read_leader(aggregate, after_seq)
        found: list[StoredWire] = []
        while True:
            batch, more = await self._read_direct(aggregate, after_seq)
            found += batch
            if not more or not batch:
                return found
            after_seq = batch[-1].seq

    async def get(self, seq: int) -> StoredWire | None:
        """The event at a sequence, None if there is none."""
        return await self._get({"seq": seq})

    async def last(self, subject: str) -> StoredWire | None:
        """The newest event on a subject, None if there is none."""
        return await self._get({"last_by_subj": subject})

    async def info(self) -> LogInfo:
        """The log's state."""
        answer = await self._api(f"STREAM.INFO.{STREAM}", {})
        state, config = answer["state"], answer["config"]
        return LogInfo(
            first_seq=int(state["first_seq"]),
            last_seq=int(state["last_seq"]),
            n_events=int(state["messages"]),
            n_deleted=int(state.get("num_deleted", 0)),
            size_bytes=int(state["bytes"]),
            max_bytes=int(config.get("max_bytes", -1)),
        )

    def follow(
        self, *, after_seq: int, filters: Sequence[str] = (), name: str | None = None
    ) -> AsyncGenerator[list[StoredWire], None]:
        """Events after a sequence, for ever; see EventLog."""
        reader = Follower(self._nats, self.info, self.get, after_seq=after_seq, filters=filters, name=name)
        return reader.batches()

    async def _publish(self, subject: str, body: bytes, headers: dict[str, str]) -> None:
        try:
            await self._nats.publish(subject, body, headers=headers)
        except (nats.errors.Error, OSError) as error:
            raise DependencyDown("nats", f"nats does not take the append: {error}") from error

    async def _acknowledged(self, subject: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
        """Publish and wait for the stream's word; errors come as what they mean."""
        try:
            reply = await self._nats.request(subject, body, timeout=self._timeout_s, headers=headers)
        except nats.errors.NoRespondersError as error:
            raise DependencyDown("nats", "the log's stream does not answer; is nats-server up?") from error
        except (nats.errors.TimeoutError, TimeoutError) as error:
            raise AppendUncertain("no answer to an append in time; it may have been stored") from error
        except (nats.errors.Error, OSError) as error:
            raise DependencyDown("nats", f"nats does not take the append: {error}") from error
        ack: dict[str, Any] = json.loads(reply.data)
        if failure := ack.get("error"):
            raise _append_error(failure)
        return ack

    async def _api(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            reply = await self._nats.request(
                f"$JS.API.{subject}", json.dumps(body).encode(), timeout=self._timeout_s
            )
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise DependencyDown("nats", f"nats does not answer: {error or type(error).__name__}") from error
        answer: dict[str, Any] = json.loads(reply.data)
        if failure := answer.get("error"):
            if failure.get("code") == 404 and failure.get("err_code") != _NO_MESSAGE:
                raise DependencyDown("nats", f"nats: {failure['description']}")
            if failure.get("err_code") == _NO_MESSAGE:
                return {}
            raise LogError(f"nats refuses {subject}: {failure['description']}")
        return answer

    async def _get(self, query: Mapping[str, Any]) -> StoredWire | None:
        """One message from the stream's leader."""
        answer = await self._api(f"STREAM.MSG.GET.{STREAM}", query)
        return _from_leader(answer["message"]) if answer else None

    async def _read_leader(self, aggregate: Aggregate, after_seq: int) -> list[StoredWire]:
        found: list[StoredWire] = []
        while stored := await self._get({"seq": after_seq + 1, "next_by_subj": aggregate.wildcard}):
            found.append(stored)
            after_seq = stored.seq
        return found

    async def _read_direct(self, aggregate: Aggregate, after_seq: int) -> tuple[list[StoredWire], bool]:
        """Up to a batch of an aggregate's events by direct get; whether there are more."""
        inbox = self._nats.new_inbox()
        subscription = await self._nats.subscribe(inbox)
        query = {"seq": after_seq + 1, "next_by_subj": aggregate.wildcard, "batch": _READ_BATCH}
        found: list[StoredWire] = []
        try:
            await self._nats.publish(f"$JS.API.DIRECT.GET.{STREAM}", json.dumps(query).encode(), reply=inbox)
            while True:
                message = await subscription.next_msg(timeout=self._timeout_s)
                headers = message.headers or {}
                if status := headers.get("Status"):
                    return found, _more(status, headers)
                found.append(_from_direct(message))
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise DependencyDown("nats", f"nats does not answer: {error or type(error).__name__}") from error
        finally:
            with suppress(nats.errors.Error):  # the connection took the subscription with it
                await subscription.unsubscribe()


def _more(status: str, headers: Mapping[str, str]) -> bool:
    """Whether a direct get's closing status says that more events wait."""
    if status == "404":
        return False
    if status == "204":
        return int(headers.get("Nats-Num-Pending", "0")) > 0
    raise DependencyDown("nats", f"nats: {headers.get('Description', status)}")


def _messages(group: Group) -> list[tuple[str, dict[str, str], bytes]]:
    """A group as messages; the expectation rides on its first, for the whole aggregate."""
    out = []
    for index, wire in enumerate(group.wires):
        headers = dict(wire.headers) | {"Nats-Msg-Id": wire.id}
        if index == 0:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(group.expected_seq)
            headers["Nats-Expected-Last-Subject-Sequence-Subject"] = group.aggregate.wildcard
        out.append((wire.subject, headers, wire.body))
    return out


def _append_error(failure: Mapping[str, Any]) -> Exception:
    code, words = failure.get("err_code"), failure.get("description", "")
    if code == _STALE:
        return StaleAggregate(words)
    if code == _DUPLICATE:
        return AppendUncertain(words)
    if code in _FULL:
        return LogFull(f"the log is full ({words}); raise LOG_MAX_BYTES or free disk space, then retry")
    if code == _TOO_LARGE:
        return LogError("an event is larger than the log takes; its bytes belong in a blob")
    if failure.get("code") in {503, 504, 408}:
        return DependencyDown("nats", f"nats: {words}")
    return LogError(f"the log refuses an append: {words}")


def _event_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in HEADERS if name in headers}


def _from_direct(message: Msg) -> StoredWire:
    headers = message.headers or {}
    wire = Wire(headers["Nats-Subject"], _event_headers(headers), message.data)
    return StoredWire(int(headers["Nats-Sequence"]), wire)


def _from_leader(message: Mapping[str, Any]) -> StoredWire:
    raw = base64.b64decode(message.get("hdrs", "")).decode()
    pairs = (line.split(":", 1) for line in raw.split("\r\n")[1:] if ":" in line)
    headers = {name.strip(): value.strip() for name, value in pairs}
    wire = Wire(message["subject"], _event_headers(headers), base64.b64decode(message.get("data", "")))
    return StoredWire(int(message["seq"]), wire)
