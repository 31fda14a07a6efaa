"""The core of every process: the connection to the log, keys, blobs, refs, and the one appender."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import nats
import nats.errors
from nats.aio.client import Client

from loreline.embedded.directory import DataDirectory
from loreline.events.append import Appender, Publisher
from loreline.events.audit import audit
from loreline.events.blobs import FileBlobs, SealedBlobs
from loreline.events.bootstrap import ensure_stream
from loreline.events.desk import ConsumerDesk
from loreline.events.envelope import Codec
from loreline.events.folds.app import SETTINGS_FOLD
from loreline.events.group_commit import GroupCommitter
from loreline.events.highwater import HighWater, check_log
from loreline.events.jetstream import JetStreamLog
from loreline.events.keys import SqliteKeys
from loreline.events.live import NatsLive
from loreline.events.refs import Recordings, SqliteRefs
from loreline.events.topology import live_stream, lore_stream
from loreline.events.watch import Damage, WatchedLog
from loreline.schemas.errors import DependencyDown, InputError
from loreline.schemas.ids import APP_OWNER, SETTINGS
from loreline.schemas.ports import BlobStore
from loreline.schemas.settings import Settings, resolve
from loreline.wiring.hooks import HookedBlobs, HookedPublisher, Hooks

_log = logging.getLogger(__name__)

AUDIT_AT_START = 20_000
"""A log up to this length is read whole before anything is served; a longer one while serving."""


@dataclass
class Core:
    """What every part of a process shares."""

    nats: Client
    log: JetStreamLog
    keys: SqliteKeys
    blobs: SealedBlobs
    recordings: Recordings
    codec: Codec
    appender: Appender
    live: NatsLive
    high_water: HighWater
    damage: Damage
    watch: WatchedLog
    knobs: Mapping[str, str]

    async def settings(self) -> Settings:
        """The settings now: environment, then the log's overrides."""
        overrides = await self.appender.state(SETTINGS, SETTINGS_FOLD)
        return resolve(self.knobs, overrides)


def now() -> datetime:
    """The present, UTC."""
    return datetime.now(UTC)


async def connect(url: str) -> Client:
    """A connection that comes back for ever. Raises DependencyDown if there is no server at all."""

    async def quiet(error: Exception) -> None:
        _log.debug("nats: %s", error)

    try:
        return await nats.connect(
            url, max_reconnect_attempts=-1, reconnect_time_wait=0.25, error_cb=quiet, allow_reconnect=True
        )
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise DependencyDown("nats", f"nats does not answer: {error}") from error


async def bootstrap_streams(admin_url: str, *, max_bytes: int) -> None:
    """Make the streams what the topology says, by the admin, who then leaves."""
    admin = await connect(admin_url)
    try:
        await ensure_stream(admin, lore_stream(max_bytes=max_bytes))
        await ensure_stream(admin, live_stream())
    finally:
        await admin.close()


async def open_core(
    stack: AsyncExitStack, url: str, directory: DataDirectory, knobs: Mapping[str, str], hooks: Hooks
) -> Core:
    """Open everything; what is opened is closed with `stack`.

    Raises LogHole, LogRolledBack or LogRewritten when the log is not the one that was acknowledged.
    """
    connection = await connect(url)
    stack.push_async_callback(_close, connection)
    log = JetStreamLog(connection)
    high_water = HighWater(directory.path / "highwater")
    stack.callback(high_water.close)
    await check_log(log, mark=high_water.mark, whose="the high-water mark of this data directory")
    keys = SqliteKeys(directory.keys / "keyring.sqlite3")
    stack.callback(keys.close)
    await asyncio.to_thread(keys.ensure, [APP_OWNER])
    store: BlobStore = FileBlobs(directory.blobs)
    scratch: BlobStore = FileBlobs(directory.scratch, durable=False)
    if hooks.after_blob is not None:
        store = HookedBlobs(store, hooks.after_blob)
    blobs = SealedBlobs(store, keys)
    refs = SqliteRefs(directory.refs)
    stack.callback(refs.close)
    codec = Codec(keys)
    damage = Damage()
    watch = WatchedLog(
        GroupCommitter(log),
        log,
        damage,
        codec=codec,
        mark=lambda: high_water.mark,
        reconnects=lambda: int(connection.stats["reconnects"]),
    )
    publisher: Publisher = watch
    if hooks.after_append is not None:
        publisher = HookedPublisher(publisher, hooks.after_append)
    await ConsumerDesk(connection).open()
    appender = Appender(log, codec, keys, clock=now, publisher=publisher, on_append=high_water.record)
    return Core(
        nats=connection,
        log=log,
        keys=keys,
        blobs=blobs,
        recordings=Recordings(refs, blobs, keys, scratch=SealedBlobs(scratch, keys)),
        codec=codec,
        appender=appender,
        live=NatsLive(connection),
        high_water=high_water,
        damage=damage,
        watch=watch,
        knobs=knobs,
    )


async def audit_log(core: Core) -> Callable[[], Awaitable[None]] | None:
    """Check and open every event: now if the log is short, else by the returned function, while serving.

    Raises LogError for a damaged log, KeyMissing for lost keys, UnknownEvent for a newer program's log.
    """
    last_seq = (await core.log.info()).last_seq
    if last_seq <= AUDIT_AT_START:
        await audit(core.log, through_seq=last_seq, codec=core.codec)
        return None
    return core.watch.audit


async def keep_high_water(high_water: HighWater, *, every_s: float = 1.0) -> None:
    """Make the high-water mark durable once a second, for ever."""
    while True:
        await asyncio.sleep(every_s)
        await asyncio.to_thread(high_water.sync)


async def _close(connection: Client) -> None:
    with suppress(nats.errors.Error, TimeoutError, OSError):
        await connection.close()


def monotonic() -> float:
    """Seconds on a clock that never goes back."""
    return time.monotonic()


def corpus_folder(path: Path) -> Path:
    """A corpus folder, made if it is missing. Raises InputError when it is none and cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        os.listdir(path)
    except OSError as error:
        reason = (
            "it is a file" if isinstance(error, (FileExistsError, NotADirectoryError)) else error.strerror
        )
        raise InputError(
            "bad_corpus_folder", f"{path} cannot be the folder of a corpus: {reason}; name another"
        ) from error
    return path.resolve()
