"""`up` on existing data, from the command to a healthy answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import httpx

from benchmarks.measured import Measured

PATIENCE_S = 60.0


async def startup(root: Path) -> list[Measured]:
    """Seconds from starting the process to `ok` from its health, second start of the same data."""
    environment = {**os.environ, "LORELINE_DATA": str(root / "data"), "LORELINE_DOCS": str(root / "docs")}
    first = await _until_healthy(root, environment)
    again = await _until_healthy(root, environment)
    detail = f"bundled embedder; first start of this data under this measurement {first:.1f} s"
    return [Measured("`up` on existing data to healthy", again, "s", 10, detail=detail)]


async def _until_healthy(root: Path, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-m", "loreline", "up", "--no-ingest"]
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(trust_env=False) as http:
            while not await _healthy(http, root / "data" / "runtime.json"):
                await asyncio.sleep(0.05)
        return time.perf_counter() - started
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _healthy(http: httpx.AsyncClient, runtime: Path) -> bool:
    try:
        url = json.loads(runtime.read_text(encoding="utf-8"))["url"]
        return bool((await http.get(f"{url}/api/health")).json()["ok"])
    except (OSError, ValueError, KeyError, httpx.HTTPError):
        return False
