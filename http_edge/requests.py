"""Reading requests: bodies, sequences to wait for, idempotency keys, and answers that name a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from json import JSONDecodeError
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


def edge_of(request: Request) -> Edge:
    """The edge's world."""
    edge: Edge = request.app.state.edge
    return edge


async def body_of(request: Request, shape: type[B]) -> B:
    """The JSON body; an empty one is `{}`. Raises InputError `validation_error` for what is not JSON."""
    raw = await request.body()
    if not raw.strip():
        return shape.model_validate({})
    try:
        return shape.model_validate(await request.json())
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError("validation_error", f"the body is not JSON: {error}") from error


def command_key(request: Request, edge: Edge) -> UUID:
    """What names the command: the client's `Idempotency-Key`, or a fresh id."""
    given = request.headers.get("Idempotency-Key", "").strip()
    if not given:
        return edge.new_id()
    if len(given) > 200:
        raise InputError("validation_error", "Idempotency-Key is longer than 200 characters")
    return uuid5(NAMESPACE, f"{request.method} {request.url.path} {given}")


async def await_min_seq(request: Request, edge: Edge, views: Sequence[str]) -> None:
    """Wait until the views contain the sequence the reader asks for. Raises NotReady after 2 s."""
    given = request.query_params.get("min_seq")
    if given is None:
        return
    if not given.isdigit():
        raise InputError("validation_error", "min_seq is a sequence: a whole number from 0")
    if not await edge.wait(int(given), views):
        raise NotReady(f"the view has not reached sequence {given} yet; try again in a second")


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
