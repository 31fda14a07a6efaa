"""Preflight: refuse before anything is written, when a service the work needs does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from loreline.http_edge.ports import Edge, Probe
from loreline.schemas.errors import DependencyDown

PATIENCE_S = 3.0


async def require(edge: Edge, services: Iterable[str]) -> None:
    """Raises DependencyDown naming the first of the configured services that does not answer."""
    wanted = [(name, edge.probes[name]) for name in services if name in edge.probes]
    answers = await asyncio.gather(*(_ask(probe) for _, probe in wanted))
    for (name, _), trouble in zip(wanted, answers, strict=True):
        if trouble is not None:
            raise DependencyDown(name, f"{name} does not answer: {trouble}")


async def _ask(probe: Probe) -> str | None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await probe()
    except TimeoutError:
        return f"no answer within {PATIENCE_S:g} s"
