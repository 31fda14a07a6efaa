"""A whole stack for a test: real servers, hash vectors, a corpus and data directory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from loreline.cli.attach import Attached, attached_to
from loreline.processors.delivery import RetryPolicy
from loreline.processors.models import EmbedderSettings
from loreline.wiring.environment import Config
from loreline.wiring.hooks import Hooks
from loreline.wiring.stack import Stack, running

QUICK = RetryPolicy(ack_wait_s=5.0, backoff_s=0.05, max_backoff_s=0.5, probe_s=0.05)


def config_for(root: Path, **changes: object) -> Config:
    """A configuration under `root`: hash vectors, so that nothing waits for a model."""
    config = Config(
        data=root / "data",
        docs=root / "docs",
        graph_docs=root / "graph-docs",
        embedder=EmbedderSettings(backend="hash"),
        retry=QUICK,
    )
    return replace(config, **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def stack_at(
    root: Path,
    *,
    files: Mapping[str, str | bytes] | None = None,
    hooks: Hooks | None = None,
    **changes: object,
) -> AsyncIterator[tuple[Stack, Attached]]:
    """A running stack and a client of it; `files` are put into its corpus first."""
    write(root / "docs", files or {})
    async with running(config_for(root, **changes), hooks=hooks) as stack, attached_to(stack.url) as client:
        yield stack, client


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Put files into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


async def ingest(client: Attached, **body: bool) -> dict[str, object]:
    """Run an ingest to its end; returns the run."""
    await client.post("/api/ingest", body)
    run: dict[str, object] = {}
    async for sent in client.stream("GET", "/api/ingest/status"):
        if sent.event == "status":
            run = sent.data["run"]
    return run
