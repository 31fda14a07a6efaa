"""One seed: play its plan, then judge."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.check import compare_views, is_away, judge, observe
from tests.campaign.drive import Client, GaveUp, Killer, Oracle, Victim, act, client_of
from tests.campaign.plan import POINTS, plan
from tests.campaign.records import read_record


@dataclass
class Outcome:
    """What a seed came to.

    Attributes:
        hits: kills that happened, by point; `missed`: those whose point was not reached often enough.
        problems: what does not hold, in words; none when all is well.
        facts: counts that say how much was judged.
    """

    seed: int
    hits: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


async def run_seed(
    seed: int, folder: Path, *, points: Sequence[str] = POINTS, delay_s: float = 0.02
) -> Outcome:
    """Play a seed in `folder`, which must be new; nothing of it runs afterwards."""
    outcome, started = Outcome(seed), time.monotonic()
    oracle = Oracle(folder / "oracle", delay_s=delay_s)
    victim = Victim(folder / "stack", oracle.url)
    client = Client(victim, folder / "oracle" / "acknowledged.jsonl")
    try:
        await _play(outcome, client, Killer(victim), points)
        await _judge(outcome, oracle, client, folder)
        await victim.stop()
    except GaveUp as error:
        outcome.problems.append(str(error))
    finally:
        client.acknowledged.close()
        victim.kill_all()
        oracle.stop()
    outcome.problems += [*victim.problems, *client.problems]
    outcome.facts |= {
        "slowest start, s": max(victim.start_s, default=0.0),
        "servers outlived it, s": max(victim.gone_s, default=0.0),
    }
    outcome.seconds = time.monotonic() - started
    return outcome


async def _play(outcome: Outcome, client: Client, killer: Killer, points: Sequence[str]) -> None:
    chance = random.Random(outcome.seed)
    for number, scene in enumerate(plan(outcome.seed, points=points)):
        hit = await act(client, killer, number, scene, chance)
        (outcome.hits if hit else outcome.missed)[scene.kill.point] += 1


async def _judge(outcome: Outcome, oracle: Oracle, client: Client, folder: Path) -> None:
    """One more ingest to its end; look; then compare every view with a rebuild while no model answers."""
    await client.settle()
    await client.request("POST", "/api/ingest", key="last", ok=(202,), json={})
    await client.settle()
    async with client_of(await client.victim.url()) as attached:
        world = await observe(attached, root=folder / "stack", oracle=folder / "oracle")
        outcome.problems += await judge(attached, world)
        oracle.stop()
        if not await is_away(oracle.url):
            outcome.problems.append("the oracle still answers: the rebuild proves nothing")
        outcome.problems += await compare_views(attached)
    if len(read_record(oracle.calls)) < len(world.calls):
        outcome.problems.append("the oracle's log lost lines")
    outcome.facts |= {
        "acknowledged": len(world.acknowledged),
        "events": len(world.events),
        "calls": len(world.calls),
        "live chunks": sum(chunk.is_live for chunk in world.chunks),
    }
