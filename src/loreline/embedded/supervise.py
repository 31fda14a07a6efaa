"""Keep servers up: one that ends by itself is started again, after a delay that grows with its failures."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from loreline.events.tasks import end
from loreline.schemas.errors import ServerEnded, ServerFailed

_log = logging.getLogger("loreline.embedded")


class Server(Protocol):
    """What can be supervised."""

    @property
    def name(self) -> str:
        """What logs and health call it."""

    async def start(self) -> None:
        """Start it and wait until it is ready; ServerFailed if it does not come."""

    async def stop(self) -> None:
        """Stop it; nothing to do if it does not run."""

    async def restart(self) -> None:
        """Start it again on the same port; ServerFailed if it does not come."""

    async def wait_exit(self) -> int:
        """Return its exit code once it ends by itself."""


@dataclass(frozen=True)
class Backoff:
    """How long to wait before a restart.

    Attributes:
        start_tries: how often a server is started that ends while it is starting for the first time.
        first_s: delay before the second attempt in a row; the first one is immediate.
        factor: growth of the delay with each further failure.
        longest_s: no delay is longer.
        healthy_after_s: a server that stayed up this long starts the count anew.
    """

    start_tries: int = 4
    first_s: float = 0.2
    factor: float = 2.0
    longest_s: float = 10.0
    healthy_after_s: float = 30.0

    def delay_s(self, failures: int) -> float:
        """Return the delay before the restart that follows the n-th failure in a row, n from 1."""
        if failures <= 1:
            return 0.0
        # The exponent is capped so that a night of failures does not overflow.
        return min(self.longest_s, self.first_s * self.factor ** min(failures - 2, 64))

    def failures_after(self, failures: int, *, uptime_s: float) -> int:
        """Return the failures in a row once a server that had `failures` ended after `uptime_s`."""
        return 1 if uptime_s >= self.healthy_after_s else failures + 1


class Supervisor:
    """Starts servers together, restarts the ones that end by themselves, stops them in reverse order."""

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        backoff: Backoff | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_exit: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Describe the set; nothing is started.

        Args:
            servers: in the order in which they are stopped, last first.
            backoff: the delays.
            clock_s: a monotonic clock in seconds.
            sleep: waits for so many seconds.
            on_exit: told the name of a server that ended by itself, before it is started again.
        """
        self._servers = list(servers)
        self._backoff = backoff or Backoff()
        self._clock_s = clock_s
        self._sleep = sleep
        self._on_exit = on_exit
        self._watchers: list[asyncio.Task[None]] = []
        self._restarts = dict.fromkeys((server.name for server in servers), 0)

    @property
    def restarts(self) -> dict[str, int]:
        """How often each server came back, by name."""
        return dict(self._restarts)

    async def start(self) -> None:
        """Start all servers at once and watch them.

        Raises:
            ServerFailed: one did not start, or ended at each of its starts; the others are stopped again, as
                when the call is cancelled.
        """
        starting = asyncio.gather(*map(self._start_one, self._servers), return_exceptions=True)
        try:
            outcomes = await starting
        except asyncio.CancelledError:
            await self.stop()
            raise
        failed = next((outcome for outcome in outcomes if isinstance(outcome, BaseException)), None)
        if failed is not None:
            await self.stop()
            raise failed
        self._watchers = [asyncio.create_task(self._keep_up(server)) for server in self._servers]

    async def _start_one(self, server: Server) -> None:
        """Start a server; one whose process ends meanwhile, as by a kill, gets other chances."""
        failures = 0
        while True:
            try:
                await server.start()
            except ServerEnded as error:
                failures += 1
                if failures == self._backoff.start_tries:
                    raise
                _log.warning("%s ended at its start (attempt %d): %s", server.name, failures, error)
                await self._sleep(self._backoff.delay_s(failures))
            else:
                return

    async def stop(self) -> None:
        """Stop watching, then the servers, last one first. Every one is stopped even if another fails to."""
        watchers, self._watchers = self._watchers, []
        await end(*watchers)
        errors: list[Exception] = []
        for server in reversed(self._servers):
            try:
                await server.stop()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _keep_up(self, server: Server) -> None:
        failures = 0
        while True:
            since_s = self._clock_s()
            code = await server.wait_exit()
            self._on_exit(server.name)
            failures = self._backoff.failures_after(failures, uptime_s=self._clock_s() - since_s)
            _log.warning("%s ended by itself (code %d); starting it again", server.name, code)
            failures = await self._bring_back(server, failures)
            self._restarts[server.name] += 1
            _log.info("%s is back", server.name)

    async def _bring_back(self, server: Server, failures: int) -> int:
        while True:
            await self._sleep(self._backoff.delay_s(failures))
            try:
                await server.restart()
            except (ServerFailed, OSError) as error:
                failures += 1
                _log.error("%s does not come back (attempt %d): %s", server.name, failures, error)
            else:
                return failures
