"""Uploads: each file is checked and stored by itself: blob, event, then the file in the corpus folder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from unicodedata import category
from uuid import UUID

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from loreline.events.append import Command
from loreline.events.folds.file import FILE
from loreline.http_edge.corpus_folder import place_in, put_aside
from loreline.http_edge.ports import Edge
from loreline.http_edge.requests import answer, command_key, edge_of
from loreline.processors.ingest.scan import is_reserved
from loreline.schemas.errors import InputError
from loreline.schemas.events.file import FileIdentity, FileUploaded
from loreline.schemas.ids import (
    APP_OWNER,
    content_hash_of,
    derived_key,
    doc_id_of,
    file_aggregate,
    file_id_of,
    normalise_path,
    owner_of,
    version_of,
)
from loreline.schemas.settings import UploadSettings
from loreline.schemas.wire import UploadedFileOut, UploadResponse

MAX_DEPTH = 16
MAX_NAME_BYTES = 240
FRAMING_BYTES = 10_000_000
"""What an upload's form may take beside its files: boundaries, paths and times."""
UNWRITABLE = "docs_path_not_writable"
_DRIVE = re.compile(r"[A-Za-z]:")
_UNNAMEABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Control characters, halves of a pair, and line ends (Unicode's general categories)."""


@dataclass(frozen=True)
class Part:
    """One file of an upload."""

    upload: UploadFile
    path: str
    modified_at: datetime | None


async def upload_documents(request: Request) -> Response:
    """`POST /api/documents`: store files into the corpus folder; an ingest takes them in."""
    edge = edge_of(request)
    limits = (await edge.settings()).upload
    key = command_key(request, edge)
    async with _form(request, limits) as form:
        outcomes: list[UploadedFileOut] = []
        seq: int | None = None
        for index, part in enumerate(_parts(form, limits)):
            reason = refusal(part.path, size_bytes=part.upload.size or 0, limits=limits)
            if reason is not None:
                outcomes.append(_outcome(part, reason=reason))
                continue
            outcome, stored_seq = await _store(edge, part, derived_key(key, "upload", str(index)))
            outcomes.append(outcome)
            seq = stored_seq if stored_seq is not None else seq
    if not any(outcome.stored for outcome in outcomes):
        reasons = sorted({outcome.reason or "" for outcome in outcomes})
        if UNWRITABLE in reasons:
            message = "the corpus folder cannot be written to; check who owns it and whether the disk is full"
            raise InputError(UNWRITABLE, message, status=500)
        raise InputError("no_file_stored", f"no file was stored: {', '.join(reasons)}")
    return answer(UploadResponse(files=outcomes), status=201, seq=seq)


@asynccontextmanager
async def _form(request: Request, limits: UploadSettings) -> AsyncIterator[FormData]:
    """The request's form, closed with its spooled files. Raises InputError for what is not one."""
    allowed = limits.max_total_bytes + FRAMING_BYTES
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > allowed:
        raise InputError("batch_too_large", _too_large(limits))
    counted = Request(request.scope, _counting(request.receive, allowed, limits))
    try:
        form = await counted.form(max_files=limits.max_files, max_fields=3 * limits.max_files + 10)
    except HTTPException as error:
        if "Too many files" in error.detail:
            raise InputError("too_many_files", _too_many(limits)) from error
        raise InputError("validation_error", f"the upload cannot be read: {error.detail}") from error
    try:
        yield form
    finally:
        await form.close()


def _counting(receive: Receive, allowed: int, limits: UploadSettings) -> Receive:
    """`receive` that refuses to go on once the body is larger than it may be, whatever it announced."""
    received = 0

    async def count() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > allowed:
            raise InputError("batch_too_large", _too_large(limits))
        return message

    return count


def _parts(form: FormData, limits: UploadSettings) -> list[Part]:
    """The files with their paths and times. Raises InputError when the lists do not pair up."""
    uploads = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
    if not uploads:
        raise InputError("validation_error", "files: a form (multipart/form-data) with files is needed")
    paths = [str(each) for each in form.getlist("paths")]
    modified = [str(each) for each in form.getlist("modified")]
    if sum(each.size or 0 for each in uploads) > limits.max_total_bytes:
        raise InputError("batch_too_large", _too_large(limits))
    if paths and len(paths) != len(uploads):
        raise InputError("paths_mismatch", f"{len(paths)} paths for {len(uploads)} files; send one a file")
    if modified and len(modified) != len(uploads):
        raise InputError(
            "modified_mismatch", f"{len(modified)} times for {len(uploads)} files; send one a file"
        )
    return [
        Part(
            each,
            normalise_path((paths[index] if paths else "") or (each.filename or "")),
            _moment(modified[index]) if modified else None,
        )
        for index, each in enumerate(uploads)
    ]


def _too_many(limits: UploadSettings) -> str:
    return f"at most {limits.max_files} files at once (UPLOAD_MAX_FILES)"


def _too_large(limits: UploadSettings) -> str:
    return f"at most {limits.max_total_bytes // 1_000_000} MB at once (UPLOAD_MAX_TOTAL_MB)"


def _moment(text: str) -> datetime | None:
    """Epoch milliseconds as a time; None for anything else, which is no reason to refuse a file."""
    try:
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def refusal(path: str, *, size_bytes: int, limits: UploadSettings) -> str | None:
    """Why a file is not stored, as a machine word; None when it is."""
    parts = path.split("/")
    if _DRIVE.match(path) or any(_is_no_name(part) for part in parts):
        return "invalid_path"
    if any(len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for part in parts):
        return "name_too_long"
    if len(parts) > MAX_DEPTH:
        return "path_too_deep"
    if is_reserved(path):
        return "reserved_path"
    if PurePosixPath(path).suffix.lower().removeprefix(".") not in limits.extensions:
        return "extension_not_allowed"
    return "file_too_large" if size_bytes > limits.max_bytes else None


def _is_no_name(part: str) -> bool:
    """Empty, hidden (which takes in `.` and `..`), blank, or with characters no name should hold."""
    return not part.strip() or part.startswith(".") or any(category(each) in _UNNAMEABLE for each in part)


async def _store(edge: Edge, part: Part, key: UUID) -> tuple[UploadedFileOut, int | None]:
    """Bytes beside their place, blob, event, place: once the event is in the log nothing is lost."""
    data = await part.upload.read()
    target = await asyncio.to_thread(place_in, edge.corpus_root, part.path)
    if target is None:
        return _outcome(part, reason="invalid_path"), None
    aggregate = file_aggregate(file_id_of(edge.keys.current(APP_OWNER).secret, part.path))
    replaced = await asyncio.to_thread(target.is_file)
    try:
        aside = await asyncio.to_thread(put_aside, target, data, part.modified_at)
    except OSError:
        return _outcome(part, reason=UNWRITABLE), None
    try:
        payload = await _uploaded(edge, part, data, owner_of(aggregate))
        command = Command(aggregate, FILE, key, lambda _: [payload], actor="user")
        (stored,) = await edge.appender.execute(command)
        newest = True
        if stored.event.payload is not payload:  # stored before: perhaps all of it, perhaps just the event
            history = await edge.log.read(aggregate)
            replaced = any(each.seq < stored.seq for each in history)
            newest = stored.event.payload == payload and all(each.seq <= stored.seq for each in history)
        if newest:
            await asyncio.to_thread(aside.replace, target)
    except OSError:
        return _outcome(part, reason=UNWRITABLE), None
    finally:
        await asyncio.to_thread(aside.unlink, missing_ok=True)
    return _outcome(part, replaced=replaced), stored.seq


async def _uploaded(edge: Edge, part: Part, data: bytes, owner: str) -> FileUploaded:
    """The event of an upload; its bytes are kept before it is."""
    await asyncio.to_thread(edge.keys.ensure, [owner])
    content_hash = await asyncio.to_thread(content_hash_of, data)
    doc_id = doc_id_of(part.path, content_hash)
    return FileUploaded(
        version=version_of(edge.keys.current(owner).secret, doc_id),
        source=await edge.blobs.put(owner, data),
        size_bytes=len(data),
        private=FileIdentity(
            relative_path=part.path,
            doc_id=doc_id,
            content_hash=content_hash,
            file_modified_at=part.modified_at,
        ),
    )


def _outcome(part: Part, *, reason: str | None = None, replaced: bool = False) -> UploadedFileOut:
    return UploadedFileOut(
        file_name=PurePosixPath(part.path).name or part.path[:200],
        relative_path=part.path if reason is None else None,
        size_bytes=part.upload.size or 0,
        stored=reason is None,
        replaced=replaced,
        reason=reason,
    )
