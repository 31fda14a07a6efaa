"""Reading requests: bodies, numbers, flags, sequences to wait for, idempotency keys; and answering them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID, uuid5

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from loreline.http_edge.ports import Edge
from loreline.schemas.errors import InputError, NotReady
from loreline.schemas.ids import NAMESPACE

B = TypeVar("B", bound=BaseModel)
LOG_SEQ = "X-Log-Seq"
MAX_BODY_BYTES = 1_000_000
"""Largest JSON body: 10,000 document ids or the longest question fit several times."""
MAX_KEY_CHARS = 200
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_FLAGS = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}


def edge_of(request: Request) -> Edge:
    """The edge's world."""
    edge: Edge = request.app.state.edge
    return edge


async def body_of(request: Request, shape: type[B]) -> B:
    """The JSON body; an empty one is `{}`.

    Raises pydantic's ValidationError for what is not JSON or not of this shape, InputError
    `body_too_large` (413) beyond MAX_BODY_BYTES.
    """
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > MAX_BODY_BYTES:
            raise InputError("body_too_large", f"a JSON body has at most {MAX_BODY_BYTES} bytes", status=413)
    return shape.model_validate_json(bytes(raw) if raw.strip() else b"{}")


def number_of(request: Request, name: str) -> int | None:
    """A query parameter that is a sequence; None when it is not given. Raises InputError."""
    given = request.query_params.get(name)
    if given is not None and _NUMBER.fullmatch(given) is None:
        raise InputError("validation_error", f"{name} is a sequence: a whole number from 0")
    return None if given is None else int(given)


def flag_of(request: Request, name: str, *, default: bool) -> bool:
    """A query parameter that is true or false. Raises InputError for anything else."""
    given = request.query_params.get(name)
    if given is not None and given.lower() not in _FLAGS:
        raise InputError("validation_error", f"{name} is true or false")
    return default if given is None else _FLAGS[given.lower()]


def command_key(request: Request, edge: Edge) -> UUID:
    """What names the command: the client's `Idempotency-Key`, or a fresh id."""
    given = request.headers.get("Idempotency-Key", "").strip()
    if not given:
        return edge.new_id()
    if len(given) > MAX_KEY_CHARS:
        raise InputError("validation_error", f"Idempotency-Key is longer than {MAX_KEY_CHARS} characters")
    return uuid5(NAMESPACE, f"{request.method} {request.url.path} {given}")


async def await_min_seq(request: Request, edge: Edge, views: Sequence[str]) -> None:
    """Wait until the views contain the sequence the reader asks for. Raises NotReady after 2 s."""
    seq = number_of(request, "min_seq")
    if seq is not None and not await edge.wait(seq, views):
        raise NotReady(f"the view has not reached sequence {seq} yet; try again in a second")


def answer(
    body: BaseModel | Sequence[BaseModel], *, status: int = 200, seq: int | None = None
) -> JSONResponse:
    """A JSON answer, naming the log sequence a write reached."""
    content = (
        body.model_dump(mode="json")
        if isinstance(body, BaseModel)
        else [each.model_dump(mode="json") for each in body]
    )
    return JSONResponse(content, status, headers={} if seq is None else {LOG_SEQ: str(seq)})
