"""The loop that feeds a view: check the log, follow it, apply batches, heal, and say where it stands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Literal

from loreline.events.envelope import Codec, StoredWire
from loreline.events.highwater import check_log
from loreline.events.log import EventLog
from loreline.projectors.view import Checkpoint, View, ViewSetBack
from loreline.schemas.errors import DependencyDown, LogError, LorelineError

_log = logging.getLogger(__name__)

RunnerState = Literal["starting", "running", "waiting", "halted", "stopped"]


class ViewRunner:
    """Feeds one view until cancelled or halted.

    on_damage: told of the LogError that stops the view.

    Attributes:
        state: `waiting` while a dependency is down, `halted` for good with `reason`.
        at: the checkpoint.
    """

    def __init__(
        self,
        view: View,
        log: EventLog,
        codec: Codec,
        *,
        retry_s: float = 0.5,
        max_batch: int = 1000,
        on_damage: Callable[[LogError], None] = lambda _: None,
    ) -> None:
        self.view = view
        self.state: RunnerState = "starting"
        self.reason: str | None = None
        self.at = Checkpoint()
        self._log = log
        self._codec = codec
        self._retry_s = retry_s
        self._max_batch = max_batch
        self._on_damage = on_damage
        self._moved = asyncio.Condition()

    async def run(self) -> None:
        """Feed the view for ever; returns only when halted."""
        while True:
            try:
                await self._feed()
            except (DependencyDown, ViewSetBack) as error:
                self.state, self.reason = "waiting", str(error)
                await asyncio.sleep(self._retry_s)
            except LorelineError as error:
                _log.error("view %s halts: %s", self.view.name, error)
                if isinstance(error, LogError):
                    self._on_damage(error)
                await self._halt(str(error))
                return
            except Exception as error:
                _log.exception("view %s halts", self.view.name)
                await self._halt(f"{type(error).__name__}: {error}")
                return

    async def run_to(self, seq: int) -> Checkpoint:
        """Feed the view until it contains `seq`; errors are the caller's, a damaged log is told of."""
        try:
            return await self._run_to(seq)
        except LogError as error:
            self._on_damage(error)
            raise

    async def _run_to(self, seq: int) -> Checkpoint:
        await self.view.open()
        self.at = await self.view.checkpoint()
        if self.at.seq < seq:
            async with aclosing(self._log.follow(after_seq=self.at.seq)) as batches:
                async for batch in batches:
                    await self._take([each for each in batch if each.seq <= seq])
                    if self.at.seq >= seq:
                        break
        await self.view.flush()
        return self.at

    async def wait(self, seq: int, *, timeout_s: float) -> bool:
        """Whether the view contains `seq` within the time; at once when nobody feeds it any more."""
        try:
            async with asyncio.timeout(timeout_s), self._moved:
                await self._moved.wait_for(lambda: self.at.seq >= seq or self.state in {"halted", "stopped"})
        except TimeoutError:
            return False
        return self.at.seq >= seq

    async def check(self) -> None:
        """Check that the log is the one the view was made from. Raises LogError, DependencyDown."""
        await self.view.open()
        await self._set(await self.view.checkpoint())
        name = f"the checkpoint of the view {self.view.name}"
        await check_log(self._log, mark=(self.at.seq, self.at.event_id), whose=name)

    async def _feed(self) -> None:
        await self.check()
        consumer = f"view-{self.view.name}-{self.view.version}"
        async with aclosing(self._log.follow(after_seq=self.at.seq, name=consumer)) as batches:
            is_idle = False
            async for batch in batches:
                if is_idle and not batch:
                    await self.view.flush()
                    await self._check_store()
                is_idle = not batch
                self.state, self.reason = "running", None
                for start in range(0, len(batch), self._max_batch):
                    await self._take(batch[start : start + self._max_batch])

    async def _check_store(self) -> None:
        """Raises ViewSetBack when the store no longer holds what it was given."""
        held = await self.view.checkpoint()
        if held.seq < self.at.seq:
            raise ViewSetBack(f"the view {self.view.name} lost what came after {held.seq}")

    async def _take(self, batch: list[StoredWire]) -> None:
        if batch:
            events = [self._codec.decode(each) for each in batch]
            applying = asyncio.ensure_future(self.view.apply(events, after=self.at))
            try:
                await self._set(await asyncio.shield(applying))
            except asyncio.CancelledError:
                with suppress(Exception):  # whoever feeds the view next must find it at rest
                    await applying
                raise

    async def _set(self, checkpoint: Checkpoint) -> None:
        async with self._moved:
            self.at = checkpoint
            self._moved.notify_all()

    async def stop(self) -> None:
        """Note that nobody feeds the view through this runner any more, unless it halted before."""
        async with self._moved:
            if self.state != "halted":
                self.state = "stopped"
            self._moved.notify_all()

    async def _halt(self, reason: str) -> None:
        async with self._moved:
            self.state, self.reason = "halted", reason
            self._moved.notify_all()
