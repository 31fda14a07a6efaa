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
    answers = await asyncio.gather(*(ask(probe) for _, probe in wanted))
    for (name, _), trouble in zip(wanted, answers, strict=True):
        if trouble is not None:
            raise DependencyDown(name, f"{name} does not answer: {trouble}")


async def ask(probe: Probe) -> str | None:
    """What is wrong with a service, in words; None when it gives a sign of life within PATIENCE_S."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await probe()
    except TimeoutError:
        return f"no answer within {PATIENCE_S:g} s"
    except (
        Exception
    ) as error:  # whatever a probe meets, it is the service's state and not the request's fault
        return f"{type(error).__name__}: {error}"
