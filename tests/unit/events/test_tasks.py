"""A background task that is told to end does."""

from __future__ import annotations

import asyncio

import pytest

from loreline.events import tasks
from loreline.events.tasks import end


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)


async def test_a_task_that_did_not_hear_the_first_time_is_asked_again() -> None:
    heard = 0

    async def deaf() -> None:
        nonlocal heard
        while heard < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                heard += 1

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await asyncio.wait_for(end(task), 5)
    assert heard == 3


async def test_a_failed_task_is_no_failure_of_ending_it() -> None:
    async def fails() -> None:
        raise ValueError

    async def fails_late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError

    both = asyncio.create_task(fails()), asyncio.create_task(fails_late())
    await asyncio.sleep(0)
    await end(*both)
    assert all(task.done() for task in both)


async def test_nothing_to_end_is_nothing_to_wait_for() -> None:
    await end()
