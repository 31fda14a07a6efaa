"""`make bench`: every measurement, printed as it comes and kept in benchmarks/results.md."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks.measured import Measured, page
from benchmarks.overhead import overhead
from benchmarks.rebuild import rebuild
from benchmarks.retrieval import hybrid
from benchmarks.startup import startup

RESULTS = Path(__file__).with_name("results.md")

Benchmark = Callable[[Path], Awaitable[list[Measured]]]

BENCHMARKS: dict[str, Benchmark] = {
    "overhead-hash": lambda root: overhead(root, "hash", n_files=400),
    "overhead-bundled": lambda root: overhead(root, "bundled", n_files=60),
    "rebuild-hash": lambda root: rebuild(root, "hash", n_files=800, n_words=1000),
    "rebuild-bundled": lambda root: rebuild(root, "bundled", n_files=60, n_words=800),
    "retrieval-hash": lambda root: hybrid(root, "hash", n_files=300, n_words=1000),
    "retrieval-bundled": lambda root: hybrid(root, "bundled", n_files=40, n_words=800),
    "startup": lambda root: _startup(root),
}


async def _startup(root: Path) -> list[Measured]:
    await rebuild(root, "bundled", n_files=20, n_words=300)  # data to start on
    return await startup(root)


async def run(names: Sequence[str]) -> list[Measured]:
    """The named measurements, each in a folder of its own."""
    figures: list[Measured] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="loreline-bench-") as folder:
            for figure in await BENCHMARKS[name](Path(folder)):
                print(figure.row(), flush=True)
                figures.append(figure)
    return figures


def main() -> None:
    """Measure; `--keep` writes the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("names", nargs="*", help=f"which: {', '.join(BENCHMARKS)} (default all)")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; choose from {', '.join(BENCHMARKS)}")
    figures = asyncio.run(run(arguments.names or list(BENCHMARKS)))
    if arguments.keep:
        RESULTS.write_text(page(figures, command="make bench"), encoding="utf-8")


if __name__ == "__main__":
    main()
