"""Server-sent events, read from bytes as they come (WHATWG HTML, section 9.2, "Server-sent events").

Stricter than the standard in one thing: a line that is no field of the standard is an error, not
ignored, because a model server that sends one is not speaking this protocol.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from loreline.schemas.errors import DependencyDown

MAX_BUFFERED_BYTES = 4 * 1024 * 1024
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_FIELDS = frozenset({"data", "event", "id", "retry", "error"})
"""The standard's four, and `error`, in which llama.cpp reports a failure after the stream began."""


@dataclass(frozen=True)
class SseEvent:
    """One event: its name (`message` unless given) and its data lines joined by newlines."""

    name: str
    data: str


class SseParser:
    """Feed bytes, get whole events; however the bytes are cut, the events are the same.

    LF, CRLF and CR end a line, also when CR and LF arrive apart; characters may be cut in two;
    comments, `id` and `retry` are skipped. Raises DependencyDown naming `dependency` for a
    line that is no event field, and when an event grows beyond MAX_BUFFERED_BYTES.
    """

    def __init__(self, *, dependency: str) -> None:
        self._dependency = dependency
        self._rest = b""
        self._first_line = True
        self._name = ""
        self._data: list[str] = []
        self._data_size = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes."""
        buffered = self._rest + chunk
        # A CR at the very end may be half of a CRLF: leave it until the next byte tells.
        limit = len(buffered) - 1 if buffered.endswith(b"\r") else len(buffered)
        events: list[SseEvent] = []
        start = 0
        for end in _LINE_END.finditer(buffered, 0, limit):
            events += self._line(buffered[start : end.start()])
            start = end.end()
        self._rest = buffered[start:]
        if len(self._rest) + self._data_size > MAX_BUFFERED_BYTES:
            raise self._broken(f"sent an event of more than {MAX_BUFFERED_BYTES} bytes")
        return events

    def finish(self) -> list[SseEvent]:
        """The last event, if the stream ended without the blank line that closes it."""
        rest, self._rest = self._rest, b""
        return [*self._line(rest.removesuffix(b"\r")), *self._line(b"")] if rest else self._line(b"")

    def _line(self, raw: bytes) -> list[SseEvent]:
        if self._first_line:
            raw, self._first_line = raw.removeprefix(_BOM), False
        line = raw.decode("utf-8", "replace")
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "":
            return []
        if name not in _FIELDS:
            raise self._broken(f"sent a line that is no server-sent event: {line[:120]!r}")
        if name == "event":
            self._name = value
        elif name in {"data", "error"}:
            self._name = name if name == "error" else self._name
            self._data.append(value)
            self._data_size += len(raw)
        return []

    def _dispatch(self) -> list[SseEvent]:
        name, data = self._name or "message", self._data
        self._name, self._data, self._data_size = "", [], 0
        return [SseEvent(name=name, data="\n".join(data))] if data else []

    def _broken(self, what: str) -> DependencyDown:
        return DependencyDown(
            self._dependency,
            f"The model server {what}. Check that the URL is that of an OpenAI-compatible API.",
        )
