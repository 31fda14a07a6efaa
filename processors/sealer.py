"""The sealer: every so many events it puts a digest of the whole log so far into the log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime, timedelta

from loreline.events.append import Appender, Command, Fold
from loreline.events.audit import EMPTY, roll
from loreline.events.envelope import digest_of
from loreline.events.log import EventLog
from loreline.schemas.errors import DependencyDown, LogFull
from loreline.schemas.events.app import LogSealed
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import LOG, NAMESPACE, derived_key
from loreline.schemas.ports import Clock

_log = logging.getLogger(__name__)

SEALED: Fold[int] = Fold(
    "sealed",
    0,
    lambda state, stored: (
        stored.event.payload.through_seq if isinstance(stored.event.payload, LogSealed) else state
    ),
)
"""The fold of the log's own aggregate: the sequence it is sealed through."""


class Sealer:
    """Seals every `every_events` events, or after `every` when at least one event came."""

    def __init__(
        self,
        log: EventLog,
        appender: Appender,
        *,
        clock: Clock,
        every_events: int = 1000,
        every: timedelta = timedelta(hours=1),
    ) -> None:
        self._log = log
        self._appender = appender
        self._clock = clock
        self._every_events = every_events
        self._every = every

    async def run(self) -> None:
        """Seal for ever."""
        while True:
            try:
                await self._seal_on()
            except (DependencyDown, LogFull) as error:
                _log.warning("the sealer waits: %s", error)
                await asyncio.sleep(1.0)

    async def _seal_on(self) -> None:
        seq, digest = await self._newest_seal()
        sealed_seq, sealed_at, n_others = seq, self._clock(), 0
        async with aclosing(self._log.follow(after_seq=seq)) as batches:
            async for batch in batches:
                for stored in batch:
                    seq, digest = stored.seq, roll(digest, digest_of(stored.wire))
                    n_others += stored.wire.headers.get("ce-type") != "log.sealed"
                    if seq - sealed_seq >= self._every_events and n_others:
                        await self._seal(seq, digest)
                        sealed_seq, sealed_at, n_others = seq, self._clock(), 0
                if n_others and self._is_due(sealed_at):
                    await self._seal(seq, digest)
                    sealed_seq, sealed_at, n_others = seq, self._clock(), 0

    def _is_due(self, sealed_at: datetime) -> bool:
        return self._clock() - sealed_at >= self._every

    async def _newest_seal(self) -> tuple[int, str]:
        stored = await self._log.last(LOG.subject("sealed"))
        if stored is None:
            return 0, EMPTY
        body = json.loads(stored.wire.body)
        return int(body["through_seq"]), str(body["digest"])

    async def _seal(self, seq: int, digest: str) -> None:
        def decide(state: int) -> Sequence[Payload]:
            return [LogSealed(through_seq=seq, digest=digest)] if seq > state else []

        key = derived_key(NAMESPACE, "seal", str(seq))
        await self._appender.execute(Command(LOG, SEALED, key, decide, actor="stage.sealer"))
