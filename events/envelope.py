"""The envelope: an event as CloudEvents headers and a JSON body, its words sealed, and back again.

CloudEvents 1.0 NATS binding, binary mode. Pure: keys come from the KeyStore it is given.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from pydantic import ValidationError

from loreline.events.catalogue import BY_PAYLOAD, CATALOGUE, subject_of
from loreline.events.upcasts import upcast
from loreline.schemas.errors import LogError, UnknownEvent
from loreline.schemas.events.payload import Payload, Shredded
from loreline.schemas.ids import Aggregate, canonical_json, owner_of
from loreline.schemas.ports import KeyStore

HEADERS = (
    "ce-specversion",
    "ce-id",
    "ce-type",
    "ce-source",
    "ce-subject",
    "ce-time",
    "ce-dataschema",
    "ce-correlationid",
    "ce-causationid",
    "ce-actor",
    "ce-schemaversion",
    "ce-prev",
)
"""Every header that is part of an event; its digest covers these and the body."""

SOURCE = "urn:loreline"
PRIVATE = "private"
_SEAL = b"loreline/1/event"

P = TypeVar("P", bound=Payload, covariant=True)


@dataclass(frozen=True, slots=True)
class Wire:
    """An event as it travels: subject, headers and body, its words sealed."""

    subject: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The `ce-id`."""
        return self.headers["ce-id"]


@dataclass(frozen=True, slots=True)
class StoredWire:
    """A sealed event at its place in the log."""

    seq: int
    wire: Wire


@dataclass(frozen=True, slots=True)
class Event(Generic[P]):
    """An opened event.

    Attributes:
        actor: who caused it: `user`, `cli`, or `stage.<name>`.
        prev: digest of the aggregate's event before this one; empty for the first.
        time: when it was recorded, UTC.
    """

    id: UUID
    type: str
    aggregate: Aggregate
    time: datetime
    correlation: UUID
    causation: UUID | None
    actor: str
    prev: str
    payload: P


@dataclass(frozen=True, slots=True)
class Stored(Generic[P]):
    """An opened event at its place in the log. `digest` is what the aggregate's next event names."""

    seq: int
    event: Event[P]
    digest: str


def digest_of(wire: Wire) -> str:
    """SHA-256 over the canonical event headers, a newline, and the body: hex."""
    headers = canonical_json({name: wire.headers[name] for name in HEADERS if name in wire.headers})
    return hashlib.sha256(headers + b"\n" + wire.body).hexdigest()


def _associated(event_id: str, event_type: str) -> list[bytes]:
    return [_SEAL, event_id.encode(), event_type.encode()]


@dataclass(frozen=True, slots=True)
class _Opened:
    """An event that was opened, and the (owner, key id) that opened it."""

    wire: Wire
    key: tuple[str, str] | None
    opened: Stored[Payload]


class Codec:
    """Seals and opens events. Owners without a key raise KeyMissing at encode.

    remembers: how many opened events are kept: every view, and whoever else follows the log, opens
    the same ones within moments.
    """

    def __init__(self, keys: KeyStore, *, remembers: int = 2048) -> None:
        self._keys = keys
        self._remembers = remembers
        self._opened: OrderedDict[int, _Opened] = OrderedDict()

    def encode(self, event: Event[Payload]) -> Wire:
        """The event as it travels. Raises ValueError if its aggregate cannot hold its payload."""
        row = BY_PAYLOAD[type(event.payload)]
        body = event.payload.model_dump(mode="json")
        if PRIVATE in body:
            body[PRIVATE] = self._seal(event, body[PRIVATE])
        headers = {
            "ce-specversion": "1.0",
            "ce-id": str(event.id),
            "ce-type": row.name,
            "ce-source": SOURCE,
            "ce-subject": str(event.aggregate),
            "ce-time": event.time.isoformat(timespec="microseconds"),
            "ce-dataschema": f"{SOURCE}:schema:{row.name}:{row.version}",
            "ce-correlationid": str(event.correlation),
            "ce-causationid": str(event.causation) if event.causation else "",
            "ce-actor": event.actor,
            "ce-schemaversion": str(row.version),
            "ce-prev": event.prev,
        }
        return Wire(subject_of(event.aggregate, event.payload), headers, canonical_json(body))

    def decode(self, stored: StoredWire) -> Stored[Payload]:
        """The opened event; Shredded where its owner's key was destroyed.

        Raises UnknownEvent for a type or version this program does not know, KeyMissing when the
        key was never here, LogError when the bytes are not an event or their seal does not hold.
        """
        held = self._opened.get(stored.seq)
        if held is not None and held.wire == stored.wire and self._is_kept(held.key):
            return held.opened
        opened, key = self._decode(stored)
        self._opened[stored.seq] = _Opened(stored.wire, key, opened)
        if len(self._opened) > self._remembers:
            self._opened.popitem(last=False)
        return opened

    def _is_kept(self, key: tuple[str, str] | None) -> bool:
        """Whether the key that opened an event is still there; one without words needs none."""
        return key is None or self._keys.find(*key) is not None

    def _decode(self, stored: StoredWire) -> tuple[Stored[Payload], tuple[str, str] | None]:
        headers = stored.wire.headers
        try:
            payload, key = self._payload(stored.wire)
            event = Event(
                id=UUID(headers["ce-id"]),
                type=headers["ce-type"],
                aggregate=Aggregate.of_subject(stored.wire.subject),
                time=datetime.fromisoformat(headers["ce-time"]),
                correlation=UUID(headers["ce-correlationid"]),
                causation=UUID(headers["ce-causationid"]) if headers["ce-causationid"] else None,
                actor=headers["ce-actor"],
                prev=headers["ce-prev"],
                payload=payload,
            )
        except UnknownEvent as error:
            raise UnknownEvent(f"sequence {stored.seq}: {error}") from error
        except (KeyError, TypeError, ValueError, ValidationError, binascii.Error, InvalidTag) as error:
            raise LogError(
                f"the message at sequence {stored.seq} is not a sound event ({type(error).__name__}); "
                "keep this data directory aside and restore the log from a backup"
            ) from error
        return Stored(stored.seq, event, digest_of(stored.wire)), key

    def _payload(self, wire: Wire) -> tuple[Payload, tuple[str, str] | None]:
        name, version = wire.headers["ce-type"], int(wire.headers["ce-schemaversion"])
        row = CATALOGUE.get(name)
        if row is None or version > row.version:
            raise UnknownEvent(
                f"the log holds {name} version {version}, which this program does not know; "
                "run the release that wrote it or a newer one"
            )
        body = json.loads(wire.body)
        key: tuple[str, str] | None = None
        if PRIVATE in body:
            key = (body[PRIVATE]["owner"], body[PRIVATE]["kid"])
            opened = self._open(wire, body[PRIVATE])
            if opened is None:
                return Shredded(), key
            body[PRIVATE] = opened
        return row.payload.model_validate(upcast(name, version, body)), key

    def _seal(self, event: Event[Payload], private: Any) -> dict[str, str]:
        owner = getattr(event.payload, "owner", None) or owner_of(event.aggregate)
        key = self._keys.current(owner)
        event_type = BY_PAYLOAD[type(event.payload)].name
        box = AESSIV(key.secret).encrypt(canonical_json(private), _associated(str(event.id), event_type))
        return {"owner": owner, "kid": key.kid, "box": base64.b64encode(box).decode()}

    def _open(self, wire: Wire, sealed: Mapping[str, str]) -> Any | None:
        key = self._keys.find(sealed["owner"], sealed["kid"])
        if key is None:
            return None
        aad = _associated(wire.headers["ce-id"], wire.headers["ce-type"])
        return json.loads(AESSIV(key.secret).decrypt(base64.b64decode(sealed["box"], validate=True), aad))
