"""The envelope: what is sealed, what is bound to it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.golden import TIME, golden_events

from loreline.events.envelope import Codec, Event, StoredWire, Wire, digest_of
from loreline.events.keys import MemoryKeys
from loreline.schemas.errors import KeyMissing, LogError, UnknownEvent
from loreline.schemas.events.conversation import ConversationTitled, Title
from loreline.schemas.events.payload import Payload, Shredded
from loreline.schemas.ids import Aggregate, conversation_aggregate

TALK = conversation_aggregate(str(uuid4()))
OWNER = f"conversation/{TALK.id}"


@pytest.fixture
def keys() -> MemoryKeys:
    keys = MemoryKeys()
    keys.ensure([OWNER])
    return keys


def titled(title: str, *, aggregate: Aggregate = TALK) -> Event[Payload]:
    payload = ConversationTitled(private=Title(title=title))
    return Event(uuid4(), "conversation.titled", aggregate, TIME, uuid4(), None, "user", "", payload)


def at(wire: Wire, seq: int = 7) -> StoredWire:
    return StoredWire(seq, wire)


@pytest.mark.parametrize("name", sorted(golden_events()))
def test_every_event_comes_back_as_it_was(name: str) -> None:
    event, keys = golden_events()[name], MemoryKeys()
    keys.ensure([getattr(event.payload, "owner", None) or "app"])
    keys.ensure([f"{event.aggregate.kind}/{event.aggregate.id}"])
    assert Codec(keys).decode(at(Codec(keys).encode(event))).event == event


@given(st.text())
def test_any_words_are_sealed_and_opened(title: str) -> None:
    keys = MemoryKeys()
    keys.ensure([OWNER])
    codec = Codec(keys)
    try:
        title.encode()
    except UnicodeEncodeError:
        return
    event = titled(title)
    assert codec.decode(at(codec.encode(event))).event == event


def test_the_words_are_nowhere_outside_the_box(keys: MemoryKeys) -> None:
    wire = Codec(keys).encode(titled("unspeakable"))
    assert set(json.loads(wire.body)["private"]) == {"owner", "kid", "box"}
    assert "unspeakable" not in wire.body.decode() + wire.subject + str(wire.headers)


def test_sealing_again_gives_the_same_bytes(keys: MemoryKeys) -> None:
    event = titled("once")
    assert Codec(keys).encode(event) == Codec(keys).encode(event)


def test_an_owner_without_a_key_cannot_be_sealed_for() -> None:
    with pytest.raises(KeyMissing, match=OWNER):
        Codec(MemoryKeys()).encode(titled("x"))


def test_a_destroyed_key_leaves_the_event_without_its_words(keys: MemoryKeys) -> None:
    wire = Codec(keys).encode(titled("secret"))
    digest = digest_of(wire)
    keys.destroy(OWNER)
    stored = Codec(keys).decode(at(wire))
    assert stored.event.payload == Shredded()
    assert (stored.event.aggregate, stored.digest) == (TALK, digest)


def test_a_lost_key_is_not_a_destroyed_one(keys: MemoryKeys) -> None:
    wire = Codec(keys).encode(titled("secret"))
    with pytest.raises(KeyMissing, match="restore the key backup"):
        Codec(MemoryKeys()).decode(at(wire))


def changed(wire: Wire, *, body: Mapping[str, Any] | None = None, **headers: Any) -> Wire:
    named = {f"ce-{name}": value for name, value in headers.items()}
    return Wire(wire.subject, {**wire.headers, **named}, json.dumps(body).encode() if body else wire.body)


def test_a_changed_box_a_moved_box_and_another_type_do_not_open(keys: MemoryKeys) -> None:
    codec = Codec(keys)
    wire, other = codec.encode(titled("one")), codec.encode(titled("two"))
    box = json.loads(wire.body)["private"]
    flipped = {"private": {**box, "box": ("B" if box["box"][0] == "A" else "A") + box["box"][1:]}}
    for forged in (
        changed(wire, body=flipped),
        replace(wire, body=other.body),
        changed(wire, id=str(uuid4())),
        changed(wire, type="conversation.created"),
    ):
        with pytest.raises(LogError, match="sequence 7 is not a sound event"):
            codec.decode(at(forged))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[]", b"7", b'{"private":1}', b'{"private":{}}', b'{"x":1}', b"null"]
)
def test_a_body_that_is_none_is_named_by_its_sequence(keys: MemoryKeys, body: bytes) -> None:
    wire = replace(Codec(keys).encode(titled("x")), body=body)
    with pytest.raises(LogError, match=r"sequence 7 .*restore the log from a backup"):
        Codec(keys).decode(at(wire))


@pytest.mark.parametrize(
    "name", ["id", "type", "time", "correlationid", "causationid", "actor", "schemaversion"]
)
def test_a_missing_header_is_named_by_its_sequence(keys: MemoryKeys, name: str) -> None:
    wire = Codec(keys).encode(titled("x"))
    headers = {key: value for key, value in wire.headers.items() if key != f"ce-{name}"}
    with pytest.raises(LogError, match="sequence 7"):
        Codec(keys).decode(at(replace(wire, headers=headers)))


@pytest.mark.parametrize("headers", [{"type": "moon.landed"}, {"schemaversion": "99"}])
def test_an_unknown_type_or_a_later_version_asks_for_a_newer_program(
    keys: MemoryKeys, headers: Mapping[str, Any]
) -> None:
    wire = changed(Codec(keys).encode(titled("x")), **headers)
    with pytest.raises(UnknownEvent, match=r"sequence 7: .*run the release that wrote it or a newer one"):
        Codec(keys).decode(at(wire))


def test_an_aggregate_holds_its_own_events_only(keys: MemoryKeys) -> None:
    with pytest.raises(ValueError, match="does not belong"):
        Codec(keys).encode(titled("x", aggregate=Aggregate("rag", "conversation", TALK.id)))


@pytest.mark.parametrize("name", ["id", "type", "time", "actor", "prev", "correlationid"])
def test_the_digest_covers_every_header_and_the_body(keys: MemoryKeys, name: str) -> None:
    wire = Codec(keys).encode(titled("x"))
    assert digest_of(changed(wire, **dict[str, Any]({name: "other"}))) != digest_of(wire)
    assert digest_of(replace(wire, body=wire.body + b" ")) != digest_of(wire)
    transport = {**wire.headers, "Nats-Msg-Id": "1"}
    assert digest_of(replace(wire, headers=transport)) == digest_of(wire)
