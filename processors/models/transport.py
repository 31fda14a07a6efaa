"""What both model clients do with HTTP: addresses, the meaning of an answer's status, retries."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from loreline.schemas.errors import ContextTooLong, DependencyDown, LorelineError, ModelRefused

T = TypeVar("T")

_ABOUT_THE_SERVER = frozenset({401, 403, 404, 405, 407, 408, 425, 429})
"""4xx that would meet any request: key, route, model name, load. The input is not to blame."""

_TOO_LONG_TYPES = frozenset({"exceed_context_size_error", "context_length_exceeded"})
_TOO_LONG_WORDS = ("maximum context length", "too large to process", "exceeds the available context")


@dataclass(frozen=True)
class RetryPolicy:
    """Retries inside one call; a longer outage is the caller's to wait out.

    Attributes:
        attempts: tries in all, at least 1.
        first_wait_s: wait before the second try; doubles each time.
        longest_wait_s: most that one wait may take; a server that asks for more fails the call at once.
    """

    attempts: int = 3
    first_wait_s: float = 0.2
    longest_wait_s: float = 5.0


def api_base(url: str) -> str:
    """The API's base of what a user writes: `http://host:1234` means `http://host:1234/v1`."""
    url = url.strip().rstrip("/")
    for route in ("/chat/completions", "/embeddings"):
        url = url.removesuffix(route)
    return url if httpx.URL(url).path.strip("/") else f"{url}/v1"


def server_root(base: str) -> str:
    """Where llama.cpp's own routes (`/tokenize`) are: the base without `/v1`."""
    return base.removesuffix("/v1")


def auth_headers(api_key: str | None) -> dict[str, str]:
    """The bearer header, or none."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def unreachable(dependency: str, url: str, error: httpx.TransportError) -> DependencyDown:
    """The error for a server that did not answer over the wire."""
    why = "timed out" if isinstance(error, httpx.TimeoutException) else (str(error) or type(error).__name__)
    return DependencyDown(
        dependency,
        f"The model server at {url} does not answer ({why}). Start it, or correct its URL.",
    )


def failure_of(response: httpx.Response, *, dependency: str) -> LorelineError:
    """What an answer other than 200 means. The response's body must have been read.

    DependencyDown for 5xx, 429 and what would meet any request (401, 403, 404 …), with the
    server's Retry-After; ContextTooLong where the server says the text is too long, also when it
    says so with a 500; ModelRefused for any other 4xx.
    """
    status = response.status_code
    detail = _error_object(response)
    words = str(detail.get("message") or response.text[:300] or response.reason_phrase)
    too_long = context_error(detail, dependency=dependency)
    if too_long is not None:
        return too_long
    if status < 400 or status >= 500 or status in _ABOUT_THE_SERVER:
        return DependencyDown(
            dependency,
            f"The model server at {response.request.url} answered {status}: {words}. {_advice(status)}",
            retry_after_s=_retry_after_s(response),
        )
    return ModelRefused(
        dependency,
        f"The model server at {response.request.url} refused the request with {status}: {words}. "
        "Check the model's settings; asking again will not help.",
    )


def context_error(detail: Mapping[str, Any], *, dependency: str) -> ContextTooLong | None:
    """ContextTooLong if the server's error object says that, in llama.cpp's, OpenAI's or vLLM's way."""
    words = str(detail.get("message", ""))
    types = {str(detail.get("type")), str(detail.get("code"))}
    if not types & _TOO_LONG_TYPES and not any(mark in words for mark in _TOO_LONG_WORDS):
        return None
    prompt, room = detail.get("n_prompt_tokens"), detail.get("n_ctx")
    return ContextTooLong(
        dependency,
        f"The text is too long for the model: {words}. Send fewer or shorter passages, "
        "or start the model with a larger context.",
        prompt_tokens=prompt if isinstance(prompt, int) else None,
        context_tokens=room if isinstance(room, int) else None,
    )


async def with_retries(
    call: Callable[[], Awaitable[T]], policy: RetryPolicy, *, sleep: Callable[[float], Awaitable[None]]
) -> T:
    """`call()`, tried again while it raises DependencyDown; then that error.

    Not tried again: a call that waited its whole time for an answer, and one whose server asks
    for a longer pause than the policy allows.
    """

    def wait(state: RetryCallState) -> float:
        asked = _asked_wait_s(state.outcome.exception() if state.outcome else None)
        backoff = policy.first_wait_s * 2.0 ** (state.attempt_number - 1)
        return min(max(asked, backoff), policy.longest_wait_s)

    def worth_it(error: BaseException) -> bool:
        return (
            isinstance(error, DependencyDown)
            and not isinstance(error.__cause__, httpx.ReadTimeout | TimeoutError)
            and _asked_wait_s(error) <= policy.longest_wait_s
        )

    retrying = AsyncRetrying(
        stop=stop_after_attempt(policy.attempts),
        wait=wait,
        retry=retry_if_exception(worth_it),
        sleep=sleep,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            return await call()
    raise AssertionError("unreachable: the last attempt's error is raised")


def _asked_wait_s(error: BaseException | None) -> float:
    return error.retry_after_s or 0.0 if isinstance(error, DependencyDown) else 0.0


def _retry_after_s(response: httpx.Response) -> float | None:
    """Retry-After in seconds (RFC 9110, 10.2.3); its date form is not worth a clock here."""
    value = response.headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdigit() else None


def _error_object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = json.loads(response.content)
    except ValueError:
        return {}
    detail = body.get("error", body) if isinstance(body, dict) else {}
    return detail if isinstance(detail, dict) else {"message": detail}


def _advice(status: int) -> str:
    if status in {401, 403, 407}:
        return "Check the API key."
    if status in {404, 405}:
        return "Check the URL and the model's name."
    return "It is overloaded or failing; it is tried again later."
