"""Chat engines by name: how a question and its history become a search query."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

from loreline.events.folds.conversation import Turn

Engine = Callable[[str, Sequence[Turn]], Awaitable[str | None]]
"""From the question and the answered turns to a standalone query; None to search for the question itself."""


async def simple(question: str, history: Sequence[Turn]) -> str | None:
    """Search for the question as it was asked."""
    return None


ENGINES: Mapping[str, Engine] = MappingProxyType({"simple": simple})
"""Every engine CHAT_ENGINE can name."""
