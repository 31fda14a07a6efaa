"""The victim: the whole stack in a process that kills itself at an armed point.

    python -m tests.campaign.victim ROOT EMBEDDER_URL

`ROOT/arm.json` says where to die: {"kill": number, "point": hook, "nth": hit counted since it was armed}.
It may change at any time. The process also dies when its standard input ends, and stops on SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from loreline.embedded.files import write_private
from loreline.processors.delivery import RetryPolicy
from loreline.processors.models import EmbedderSettings
from loreline.wiring.environment import Config
from loreline.wiring.hooks import Hooks, Point
from loreline.wiring.stack import running
from tests.campaign.records import Record

RETRY = RetryPolicy(ack_wait_s=5.0, backoff_s=0.1, max_backoff_s=1.0, probe_s=0.1)
KNOBS = {"CHUNK_SIZE": "300", "CHUNK_OVERLAP": "40"}


class Trap:
    """Counts the hits of the armed point and kills the process at the one it is set to."""

    def __init__(self, root: Path) -> None:
        self._arm = root / "arm.json"
        self._kills = Record(root / "kills.jsonl")
        self._hits: Counter[int] = Counter()

    def at(self, point: str) -> Point:
        """The hook for a point."""

        async def hit() -> None:
            try:
                armed = json.loads(self._arm.read_text())
            except FileNotFoundError:
                return
            if armed["point"] != point:
                return
            self._hits[armed["kill"]] += 1
            if self._hits[armed["kill"]] == armed["nth"]:
                self._arm.unlink()  # the next life must not die of it
                self._kills.add(kill=armed["kill"], at=time.time())
                os.kill(os.getpid(), signal.SIGKILL)

        return hit


def config_of(root: Path, embedder_url: str) -> Config:
    """The victim's configuration."""
    return Config(
        data=root / "data",
        docs=root / "docs",
        graph_docs=root / "graph-docs",
        knobs=KNOBS,
        embedder=EmbedderSettings(backend="http", url=embedder_url, model="oracle"),
        retry=RETRY,
    )


def _die_with_parent() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock a thread must not hold when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    """Run the stack until told to stop."""
    root = Path(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for noisy in ("httpx", "httpcore", "faststream"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    trap = Trap(root)
    hooks = Hooks(
        after_blob=trap.at("after_blob"),
        after_append=trap.at("after_append"),
        before_ack=trap.at("before_ack"),
        in_projection=trap.at("in_projection"),
    )
    async with running(config_of(root, sys.argv[2]), hooks=hooks) as stack:
        write_private(root / "ready.json", json.dumps({"pid": os.getpid(), "url": stack.url}))
        failed = asyncio.create_task(stack.failed.wait())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({failed, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if failed.done() and not stopped.done():
            logging.critical("a part of the stack ended by itself")
            os._exit(70)
        failed.cancel()


if __name__ == "__main__":
    asyncio.run(main())
