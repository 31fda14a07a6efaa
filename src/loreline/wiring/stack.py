"""The whole stack in one process, on the embedded servers: what `loreline up` runs."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loreline.embedded.directory import DataDirectory, read_runtime
from loreline.embedded.nats import EmbeddedNats
from loreline.embedded.postgres import EmbeddedPostgres
from loreline.embedded.runtime import Runtime
from loreline.embedded.supervise import Supervisor
from loreline.events.tasks import end
from loreline.events.topology import ADMIN, APP
from loreline.http_edge.app import create_app
from loreline.http_edge.ports import Edge
from loreline.http_edge.server import EdgeServer
from loreline.http_edge.unfinished import finish_corpus
from loreline.processors.app import ProcessorApp
from loreline.processors.delivery import Gate
from loreline.processors.ingest.runs import RunsReactor
from loreline.processors.sealer import Sealer
from loreline.projectors.host import ViewHost
from loreline.schemas.errors import DataDirectoryBusy, LogError
from loreline.wiring.accounts import nats_users
from loreline.wiring.core import (
    Core,
    audit_log,
    bootstrap_streams,
    corpus_folder,
    keep_high_water,
    now,
    open_core,
)
from loreline.wiring.edging import build_edge
from loreline.wiring.environment import Config
from loreline.wiring.hooks import Hooks
from loreline.wiring.models import Models, open_models
from loreline.wiring.processing import build_app, ensure_profile, probes
from loreline.wiring.views import Views, open_views

_log = logging.getLogger(__name__)

STOP_PATIENCE_S = 30.0
"""How long a start waits for the stack that is just stopping on the same data."""


@dataclass
class Stack:
    """A running stack.

    Attributes:
        url: where the edge answers.
        failed: set when a part ended that must not end.
    """

    url: str
    core: Core
    models: Models
    views: Views
    host: ViewHost
    servers: tuple[EmbeddedNats, EmbeddedPostgres]
    processors: ProcessorApp
    failed: asyncio.Event


@asynccontextmanager
async def running(config: Config, *, hooks: Hooks | None = None) -> AsyncIterator[Stack]:
    """Start everything, and stop it in the opposite order.

    Raises DataDirectoryBusy, DataDirectoryUnreadable, ServerFailed, and LogError for a damaged log.
    """
    hooks = hooks or Hooks()
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(await _open_directory(config.data))
        directory.write_runtime(Runtime(os.getpid()))
        docs, graph_docs = corpus_folder(config.docs), corpus_folder(config.graph_docs)
        _log.info("corpora: %s, %s", docs, graph_docs)
        lost = asyncio.Event()
        servers = await _start_servers(stack, directory, lost)
        await bootstrap_streams(servers[0].url(ADMIN), max_bytes=config.log_max_bytes)
        core = await open_core(stack, servers[0].url(APP), directory, config.knobs, hooks)
        auditing = await audit_log(core)
        models = await open_models(stack, config)
        await ensure_profile(core, models)
        views = await open_views(stack, core, servers[1].conninfo, directory, corpus_root=docs, hooks=hooks)
        host = ViewHost(core.log, core.codec, views.stores, on_damage=core.damage.note)
        await host.start()
        stack.push_async_callback(host.stop)
        gate = Gate(probes(models, views), config.retry)
        edge = build_edge(core, models, views, host, docs=docs, gate=gate)
        await finish_corpus(edge)
        processors = build_app(
            core,
            models,
            views,
            host,
            config,
            url=servers[0].url(APP),
            corpus_root=docs,
            hooks=hooks,
            gate=gate,
        )
        await processors.start()
        stack.push_async_callback(processors.stop)
        failed = asyncio.Event()
        await _start_tasks(stack, core, processors, auditing, failed)
        await _start_watching(stack, host, lost)
        url = await _serve(stack, edge, config)
        ports = {"nats": servers[0].port, "postgres": servers[1].port}
        directory.write_runtime(_runtime(url, ports, servers[1]))
        stack.callback(directory.forget_runtime)
        yield Stack(url, core, models, views, host, servers, processors, failed)


async def _open_directory(path: Path) -> DataDirectory:
    """Open the data directory; one whose stack is just stopping is waited for."""
    deadline = time.monotonic() + STOP_PATIENCE_S
    while True:
        try:
            return DataDirectory.open(path)
        except DataDirectoryBusy:
            # Who stops says no longer that it runs, and goes on holding the lock until its servers ended.
            if read_runtime(path) is not None or time.monotonic() > deadline:
                raise
        await asyncio.sleep(0.05)


def _runtime(url: str, ports: Mapping[str, int], postgres: EmbeddedPostgres) -> Runtime:
    return Runtime(
        pid=os.getpid(),
        url=url,
        ports=dict(ports),
        postgres_directory=str(postgres.elsewhere) if postgres.elsewhere else None,
    )


async def _start_servers(
    stack: AsyncExitStack, directory: DataDirectory, lost: asyncio.Event
) -> tuple[EmbeddedNats, EmbeddedPostgres]:
    secrets = directory.secrets()
    users, guests = nats_users(secrets)
    nats = EmbeddedNats(directory.nats, users=users, guests=guests, logs=directory.logs)
    postgres = EmbeddedPostgres(directory.postgres, password=secrets.postgres, logs=directory.logs)

    def note(name: str) -> None:
        if name == postgres.name:
            lost.set()

    supervisor = Supervisor([nats, postgres], on_exit=note)
    await supervisor.start()
    stack.push_async_callback(supervisor.stop)
    return nats, postgres


async def _start_tasks(
    stack: AsyncExitStack,
    core: Core,
    processors: ProcessorApp,
    auditing: Callable[[], Awaitable[None]] | None,
    failed: asyncio.Event,
) -> None:
    """What runs beside the stages: the runs reactor, the sealer, the high-water mark, the log's watch."""
    reactor = RunsReactor(core.log, core.codec, core.appender, core.blobs)
    sealer = Sealer(core.log, core.appender, clock=now)
    jobs = [reactor.run(), sealer.run(), keep_high_water(core.high_water)]
    tasks = [asyncio.create_task(job) for job in jobs]
    for task in tasks:
        task.add_done_callback(lambda done: _ended(done, core, failed))
    tasks += [asyncio.create_task(core.watch.run()), asyncio.create_task(_halt(core, processors))]
    if auditing is not None:
        tasks.append(asyncio.create_task(_awaited(auditing)))

    async def cancel() -> None:
        await end(*tasks)

    stack.push_async_callback(cancel)


async def _start_watching(stack: AsyncExitStack, host: ViewHost, lost: asyncio.Event) -> None:
    """Have the views read anew where they stand, each time PostgreSQL was lost."""

    async def watch() -> None:
        while True:
            await lost.wait()
            lost.clear()
            await host.reread()

    watching = asyncio.create_task(watch())
    stack.push_async_callback(end, watching)


async def _halt(core: Core, processors: ProcessorApp) -> None:
    """Stop the stages for good once the log is known to be damaged."""
    await core.damage.wait()
    await processors.stop()


async def _awaited(function: Callable[[], Awaitable[None]]) -> None:
    await function()


def _ended(task: asyncio.Task[Any], core: Core, failed: asyncio.Event) -> None:
    """A part that must run for ever ended: say why, and let the stack be stopped."""
    if task.cancelled():
        return
    error = task.exception()
    if isinstance(error, LogError):
        core.damage.note(error)
        return
    _log.critical("a part of the stack ended: %s", error or "without an error")
    failed.set()


async def _serve(stack: AsyncExitStack, edge: Edge, config: Config) -> str:
    server = EdgeServer(create_app(edge), host=config.host, port=config.port)
    url = await server.start()
    stack.push_async_callback(server.stop)
    return url
