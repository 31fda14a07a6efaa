"""Ending background tasks."""

from __future__ import annotations

import asyncio
from typing import Any

AGAIN_S = 1.0
"""How long a cancelled task has for its cleaning up before it is asked again."""


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until each has ended, however it does; ask again those that did not hear.

    Asking once is not enough: `asyncio.wait_for` before Python 3.12 swallows a cancellation that comes in
    the moment its result does, and client libraries wait like that in every request.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        done, pending = await asyncio.wait(pending, timeout=AGAIN_S)
        for task in done:
            if not task.cancelled():
                task.exception()  # seen: whoever ends a task has no use for its outcome
