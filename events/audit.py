"""The audit: reads the whole log and checks every chain in it.

Each event names the digest of its aggregate's previous one, and each seal the digest of all before it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from loreline.events.envelope import StoredWire, Wire, digest_of
from loreline.events.log import EventLog
from loreline.schemas.errors import LogHole, LogRewritten
from loreline.schemas.ids import Aggregate

EMPTY = hashlib.sha256(b"loreline/1/log").hexdigest()
"""The rolling digest of an empty log."""

_REPAIR = "keep this data directory aside and restore the log from a backup"


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
        """Check the next event. Raises LogHole or LogRewritten."""
        if stored.seq != self.seq + 1:
            raise LogHole(f"sequence {self.seq + 1} is not in the log; {_REPAIR}")
        wire = stored.wire
        aggregate = Aggregate.of_subject(wire.subject)
        if wire.headers.get("ce-prev", "") != self._heads.get(aggregate, ""):
            raise LogRewritten(
                f"the event at {stored.seq} does not follow the one before it in {aggregate}; {_REPAIR}"
            )
        digest = digest_of(wire)
        if wire.headers.get("ce-type") == "log.sealed":
            self._check_seal(stored.seq, wire)
        self._heads[aggregate] = digest
        self.seq, self.digest = stored.seq, roll(self.digest, digest)
        self._at[self.seq] = self.digest
        self._at.pop(self.seq - 4096, None)

    def _check_seal(self, seq: int, wire: Wire) -> None:
        body = json.loads(wire.body)
        through, sealed = int(body["through_seq"]), str(body["digest"])
        known = EMPTY if through == 0 else self._at.get(through)
        if known is not None and known != sealed:
            raise LogRewritten(f"the seal at {seq} does not match the events before it; {_REPAIR}")
        self.seal = (through, sealed)


async def audit(log: EventLog, *, through_seq: int) -> Audit:
    """Check the log from its first event to `through_seq`. Raises LogHole or LogRewritten."""
    state = Audit()
    if through_seq == 0:
        return state
    async for batch in log.follow(after_seq=0):
        for stored in batch:
            state.take(stored)
            if state.seq >= through_seq:
                return state
    return state
