"""Uploads: each file is checked and stored by itself: blob, event, then the file in the corpus folder."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from uuid import UUID

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response

from loreline.events.append import Command
from loreline.events.folds.file import FILE, FileState
from loreline.http_edge.ports import Edge
from loreline.http_edge.requests import answer, command_key, edge_of
from loreline.processors.ingest.scan import is_reserved
from loreline.schemas.errors import InputError
from loreline.schemas.events.file import FileIdentity, FileUploaded
from loreline.schemas.events.payload import Payload
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
        parts = _parts(form, limits)
        outcomes: list[UploadedFileOut] = []
        seq: int | None = None
        for index, part in enumerate(parts):
            reason = refusal(part.path, size_bytes=part.upload.size or 0, limits=limits)
            if reason is not None:
                outcomes.append(_outcome(part, reason=reason))
                continue
            outcome, stored_seq = await _store(edge, part, derived_key(key, "upload", str(index)))
            outcomes.append(outcome)
            seq = stored_seq if stored_seq is not None else seq
    if not any(outcome.stored for outcome in outcomes):
        reasons = ", ".join(sorted({outcome.reason or "" for outcome in outcomes}))
        if reasons == "docs_path_not_writable":
            message = "the corpus folder cannot be written to; check who owns it"
            raise InputError("docs_path_not_writable", message, status=500)
        raise InputError("no_file_stored", f"no file was stored: {reasons or 'there was none'}")
    return answer(UploadResponse(files=outcomes), status=201, seq=seq)


class _form:  # noqa: N801 - used as a context manager, like Request.form
    """The request's form, closed with its spooled files. Raises InputError for what is not one."""

    def __init__(self, request: Request, limits: UploadSettings) -> None:
        self._request = request
        self._limits = limits
        self._form: FormData | None = None

    async def __aenter__(self) -> FormData:
        length = self._request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self._limits.max_total_bytes + 10_000_000:
            raise InputError("batch_too_large", _too_large(self._limits))
        try:
            self._form = await self._request.form(
                max_files=self._limits.max_files + 1, max_fields=3 * self._limits.max_files + 10
            )
        except MultiPartException as error:
            code = "too_many_files" if "Too many" in error.message else "validation_error"
            raise InputError(code, f"the upload cannot be read: {error.message}") from error
        return self._form

    async def __aexit__(self, *_: object) -> None:
        if self._form is not None:
            await self._form.close()


def _parts(form: FormData, limits: UploadSettings) -> list[Part]:
    """The files with their paths and times. Raises InputError when the lists do not pair up."""
    uploads = [each for each in form.getlist("files") if isinstance(each, UploadFile)]
    paths = [str(each) for each in form.getlist("paths")]
    modified = [str(each) for each in form.getlist("modified")]
    if len(uploads) > limits.max_files:
        raise InputError("too_many_files", f"at most {limits.max_files} files at once (UPLOAD_MAX_FILES)")
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
    parts = PurePosixPath(path).parts
    if not path or path.startswith("/") or "\0" in path or any(p in {"..", "."} for p in path.split("/")):
        return "invalid_path"
    if ":" in parts[0] or any(p.startswith(".") or not p.strip() or not p.isprintable() for p in parts):
        return "invalid_path"
    if any(len(p.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for p in parts):
        return "name_too_long"
    if len(parts) > MAX_DEPTH:
        return "path_too_deep"
    if is_reserved(path):
        return "reserved_path"
    if PurePosixPath(path).suffix.lower().removeprefix(".") not in limits.extensions:
        return "extension_not_allowed"
    return "file_too_large" if size_bytes > limits.max_bytes else None


async def _store(edge: Edge, part: Part, key: UUID) -> tuple[UploadedFileOut, int | None]:
    """Blob, event, file. Once the event is in the log the upload is not lost, whatever happens next."""
    data = await part.upload.read()
    target = edge.corpus_root / part.path
    if not _is_inside(edge.corpus_root, target):
        return _outcome(part, reason="invalid_path"), None
    replaced = await asyncio.to_thread(target.is_file)
    file_id = file_id_of(edge.keys.current(APP_OWNER).secret, part.path)
    aggregate = file_aggregate(file_id)
    owner = owner_of(aggregate)
    await asyncio.to_thread(edge.keys.ensure, [owner])
    content_hash = content_hash_of(data)
    doc_id = doc_id_of(part.path, content_hash)
    payload = FileUploaded(
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

    def decide(_: FileState) -> Sequence[Payload]:
        return [payload]

    stored = await edge.appender.execute(Command(aggregate, FILE, key, decide, actor="user"))
    try:
        await asyncio.to_thread(write_into_corpus, target, data, part.modified_at)
    except OSError:
        return _outcome(part, reason="docs_path_not_writable"), stored[-1].seq
    return _outcome(part, replaced=replaced), stored[-1].seq


def _is_inside(root: Path, target: Path) -> bool:
    """Whether a target lies in the corpus even after following links, and no parent is a file."""
    if not target.resolve().is_relative_to(root) or target.is_dir():
        return False
    return not any(parent.is_file() for parent in target.parents if parent.is_relative_to(root))


def write_into_corpus(target: Path, data: bytes, modified_at: datetime | None) -> None:
    """Write a file aside, sync it, and move it into place whole, with the time it had."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with aside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if modified_at is not None:
            stamp = modified_at.timestamp()
            os.utime(aside, (stamp, stamp))
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def _outcome(part: Part, *, reason: str | None = None, replaced: bool = False) -> UploadedFileOut:
    return UploadedFileOut(
        file_name=PurePosixPath(part.path).name or part.path[:200],
        relative_path=part.path if reason is None else None,
        size_bytes=part.upload.size or 0,
        stored=reason is None,
        replaced=replaced,
        reason=reason,
    )


async def write_awaited(edge: Edge) -> int:
    """Write uploads into the corpus folder that a stop kept from getting there; how many."""
    written = 0
    for each in await edge.documents.known_files():
        target = edge.corpus_root / each.relative_path
        if each.is_awaited and not await asyncio.to_thread(target.exists):
            data = await edge.blobs.get(owner_of(file_aggregate(each.file_id)), each.source)
            await asyncio.to_thread(write_into_corpus, target, data, each.modified_at)
            written += 1
    return written
