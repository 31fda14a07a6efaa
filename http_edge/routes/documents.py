"""Documents: list and delete. Uploads have a module of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.corpus import CORPUS
from loreline.events.folds.file import FILE, FileState
from loreline.http_edge.corpus_folder import remove_from_corpus
from loreline.http_edge.ports import Edge
from loreline.http_edge.requests import answer, await_min_seq, body_of, command_key, edge_of, flag_of
from loreline.http_edge.unfinished import remove_deleted
from loreline.projectors.reads import DOCUMENTS, LEXICAL, PASSAGES, Document
from loreline.schemas.errors import Conflict, InputError, NotFound
from loreline.schemas.events.file import FileDeleted
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import RAG_CORPUS, derived_key, file_aggregate
from loreline.schemas.wire import (
    DocumentBulkDeleteRequest,
    DocumentBulkDeleteResponse,
    DocumentDeleteResponse,
    DocumentOut,
)

HOLDING_VIEWS = (PASSAGES, LEXICAL, DOCUMENTS)
"""The views that must let a deleted document go."""
_DOC_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


async def list_documents(request: Request) -> Response:
    """`GET /api/documents`: newest first; files that failed only with `include=failed`."""
    edge = edge_of(request)
    await await_min_seq(request, edge, (DOCUMENTS,))
    active = (await edge.appender.state(RAG_CORPUS, CORPUS)).active
    found = await edge.documents.live(active) if active else []
    include = request.query_params.get("include")
    if include not in (None, "failed"):
        raise InputError("validation_error", "include is failed, or left out")
    return answer([_out(edge, each) for each in found if include or each.state != "failed"])


async def delete_document(request: Request) -> Response:
    """`DELETE /api/documents/{doc_id}`: accepted once its event is."""
    edge = edge_of(request)
    doc_id = request.path_params["doc_id"]
    remove = flag_of(request, "remove_file", default=False)
    done, seq = await _delete(request, edge, [doc_id], remove_file=remove)
    if not done.deleted:
        raise NotFound("document_not_found", f"there is no document {doc_id[:60]}")
    return answer(done.deleted[0], seq=seq)


async def delete_documents(request: Request) -> Response:
    """`POST /api/documents/delete`: several at once; unknown ids are named, not refused."""
    edge = edge_of(request)
    body = await body_of(request, DocumentBulkDeleteRequest)
    remove = flag_of(request, "remove_file", default=False)
    done, seq = await _delete(request, edge, list(dict.fromkeys(body.doc_ids)), remove_file=remove)
    return answer(done, seq=seq)


async def _delete(
    request: Request, edge: Edge, doc_ids: Sequence[str], *, remove_file: bool
) -> tuple[DocumentBulkDeleteResponse, int | None]:
    holder = (await edge.appender.state(RAG_CORPUS, CORPUS)).holder
    if holder is not None and holder.kind in {"export", "restore"}:
        raise Conflict("corpus_busy", f"a {holder.kind} is running; delete when it has ended")
    key = command_key(request, edge)
    deleted: list[DocumentDeleteResponse] = []
    missing: list[str] = []
    seq: int | None = None
    for doc_id in doc_ids:
        done = await _delete_one(edge, doc_id, derived_key(key, "delete", doc_id), remove_file=remove_file)
        if done is None:
            missing.append(doc_id)
            continue
        deleted.append(done[0])
        seq = done[1] or seq
    pending = [] if seq is None else await _pending(edge, seq)
    out = [each.model_copy(update={"pending_views": pending}) for each in deleted]
    return DocumentBulkDeleteResponse(deleted=out, not_found=missing), seq


async def _delete_one(
    edge: Edge, doc_id: str, key: UUID, *, remove_file: bool
) -> tuple[DocumentDeleteResponse, int | None] | None:
    """(What was done, where it stands in the log); None if there is no such document, and was not for `key`.

    A delete that was accepted before answers again, and does what a stop kept it from doing.
    """
    known = _DOC_ID.fullmatch(doc_id) is not None
    live = await edge.documents.get(doc_id) if known else None
    document = live or (await edge.documents.former(doc_id) if known else None)
    if document is None:
        return None
    payload = FileDeleted(version=document.version, remove_file=remove_file)

    def decide(state: FileState) -> Sequence[Payload]:
        return [] if live is None or state.is_deleted else [payload]

    aggregate = file_aggregate(document.file_id)
    stored = await edge.appender.execute(Command(aggregate, FILE, key, decide, actor="user"))
    if live is None and not stored:
        return None
    if stored and stored[0].event.payload is not payload:
        removed = await _removed_before(edge, document, stored[0])
    else:
        removed = remove_file and await asyncio.to_thread(
            remove_from_corpus, edge.corpus_root, document.relative_path
        )
    done = DocumentDeleteResponse(doc_id=doc_id, chunks_deleted=document.n_chunks, file_removed=removed)
    return done, stored[-1].seq if stored else None


async def _removed_before(edge: Edge, document: Document, stored: Stored[Payload]) -> bool:
    deleted = stored.event.payload
    if not isinstance(deleted, FileDeleted) or not deleted.remove_file:
        return False
    return await remove_deleted(edge, document.file_id, document.relative_path, stored)


async def _pending(edge: Edge, seq: int) -> list[str]:
    """The views that still hold what was deleted, after a moment's patience."""
    await edge.wait(seq, HOLDING_VIEWS)
    return [name for name in HOLDING_VIEWS if edge.host.runners[name].at.seq < seq]


def _out(edge: Edge, document: Document) -> DocumentOut:
    return DocumentOut(
        doc_id=document.doc_id,
        file_name=document.file_name,
        file_type=document.file_type,
        source=str(edge.corpus_root / document.relative_path),
        relative_path=document.relative_path,
        content_hash=document.content_hash,
        n_chunks=document.n_chunks,
        ingested_at=document.ended_at,
        extraction_mix=document.extractions,
        state=document.state,
        code=document.code,
        reason=document.reason,
    )
