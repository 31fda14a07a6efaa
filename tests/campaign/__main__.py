"""`make campaign`: many seeds, what was hit, a verdict. Exits with 1 when anything does not hold."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.campaign.drive import REPOSITORY
from tests.campaign.plan import POINTS
from tests.campaign.seed import Outcome, run_seed

RESULTS = Path(__file__).with_name("results.md")


def main() -> int:
    """Run the campaign; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds (default 20)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--minutes", type=float, help="begin no seed after so many minutes")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time (default 1)")
    parser.add_argument("--keep", action="store_true", help="keep every seed's directory, not only bad ones")
    parser.add_argument("--write", action="store_true", help=f"write the outcome to {RESULTS.name}")
    arguments = parser.parse_args()
    outcomes = asyncio.run(_campaign(arguments))
    report = report_of(outcomes)
    print(report)
    if arguments.write:
        RESULTS.write_text(f"# The kill campaign\n\n{_circumstances()}\n\n{report}", encoding="utf-8")
    return 0 if verdict(outcomes) else 1


async def _campaign(arguments: argparse.Namespace) -> list[Outcome]:
    """Run the seeds, some at a time; their outcomes in order."""
    began = time.monotonic()
    seeds = iter(range(arguments.first, arguments.first + arguments.seeds))
    outcomes: list[Outcome] = []

    async def work() -> None:
        for seed in seeds:
            if arguments.minutes is not None and time.monotonic() - began > 60 * arguments.minutes:
                return
            outcomes.append(await _one(seed, keep=arguments.keep))

    await asyncio.gather(*(work() for _ in range(arguments.jobs)))
    return sorted(outcomes, key=lambda outcome: outcome.seed)


async def _one(seed: int, *, keep: bool) -> Outcome:
    """Run a seed in a directory of its own, which stays if anything does not hold."""
    folder = Path(tempfile.mkdtemp(prefix=f"loreline-campaign-{seed}-"))
    outcome = await run_seed(seed, folder)
    words = "holds" if not outcome.problems else "DOES NOT HOLD"
    print(f"seed {seed}: {words} after {outcome.seconds:.0f} s; {outcome.hits.total()} kills", flush=True)
    for problem in outcome.problems:
        print(f"  {problem}", flush=True)
    if outcome.problems or keep:
        print(f"  its directory: {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return outcome


def verdict(outcomes: Sequence[Outcome]) -> bool:
    """Whether all holds and every point was hit."""
    hits = sum((outcome.hits for outcome in outcomes), Counter[str]())
    return all(hits[point] for point in POINTS) and not any(outcome.problems for outcome in outcomes)


def report_of(outcomes: Sequence[Outcome]) -> str:
    """Hits a point, then a line a seed, as Markdown."""
    hits = sum((outcome.hits for outcome in outcomes), Counter[str]())
    missed = sum((outcome.missed for outcome in outcomes), Counter[str]())
    lines = ["| point | kills | not reached |", "|---|---:|---:|"]
    lines += [f"| {point} | {hits[point]} | {missed[point]} |" for point in POINTS]
    lines += [f"| all | {hits.total()} | {missed.total()} |", ""]
    names = list(outcomes[0].facts) if outcomes else []
    lines += [
        f"| seed | kills | {' | '.join(names)} | seconds | verdict |",
        "|---:" * (len(names) + 3) + "|---|",
    ]
    for outcome in outcomes:
        facts = " | ".join(f"{outcome.facts.get(name, 0):.3g}" for name in names)
        words = "holds" if not outcome.problems else f"{len(outcome.problems)} problems"
        lines.append(
            f"| {outcome.seed} | {outcome.hits.total()} | {facts} | {outcome.seconds:.0f} | {words} |"
        )
    held = "Everything holds." if verdict(outcomes) else "Not everything holds."
    return "\n".join([*lines, "", held, ""])


def _circumstances() -> str:
    """The command, the commit and the machine."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    machine = f"{os.cpu_count()} cores, {memory_gb:.0f} GB, Linux {platform.release()}"
    command = " ".join(["python -m tests.campaign", *sys.argv[1:]])
    return f"`{command}` at {commit}; {machine}, Python {platform.python_version()}."


if __name__ == "__main__":
    sys.exit(main())
