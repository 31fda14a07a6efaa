"""The audit: reads the whole log and checks every chain in it.

Each event names the digest of its aggregate's previous one, and each seal the digest of all before it.
Given the codec, the audit opens every event too: a seal of words vouches for them by itself.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import aclosing
from dataclasses import dataclass, field

from loreline.events.envelope import Codec, StoredWire, Wire, digest_of
from loreline.events.highwater import REPAIR
from loreline.events.log import EventLog
from loreline.schemas.errors import LogError, LogHole, LogRewritten
from loreline.schemas.ids import Aggregate

EMPTY = hashlib.sha256(b"loreline/1/log").hexdigest()
"""The rolling digest of an empty log."""


def roll(digest: str, event_digest: str) -> str:
    """The rolling digest with one more event in it."""
    return hashlib.sha256(bytes.fromhex(digest) + bytes.fromhex(event_digest)).hexdigest()


@dataclass
class Audit:
    """Chains checked so far.

    Attributes:
        seq: last sequence checked.
        digest: rolling digest through it.
        seal: the newest seal seen, (through_seq, digest).
    """

    seq: int = 0
    digest: str = EMPTY
    seal: tuple[int, str] | None = None
    _heads: dict[Aggregate, str] = field(default_factory=dict)
    _at: dict[int, str] = field(default_factory=dict)

    def take(self, stored: StoredWire) -> None:
        """Check the next event. Raises LogHole or LogRewritten, LogError for what is no event at all."""
        if stored.seq != self.seq + 1:
            raise LogHole(f"sequence {self.seq + 1} is not in the log; {REPAIR}")
        wire = stored.wire
        try:
            aggregate = Aggregate.of_subject(wire.subject)
        except ValueError as error:
            raise LogError(
                f"the message at sequence {stored.seq} is not an event ({error}); {REPAIR}"
            ) from error
        if wire.headers.get("ce-prev", "") != self._heads.get(aggregate, ""):
            raise LogRewritten(
                f"the event at {stored.seq} does not follow the one before it in {aggregate}; {REPAIR}"
            )
        digest = digest_of(wire)
        if wire.headers.get("ce-type") == "log.sealed":
            self._check_seal(stored.seq, wire)
        self._heads[aggregate] = digest
        self.seq, self.digest = stored.seq, roll(self.digest, digest)
        self._at[self.seq] = self.digest
        self._at.pop(self.seq - 4096, None)

    def _check_seal(self, seq: int, wire: Wire) -> None:
        try:
            body = json.loads(wire.body)
            through, sealed = int(body["through_seq"]), str(body["digest"])
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"the message at sequence {seq} is not a sound seal; {REPAIR}") from error
        known = EMPTY if through == 0 else self._at.get(through)
        if known is not None and known != sealed:
            raise LogRewritten(f"the seal at {seq} does not match the events before it; {REPAIR}")
        self.seal = (through, sealed)


async def audit(log: EventLog, *, through_seq: int, codec: Codec | None = None) -> Audit:
    """Check the log from its first event to `through_seq`.

    codec: opens every event, so that what cannot be read is found too.
    Raises LogHole, LogRewritten, LogError; with a codec also what its `decode` raises.
    """
    state = Audit()
    if through_seq == 0:
        return state
    async with aclosing(log.follow(after_seq=0)) as batches:
        async for batch in batches:
            for stored in batch:
                state.take(stored)
                if codec is not None:
                    codec.decode(stored)
                if state.seq >= through_seq:
                    return state
            if not batch:
                raise LogHole(f"sequence {state.seq + 1} is not in the log; {REPAIR}")
    return state
