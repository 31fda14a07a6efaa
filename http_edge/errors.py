"""The error envelope: every answer that is not a success has one shape and says what to do."""

from __future__ import annotations

import logging

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from loreline.schemas.errors import DependencyDown, InputError, LogError, LogFull, LorelineError, NotReady

_log = logging.getLogger(__name__)

_BY_STATUS = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    503: "service_unavailable",
}


def envelope(code: str, message: str, status: int, *, retry_after_s: float | None = None) -> JSONResponse:
    """`{"error": {"code", "message"}}` with a status."""
    headers = {} if retry_after_s is None else {"Retry-After": str(max(1, round(retry_after_s)))}
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers=headers)


def answer(error: Exception) -> JSONResponse:
    """The answer an exception becomes; what nobody foresaw is `internal_error`, never a bare 500."""
    match error:
        case InputError():
            return envelope(error.code, str(error), error.status)
        case ValidationError():
            return envelope("validation_error", words(error), 422)
        case DependencyDown():
            return envelope(f"{error.dependency}_unreachable", str(error), 503, retry_after_s=2)
        case NotReady():
            return envelope("not_ready", str(error), 503, retry_after_s=1)
        case LogFull():
            return envelope("log_full", str(error), 507)
        case LogError():
            return envelope("log_damaged", str(error), 503)
        case HTTPException():
            code = _BY_STATUS.get(error.status_code, f"http_{error.status_code}")
            return envelope(code, str(error.detail), error.status_code)
        case LorelineError():
            return envelope("internal_error", str(error), 500)
    _log.exception("unforeseen", exc_info=error)
    return envelope("internal_error", "something went wrong here; the log of this process says what", 500)


def words(error: ValidationError) -> str:
    """What is wrong with a body, field by field."""
    return "; ".join(
        f"{'.'.join(str(part) for part in each['loc']) or 'body'}: {each['msg']}" for each in error.errors()
    )


async def on_error(request: Request, error: Exception) -> Response:
    """The handler every exception goes through."""
    return answer(error)
