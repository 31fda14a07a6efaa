"""What every answer says to a browser, and which requests are not ours to answer."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loreline.http_edge.errors import answer, envelope
from loreline.http_edge.ports import Edge

POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_ALWAYS = frozenset({"/api/health"})


class Guard:
    """Refuses requests made through another site, answers nothing from a damaged log, envelopes every error.

    A page elsewhere can make a browser send requests here (by a name that resolves to this machine, or
    from its own origin); neither carries a local host name and a local origin.
    """

    def __init__(self, app: ASGIApp, *, edge: Edge) -> None:
        self._app = app
        self._edge = edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on and add the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                # Answers hold people's words; the page's files are asked for anew by their ETag.
                caching = "no-store" if scope["path"].startswith("/api/") else "no-cache"
                headers.setdefault("Cache-Control", caching)
            await send(message)

        try:
            await (self._refusal(scope) or self._app)(scope, receive, with_headers)
        except Exception as error:
            if started:
                raise
            await answer(error)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        host = _host("//" + headers.get("host", ""))
        if host not in LOCAL:
            return envelope("forbidden_host", "this stack answers on this machine's own names only", 403)
        origin = headers.get("origin")
        if scope["method"] in _UNSAFE and origin is not None and not _is_own(origin, headers["host"]):
            return envelope("forbidden_origin", "another site may not write here", 403)
        damage = self._edge.damage()
        path: str = scope["path"]
        if damage is not None and path.startswith("/api/") and path not in _ALWAYS:
            return envelope("log_damaged", str(damage), 503)
        return None


def _is_own(origin: str, host: str) -> bool:
    """Whether a page that this edge served sends the request: the same name and the same port."""
    return origin.lower() in {f"http://{host.lower()}", f"https://{host.lower()}"}


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
