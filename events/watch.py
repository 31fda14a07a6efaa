"""The watch on the log while it is in use: after a reconnect it must still be the one we wrote.

A server may come back on an older or a damaged store. Nothing may be appended to it, or served from it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from loreline.events.append import Publisher
from loreline.events.audit import audit
from loreline.events.envelope import Codec
from loreline.events.highwater import check_log
from loreline.events.log import EventLog, Group
from loreline.schemas.errors import DependencyDown, KeyMissing, LogError, UnknownEvent

_log = logging.getLogger(__name__)


class Damage:
    """The first fault found in the log; while there is one, nothing is served or appended as if whole.

    Attributes:
        error: the fault, None while the log is sound.
    """

    def __init__(self) -> None:
        self.error: LogError | None = None
        self._noted = asyncio.Event()

    def note(self, error: LogError) -> None:
        """Remember the fault, if it is the first."""
        if self.error is None:
            _log.critical("the log is damaged: %s", error)
            self.error = error
            self._noted.set()

    async def wait(self) -> LogError:
        """The fault, once there is one."""
        await self._noted.wait()
        assert self.error is not None
        return self.error


class WatchedLog:
    """A publisher that checks the log against the high-water mark after every reconnect.

    codec: opens the events that the audit after a reconnect reads.
    mark: the high-water mark.
    reconnects: how often the connection came back so far.
    """

    def __init__(
        self,
        publisher: Publisher,
        log: EventLog,
        damage: Damage,
        *,
        codec: Codec,
        mark: Callable[[], tuple[int, str]],
        reconnects: Callable[[], int],
    ) -> None:
        self._publisher = publisher
        self._log = log
        self._damage = damage
        self._codec = codec
        self._mark = mark
        self._reconnects = reconnects
        self._checked = self._audited = reconnects()
        self._checking = asyncio.Lock()

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        """Append; see EventLog. Raises LogError, and appends nothing, once the log is known to be damaged."""
        await self.check()
        return await self._publisher.append(groups)

    async def check(self) -> None:
        """Check the log if the connection came back since the last time. Raises LogError, DependencyDown."""
        if self._reconnects() != self._checked:
            async with self._checking:
                reconnects = self._reconnects()
                if reconnects != self._checked:
                    await self._look()
                    self._checked = reconnects
        if self._damage.error is not None:
            raise self._damage.error

    async def run(self, *, every_s: float = 0.25) -> None:
        """Look for reconnects, and audit the log after each; returns only when it is damaged."""
        while self._damage.error is None:
            reconnects = self._reconnects()
            with suppress(LogError, DependencyDown):  # noted, or asked again in a moment
                await self.check()
                if reconnects != self._audited:
                    await self.audit()
                    self._audited = reconnects
            await asyncio.sleep(every_s)

    async def audit(self) -> None:
        """Read and check the whole log as it is now, and note what is wrong. Raises DependencyDown."""
        try:
            await audit(self._log, through_seq=(await self._log.info()).last_seq, codec=self._codec)
        except LogError as error:
            self._damage.note(error)
        except (KeyMissing, UnknownEvent) as error:
            _log.critical("the audit of the log stopped: %s", error)

    async def _look(self) -> None:
        try:
            await check_log(self._log, mark=self._mark(), whose="the high-water mark of this data directory")
        except LogError as error:
            self._damage.note(error)
