"""Upcasters: what an older schema version of an event becomes today. Pure functions over dicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Upcast = Callable[[dict[str, Any]], dict[str, Any]]

UPCASTS: Mapping[tuple[str, int], Upcast] = MappingProxyType({})
"""(type, version) -> the function to version + 1. Empty while every type is at its first version."""


def upcast(
    event_type: str, version: int, body: dict[str, Any], *, table: Mapping[tuple[str, int], Upcast] = UPCASTS
) -> dict[str, Any]:
    """Carry a body from `version` to the newest one, a version at a time."""
    while (step := table.get((event_type, version))) is not None:
        body, version = step(body), version + 1
    return body
