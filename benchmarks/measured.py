"""What a measurement is, and the page that keeps them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One figure beside the bound it is held to.

    Attributes:
        value, bound: in the same unit; None where there is no bound.
        at_least: whether the bound is a floor instead of a ceiling.
        detail: the parts the figure is made of.
    """

    name: str
    value: float
    unit: str
    bound: float | None = None
    at_least: bool = False
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def row(self) -> str:
        """The figure as a line of a Markdown table."""
        sign = "≥" if self.at_least else "≤"
        bound = "" if self.bound is None else f"{sign} {self.bound:.3g}"
        verdict = "" if self.bound is None else ("holds" if self.holds else "**does not hold**")
        return f"| {self.name} | {self.value:.3g} {self.unit} | {bound} | {verdict} | {self.detail} |"


def page(figures: Sequence[Measured], *, command: str) -> str:
    """The results as a page: figures, command, commit, machine."""
    rows = "\n".join(figure.row() for figure in figures)
    return (
        "# Measurements\n\nRatios are between two things measured side by side in the same run.\n\n"
        f"| figure | value | bound | | made of |\n|---|---|---|---|---|\n{rows}\n\n"
        f"Command: `{command}`. Commit: `{_commit()}`. {_machine()} {datetime.now(UTC):%Y-%m-%d}.\n"
    )


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _machine() -> str:
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    load = os.getloadavg()[0]
    return (
        f"Machine: {os.cpu_count()} cores, {memory_gb:.0f} GB, Linux {platform.release()}, "
        f"Python {sys.version.split()[0]}, load {load:.1f} at the end."
    )


def fdatasync_ms(folder: Path, *, times: int = 50) -> float:
    """Median milliseconds of one small append and fdatasync here, as the log does it."""
    import time

    path, taken = folder / "sync-probe", []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(times):
            started = time.perf_counter()
            os.write(descriptor, b"x" * 1024)
            os.fdatasync(descriptor)
            taken.append((time.perf_counter() - started) * 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(taken)[times // 2]
