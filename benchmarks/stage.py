"""The stack under measurement, and counting what it writes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from loreline.cli.attach import Attached, attached_to
from loreline.events.jetstream import JetStreamLog
from loreline.events.log import Group
from loreline.processors.models import EmbedderSettings
from loreline.processors.models.settings import EmbedderBackend
from loreline.wiring.environment import Config
from loreline.wiring.stack import Stack, running


@dataclass
class Writes:
    """Durable writes: appends acknowledged by the log (one fsync each), and fsyncs of blobs."""

    appends: int = 0
    events: int = 0
    blob_fsyncs: int = 0

    @property
    def fsyncs(self) -> int:
        """All of them."""
        return self.appends + self.blob_fsyncs


@asynccontextmanager
async def stack_on(root: Path, backend: EmbedderBackend) -> AsyncIterator[tuple[Stack, Attached]]:
    """A stack on `root/docs`, with a client."""
    config = Config(
        data=root / "data",
        docs=root / "docs",
        graph_docs=root / "graph-docs",
        embedder=EmbedderSettings(backend=backend),
    )
    async with running(config) as stack, attached_to(stack.url) as client:
        yield stack, client


async def ingest(client: Attached) -> dict[str, object]:
    """Run an ingest to its end."""
    await client.post("/api/ingest")
    run: dict[str, object] = {}
    async for sent in client.stream("GET", "/api/ingest/status"):
        if sent.event == "status":
            run = sent.data["run"]
    return run


@contextmanager
def counting() -> Iterator[Writes]:
    """Count durable writes of this process while the block runs."""
    writes = Writes()
    append, fsync = JetStreamLog.append, os.fsync

    async def counted(self: JetStreamLog, groups: Sequence[Group]) -> list[list[int]]:
        sequences = await append(self, groups)
        writes.appends += 1
        writes.events += sum(map(len, sequences))
        return sequences

    def synced(descriptor: int) -> None:
        writes.blob_fsyncs += 1
        fsync(descriptor)

    with (
        mock.patch.object(JetStreamLog, "append", counted),
        mock.patch.object(os, "fsync", synced),
    ):
        yield writes
