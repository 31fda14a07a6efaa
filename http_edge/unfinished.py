"""What a stop left undone in the corpus folder after its event: uploads to write, deleted files to remove.

A file is touched only if it is the very content that was to go, and nobody wrote it after the event.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from pathlib import Path

from loreline.events.envelope import Stored
from loreline.http_edge.corpus_folder import held_at, place_in, put_aside, remove_from_corpus
from loreline.http_edge.ports import Edge
from loreline.projectors.reads import DOCUMENTS, KnownFile
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import doc_id_of, file_aggregate, owner_of, version_of

_log = logging.getLogger(__name__)

VIEW_PATIENCE_S = 30.0


async def finish_corpus(edge: Edge) -> None:
    """Do at a start what the last stop kept from being done, before anything looks at the folder.

    The view that says what is to be looked at is waited for: right after a start it may be behind the log.
    """
    await edge.wait((await edge.log.info()).last_seq, (DOCUMENTS,), timeout_s=VIEW_PATIENCE_S)
    for known in await edge.documents.known_files():
        if known.is_awaited:
            await _write(edge, known)
    for known in await edge.documents.unwanted_files():
        deleted = _newest(await _history(edge, known.file_id), file.FileDeleted)
        if deleted is not None:
            await remove_deleted(edge, known.file_id, known.relative_path, deleted)


async def remove_deleted(edge: Edge, file_id: str, relative_path: str, deleted: Stored[Payload]) -> bool:
    """Remove a file that was deleted together with its content; whether it is not there any more.

    deleted: the event. Another content, or one that was written after it, is somebody's new file: it stays.
    """
    target = await asyncio.to_thread(place_in, edge.corpus_root, relative_path)
    if target is None or not isinstance(deleted.event.payload, file.FileDeleted):
        return False
    version = await _version_before(edge, file_id, relative_path, target, deleted.event.time)
    if version == deleted.event.payload.version:
        await asyncio.to_thread(remove_from_corpus, edge.corpus_root, relative_path)
    return not await asyncio.to_thread(target.is_file)


async def _write(edge: Edge, known: KnownFile) -> None:
    """Put an upload in its place if that is free, or holds a content that it was to replace."""
    target = await asyncio.to_thread(place_in, edge.corpus_root, known.relative_path)
    if target is None:
        return
    if await asyncio.to_thread(target.is_file):
        history = await _history(edge, known.file_id)
        uploaded = _newest(history, file.FileUploaded)
        if uploaded is None:
            return
        replaced = {
            each.event.payload.version
            for each in history
            if each.seq < uploaded.seq
            and isinstance(each.event.payload, file.FileUploaded | file.FileDiscovered)
        }
        version = await _version_before(edge, known.file_id, known.relative_path, target, uploaded.event.time)
        if version not in replaced - {known.version}:
            return
    data = await edge.blobs.get(owner_of(file_aggregate(known.file_id)), known.source)
    try:
        aside = await asyncio.to_thread(put_aside, target, data, known.modified_at)
        await asyncio.to_thread(aside.replace, target)
    except OSError as error:
        _log.warning("an upload waits for its place in the corpus folder: %s", error.strerror)


async def _version_before(
    edge: Edge, file_id: str, relative_path: str, target: Path, moment: datetime
) -> str | None:
    """Which version lies at `target`; None for none, and for a file that was written after `moment`."""
    held = await asyncio.to_thread(held_at, target)
    if held is None or held.changed_at > moment:
        return None
    key = edge.keys.current(owner_of(file_aggregate(file_id))).secret
    return version_of(key, doc_id_of(relative_path, held.content_hash))


async def _history(edge: Edge, file_id: str) -> list[Stored[Payload]]:
    return [edge.codec.decode(each) for each in await edge.log.read(file_aggregate(file_id))]


def _newest(history: list[Stored[Payload]], kind: type[Payload]) -> Stored[Payload] | None:
    return next((each for each in reversed(history) if isinstance(each.event.payload, kind)), None)
