"""Identities: aggregates, owners, keyed digests and derived ids. Pure; frozen by ADR 0006."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import StringConstraints

Hex = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8,128}$")]
"""Lower-case hexadecimal: a digest or an id. Never free text."""

Code = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
"""A machine word from a fixed vocabulary. Never free text."""

OwnerName = Annotated[
    str,
    StringConstraints(pattern=r"^(app|file/[0-9a-f]{32}|conversation/[0-9a-f-]{36}|source/[0-9a-f]{32})$"),
]
"""Whose key seals a private part: `app`, or the kind and id of a file, conversation or source."""

APP_OWNER = "app"
MAIN = "main"
CURRENT = "current"
NAMESPACE = uuid5(NAMESPACE_URL, "urn:loreline:event")

_TOKEN = re.compile(r"^[a-z0-9-]{1,64}$")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A consistency boundary: its events share a subject prefix and are decided in order.

    Attributes:
        space: `rag`, `graph` or `app`.
        kind: `file`, `corpus`, `conversation`, ...
        id: lower-case hex, a uuid, or a fixed word such as `main`.
    """

    space: str
    kind: str
    id: str

    def __post_init__(self) -> None:
        for token in (self.space, self.kind, self.id):
            if not _TOKEN.match(token):
                raise ValueError(f"not a subject token: {token!r}")

    def subject(self, event: str) -> str:
        """The five-token subject of one event of this aggregate."""
        return f"lore.{self.space}.{self.kind}.{self.id}.{event}"

    @property
    def wildcard(self) -> str:
        """The subject filter that covers all events of this aggregate."""
        return self.subject("*")

    def __str__(self) -> str:
        return f"{self.space}.{self.kind}.{self.id}"

    @staticmethod
    def of_subject(subject: str) -> Aggregate:
        """The aggregate a subject addresses. Raises ValueError on another grammar."""
        tokens = subject.split(".")
        if len(tokens) != 5 or tokens[0] != "lore":
            raise ValueError(f"not a Loreline subject: {subject!r}")
        return Aggregate(tokens[1], tokens[2], tokens[3])


RAG_CORPUS = Aggregate("rag", "corpus", MAIN)
SETTINGS = Aggregate("app", "settings", CURRENT)
LOG = Aggregate("app", "log", CURRENT)


def file_aggregate(file_id: str) -> Aggregate:
    """The aggregate of one path in the document corpus."""
    return Aggregate("rag", "file", file_id)


def conversation_aggregate(conversation_id: str) -> Aggregate:
    """The aggregate of one conversation."""
    return Aggregate("app", "conversation", conversation_id)


def deadletter_aggregate(stage: str, seq: int) -> Aggregate:
    """The aggregate of one event parked by one stage."""
    return Aggregate("app", "deadletter", uuid5(NAMESPACE, f"deadletter:{stage}:{seq}").hex)


def owner_of(aggregate: Aggregate) -> str:
    """Whose key seals an aggregate's private parts."""
    if aggregate.kind in {"file", "conversation", "source"}:
        return f"{aggregate.kind}/{aggregate.id}"
    return APP_OWNER


def normalise_path(relative_path: str) -> str:
    """NFC, forward slashes, no leading `./`: the one spelling of a path inside the corpus."""
    return unicodedata.normalize("NFC", relative_path.replace("\\", "/")).removeprefix("./")


def keyed_digest(key: bytes, purpose: str, text: str, *, size: int = 32) -> str:
    """HMAC-SHA256 under `key`, `size` hex digits: safe to publish, useless without the key."""
    return hmac.new(key, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[
        :size
    ]


def file_id_of(app_key: bytes, relative_path: str) -> str:
    """The id of a file: a keyed digest of its normalised path, 32 hex digits."""
    return keyed_digest(app_key, "loreline/1/file", normalise_path(relative_path))


def content_hash_of(data: bytes) -> str:
    """SHA-256 of a file's bytes, hex."""
    return hashlib.sha256(data).hexdigest()


def doc_id_of(relative_path: str, content_hash: str) -> str:
    """The reference's document id: `sha256("{relative_path}:{content_hash}")[:16]`."""
    return hashlib.sha256(f"{normalise_path(relative_path)}:{content_hash}".encode()).hexdigest()[:16]


def version_of(owner_key: bytes, doc_id: str) -> str:
    """A version's public name: a keyed digest of its doc_id, so the same content has the same name."""
    return keyed_digest(owner_key, "loreline/1/version", doc_id)


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no spaces, UTF-8, no NaN: the form that is hashed."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def command_event_id(command_key: UUID, index: int) -> UUID:
    """The id of the index-th event a command makes: retrying the command makes the same ids."""
    return uuid5(command_key, str(index))


def derived_key(causation: UUID, stage: str, detail: str = "") -> UUID:
    """The command key of an event derived by a stage from another event."""
    return uuid5(causation, f"{stage}\0{detail}")


def original_index_of(chunked_seq: int, chunk_index: int) -> int:
    """A chunk's corpus-wide number: its chunked event's sequence x 2^20 + its index (below 2^53)."""
    return (chunked_seq << 20) + chunk_index
