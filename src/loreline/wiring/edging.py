"""The edge with its ports: readers, probes, and what this stack can do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from loreline.http_edge.ports import Capabilities, Edge, Probe
from loreline.processors.chat.engines import ENGINES
from loreline.processors.chunkers import CHUNKERS
from loreline.processors.delivery import Gate
from loreline.processors.models import EMBEDDERS
from loreline.processors.retrieval import RETRIEVERS
from loreline.projectors.host import ViewHost
from loreline.schemas.errors import LorelineError
from loreline.wiring.core import Core, now
from loreline.wiring.models import Models
from loreline.wiring.views import Views


def build_edge(core: Core, models: Models, views: Views, host: ViewHost, *, docs: Path, gate: Gate) -> Edge:
    """The edge's world."""
    return Edge(
        log=core.log,
        codec=core.codec,
        appender=core.appender,
        keys=core.keys,
        blobs=core.blobs,
        live=core.live,
        host=host,
        documents=views.documents,
        conversations=views.conversations,
        settings=core.settings,
        probes=_probes(core, models, views),
        damage=lambda: core.damage.error,
        waits=lambda: gate.down,
        capabilities=Capabilities(
            retrievers=tuple(RETRIEVERS),
            chunkers=tuple(CHUNKERS),
            chat_engines=tuple(ENGINES),
            embedders=tuple(EMBEDDERS),
            answered_by="llm" if models.llm is not None else "extractive",
        ),
        corpus_root=docs,
        clock=now,
        new_id=uuid4,
    )


def _probes(core: Core, models: Models, views: Views) -> Mapping[str, Probe]:
    async def nats() -> str | None:
        await core.log.info()
        return None

    async def postgres() -> str | None:
        await views.database.fetch("SELECT 1")
        return None

    async def embedder() -> str | None:
        await models.embedder.probe()
        return None

    probes = {"nats": nats, "postgres": postgres, "embedder": embedder}
    if models.llm is not None:
        llm = models.llm

        async def model() -> str | None:
            await llm.probe()
            return None

        probes["llm"] = model
    return {name: _worded(probe) for name, probe in probes.items()}


def _worded(probe: Probe) -> Probe:
    """The probe, with what it raises as words."""

    async def ask() -> str | None:
        try:
            return await probe()
        except LorelineError as error:
            return str(error)

    return ask
