"""The error envelope: every answer that is not a success has one shape and says what to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from loreline.schemas.errors import (
    AppendUncertain,
    DependencyDown,
    InputError,
    LogError,
    LogFull,
    LorelineError,
    NotReady,
    StaleAggregate,
)
from loreline.schemas.text import keepable

_log = logging.getLogger(__name__)

_BY_STATUS: Mapping[int, tuple[str, str]] = {
    400: ("bad_request", "the request cannot be read: {detail}"),
    404: ("not_found", "there is nothing at this address; API.md lists what there is"),
    405: (
        "method_not_allowed",
        "this address does not take this method; the Allow header names those it takes",
    ),
    503: ("service_unavailable", "{detail}"),
}


def envelope(
    code: str,
    message: str,
    status: int,
    *,
    retry_after_s: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """`{"error": {"code", "message"}}` with a status."""
    retry = {} if retry_after_s is None else {"Retry-After": str(max(1, round(retry_after_s)))}
    body = {"error": {"code": code, "message": keepable(message)}}  # it may hold the caller's own words
    return JSONResponse(body, status, headers={**(headers or {}), **retry})


def answer(error: Exception) -> JSONResponse:
    """The answer an exception becomes; what nobody foresaw is `internal_error`, never a bare 500."""
    match error:
        case InputError():
            return envelope(error.code, str(error), error.status)
        case ValidationError():
            return envelope("validation_error", words(error), 422)
        case DependencyDown() | NotReady() | AppendUncertain() | StaleAggregate() | LogError():
            return _not_now(error)
        case HTTPException():
            return _framework(error)
        case ClientDisconnect():
            return envelope("client_gone", "the client went away before it had sent everything", 499)
        case LorelineError():
            return envelope("internal_error", str(error), 500)
    _log.error("unforeseen", exc_info=error)
    return envelope("internal_error", "something went wrong here; the log of this process says what", 500)


def _not_now(
    error: DependencyDown | NotReady | AppendUncertain | StaleAggregate | LogError,
) -> JSONResponse:
    """The request is right and cannot be served at present."""
    match error:
        case DependencyDown():
            return envelope(f"{error.dependency}_unreachable", str(error), 503, retry_after_s=2)
        case NotReady():
            return envelope("not_ready", str(error), 503, retry_after_s=1)
        case LogFull():
            return envelope("log_full", str(error), 507)
        case LogError():
            return envelope("log_damaged", str(error), 503)
    message = f"the log did not take the change in time; send it again ({error})"
    return envelope("service_unavailable", message, 503, retry_after_s=2)


def _framework(error: HTTPException) -> JSONResponse:
    fallback = (f"http_{error.status_code}", "{detail}")
    code, message = _BY_STATUS.get(error.status_code, fallback)
    return envelope(code, message.format(detail=error.detail), error.status_code, headers=error.headers)


def words(error: ValidationError) -> str:
    """What is wrong with a body, field by field."""
    return "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'body'}: {each['msg']}" for each in error.errors()
    )


async def on_error(request: Request, error: Exception) -> Response:
    """The handler every exception goes through."""
    response = answer(error)
    if response.status_code == 405:
        response.headers["Allow"] = ", ".join(_methods_at(request))
    return response


def _methods_at(request: Request) -> list[str]:
    """The methods an address takes; the framework names those of the first route alone."""
    routes = (each for each in request.app.routes if isinstance(each, Route))
    matching = (each for each in routes if each.path_regex.match(request.url.path))
    found = sorted({method for each in matching for method in each.methods or ()})
    return found or ["GET", "HEAD"]  # the page's files are no route
