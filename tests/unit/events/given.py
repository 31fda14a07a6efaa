"""A log in memory with some events in it."""

from __future__ import annotations

from uuid import uuid4

from tests.conftest import now
from tests.contracts.test_log import conversation, titled

from loreline.events.append import Appender
from loreline.events.envelope import Codec
from loreline.events.keys import MemoryKeys
from loreline.events.memory import MemoryLog


async def filled(count: int, *, keys: MemoryKeys | None = None) -> tuple[MemoryLog, Appender]:
    """A log of `count` events of three conversations, and an appender to it."""
    log, keys = MemoryLog(), keys or MemoryKeys()
    appender = Appender(log, Codec(keys), keys, clock=now)
    aggregates = [conversation() for _ in range(3)]
    for index in range(count):
        await appender.execute(titled(aggregates[index % 3], f"title {index}", key=uuid4()))
    return log, appender
