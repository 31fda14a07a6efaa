"""Points at which a caller of the wiring may step in: where a test kills the process, or counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from loreline.events.append import Publisher
from loreline.events.log import Group
from loreline.schemas.ports import BlobStore

Point = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Hooks:
    """One callable a point; None: nothing happens there.

    Attributes:
        after_blob: a blob is durable, and nothing names it yet.
        after_append: events are in the log, and their writer does not know yet.
        before_ack: a stage's work is in the log, and its event is not acknowledged yet.
        in_projection: a view's rows are written, and the transaction is not committed yet.
    """

    after_blob: Point | None = None
    after_append: Point | None = None
    before_ack: Point | None = None
    in_projection: Point | None = None


class HookedBlobs:
    """A blob store that calls a point after every put."""

    def __init__(self, store: BlobStore, after: Point) -> None:
        self._store = store
        self._after = after

    async def put(self, data: bytes) -> str:
        """Store `data` and return its address."""
        address = await self._store.put(data)
        await self._after()
        return address

    async def get(self, address: str) -> bytes:
        """The bytes."""
        return await self._store.get(address)

    async def has(self, address: str) -> bool:
        """Whether the address is held."""
        return await self._store.has(address)


class HookedPublisher:
    """A publisher that calls a point after every append."""

    def __init__(self, publisher: Publisher, after: Point) -> None:
        self._publisher = publisher
        self._after = after

    async def append(self, groups: Sequence[Group]) -> list[list[int]]:
        """Append, then call the point."""
        sequences = await self._publisher.append(groups)
        await self._after()
        return sequences
