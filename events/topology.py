"""Streams, accounts' permissions and consumers as values. Bootstrap makes them so; nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

STREAM = "LORE"
LIVE_STREAM = "LIVE"
ACCOUNT = "LORE"
ADMIN, APP, SUBSCRIBER = "admin", "app", "subscriber"

MAX_EVENT_BYTES = 256 * 1024
"""The largest event. Bytes ride in blobs, so an event near this size is a mistake."""

SUBSCRIBER_CONSUMERS = tuple(f"sub-{index:02}" for index in range(16))
"""The consumers an outside subscriber may own. NATS permissions match whole tokens, so they are named."""

_SECOND_NS = 1_000_000_000


def lore_stream(*, max_bytes: int, replicas: int = 1) -> dict[str, Any]:
    """The stream of record: one total order, never purged or edited, refusing when full."""
    return {
        "name": STREAM,
        "subjects": ["lore.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_bytes": max_bytes,
        "max_age": 0,
        "max_msg_size": MAX_EVENT_BYTES,
        "duplicate_window": 120 * _SECOND_NS,
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_atomic": True,
        "deny_delete": True,
        "deny_purge": True,
        "compression": "s2",
    }


def live_stream() -> dict[str, Any]:
    """Frames of what is happening now: in memory, an hour at most; nothing depends on it surviving."""
    return {
        "name": LIVE_STREAM,
        "subjects": ["live.frame.>"],
        "retention": "limits",
        "storage": "memory",
        "discard": "old",
        "max_bytes": 64 * 1024 * 1024,
        "max_age": 3600 * _SECOND_NS,
        "allow_direct": True,
        "num_replicas": 1,
    }


@dataclass(frozen=True)
class StageConsumer:
    """A stage's durable: which events it is handed, and how.

    Attributes:
        stage: the stage's name; the durable is called `stage-<name>`.
        filters: subjects; a released parked event is handed to every stage.
        parallelism: events in work at once.
        ack_wait_s: how long a delivery may go without a sign of life.
        start_seq: first sequence to hand over; None means from the beginning.
    """

    stage: str
    filters: tuple[str, ...]
    parallelism: int
    ack_wait_s: float
    start_seq: int | None = None

    @property
    def durable(self) -> str:
        """The durable's name."""
        return f"stage-{self.stage}"

    def config(self) -> dict[str, Any]:
        """The consumer as the JetStream API takes it.

        `max_ack_pending` leaves room for delayed naks, so that poison does not hold up good events.
        """
        config: dict[str, Any] = {
            "durable_name": self.durable,
            "ack_policy": "explicit",
            "ack_wait": int(self.ack_wait_s * _SECOND_NS),
            "max_deliver": -1,
            "max_ack_pending": self.parallelism + 256,
            "filter_subjects": list(self.filters),
            "deliver_policy": "all",
        }
        if self.start_seq is not None:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": self.start_seq}
        return config


@dataclass(frozen=True)
class Permissions:
    """What a user may publish and subscribe to; empty allows mean everything not denied."""

    publish_allow: tuple[str, ...] = ()
    publish_deny: tuple[str, ...] = ()
    subscribe_allow: tuple[str, ...] = ()
    subscribe_deny: tuple[str, ...] = ()


def app_permissions() -> Permissions:
    """The application appends and consumes; it never changes, empties or deletes a stream."""
    return Permissions(
        publish_deny=(
            "$JS.API.STREAM.CREATE.>",
            "$JS.API.STREAM.UPDATE.>",
            "$JS.API.STREAM.DELETE.>",
            "$JS.API.STREAM.PURGE.>",
            "$JS.API.STREAM.MSG.DELETE.>",
            "$JS.API.STREAM.RESTORE.>",
        )
    )


@dataclass(frozen=True)
class Service:
    """A request subject of the log's account that subscribers may use from their own account.

    Attributes:
        subject: the subject in the log's account.
        known_as: its name in the subscribers' account.
        streamed: whether one request may get several answers.
    """

    subject: str
    known_as: str
    streamed: bool = False


SUBSCRIBER_ACCOUNT = "SUBSCRIBERS"
"""Outside subscribers live in an account of their own: a reply subject chosen there never reaches the log,
while in the log's account it would let a reader have the server write to `lore.>`."""

SUBSCRIBER_API = "lorejs"
"""The prefix under which subscribers find the JetStream API; clients take it as their API prefix."""


SUBSCRIBER_DESK = "desk"
"""The prefix, in the log's account, under which requests for consumers come to be looked at."""


def subscriber_services(consumers: Sequence[str] = SUBSCRIBER_CONSUMERS) -> tuple[Service, ...]:
    """What a subscriber may ask: create, pull, ack and delete its own consumers, and nothing more.

    Creating is asked at the desk: in the request stands where the server would deliver to.
    """
    services = [_api(f"STREAM.INFO.{STREAM}")]
    for name in consumers:
        services += [
            _asked(f"CONSUMER.CREATE.{STREAM}.{name}"),
            _asked(f"CONSUMER.CREATE.{STREAM}.{name}.>"),
            _asked(f"CONSUMER.DURABLE.CREATE.{STREAM}.{name}"),
            _api(f"CONSUMER.INFO.{STREAM}.{name}"),
            _api(f"CONSUMER.DELETE.{STREAM}.{name}"),
            _api(f"CONSUMER.MSG.NEXT.{STREAM}.{name}", streamed=True),
            Service(f"$JS.ACK.{STREAM}.{name}.>", f"$JS.ACK.{STREAM}.{name}.>"),
        ]
    return tuple(services)


def subscriber_permissions(consumers: Sequence[str] = SUBSCRIBER_CONSUMERS) -> Permissions:
    """A subscriber publishes to those services alone, and hears its own inboxes alone."""
    names = tuple(service.known_as for service in subscriber_services(consumers))
    return Permissions(publish_allow=names, subscribe_allow=("_INBOX.>",))


def _api(subject: str, *, streamed: bool = False) -> Service:
    return Service(f"$JS.API.{subject}", f"{SUBSCRIBER_API}.{subject}", streamed)


def _asked(subject: str) -> Service:
    return Service(f"{SUBSCRIBER_DESK}.{subject}", f"{SUBSCRIBER_API}.{subject}")
