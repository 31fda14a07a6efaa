"""Delays grow with failures in a row and start anew after a healthy time; a first start is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from loreline.embedded.supervise import Backoff, Supervisor
from loreline.schemas.errors import ServerEnded, ServerFailed


class ShakyServer:
    """A server whose first starts fail as told."""

    def __init__(self, name: str, failures: Sequence[Exception] = ()) -> None:
        self.name = name
        self.failures = list(failures)
        self.starts = 0
        self.is_up = False

    async def start(self) -> None:
        self.starts += 1
        if self.failures:
            raise self.failures.pop(0)
        self.is_up = True

    async def stop(self) -> None:
        self.is_up = False

    async def restart(self) -> None:
        await self.start()

    async def wait_exit(self) -> int:
        await asyncio.Event().wait()
        return 0


async def no_delay(_: float) -> None:
    return None


def test_the_first_restart_is_immediate_and_later_ones_wait_longer_up_to_a_limit() -> None:
    backoff = Backoff(first_s=1.0, factor=2.0, longest_s=5.0)
    assert [backoff.delay_s(failures) for failures in (1, 2, 3, 4, 5, 10_000)] == [
        0.0,
        1.0,
        2.0,
        4.0,
        5.0,
        5.0,
    ]


def test_a_healthy_time_starts_the_count_anew() -> None:
    backoff = Backoff(healthy_after_s=30.0)
    assert backoff.failures_after(7, uptime_s=1.0) == 8
    assert backoff.failures_after(7, uptime_s=30.0) == 1


async def test_a_server_that_is_killed_while_it_starts_is_started_again() -> None:
    shaky, sound = ShakyServer("shaky", [ServerEnded("killed")] * 2), ShakyServer("sound")
    supervisor = Supervisor([shaky, sound], sleep=no_delay)
    await supervisor.start()
    assert (shaky.is_up, sound.is_up, shaky.starts, sound.starts) == (True, True, 3, 1)
    await supervisor.stop()


@pytest.mark.parametrize(("error", "starts"), [(ServerEnded("no"), 3), (ServerFailed("no"), 1)])
async def test_a_server_that_cannot_start_is_given_up_and_the_others_are_stopped(
    error: ServerFailed, starts: int
) -> None:
    broken, sound = ShakyServer("broken", [error] * 9), ShakyServer("sound")
    supervisor = Supervisor([broken, sound], backoff=Backoff(start_tries=3), sleep=no_delay)
    with pytest.raises(ServerFailed, match="no"):
        await supervisor.start()
    assert (broken.starts, sound.is_up) == (starts, False)
