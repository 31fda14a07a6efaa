"""The meaning of a streamed chat completion: server-sent events in, generation events out. Pure.

Reads OpenAI's chunks with llama.cpp's `timings`, and reasoning in either form: a field of its own
(`reasoning_content`, `reasoning`) or think tags within the text.
"""

from __future__ import annotations

import json
import math
from typing import Any

from loreline.processors.models.cleaning import clean_text
from loreline.processors.models.sse import SseEvent
from loreline.processors.models.think import ThinkSplitter
from loreline.processors.models.transport import context_error
from loreline.schemas.errors import DependencyDown
from loreline.schemas.ports import Delta, GenerationEvent, Timings, Usage

_DONE = "[DONE]"


class CompletionReader:
    """Feed events in order until `done`, or until the stream ends; then call `finish` once.

    `feed` raises DependencyDown for data that is no completion chunk and for an error the server
    reports mid-stream (ContextTooLong where that is the error).
    """

    def __init__(self, *, dependency: str) -> None:
        self._dependency = dependency
        self._think = ThinkSplitter()
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] = {}
        self._timings: dict[str, Any] = {}
        self.done = False

    def feed(self, event: SseEvent) -> list[GenerationEvent]:
        """What one server-sent event adds to the generation."""
        if event.data.strip() == _DONE:
            self.done = True
            return []
        chunk = self._parse(event)
        found: list[GenerationEvent] = []
        for choice in _dicts(chunk.get("choices"))[:1]:
            found += self._deltas(choice.get("delta"))
            self._finish_reason = _text(choice.get("finish_reason")) or self._finish_reason
        if isinstance(chunk.get("usage"), dict):
            self._usage = chunk["usage"]
        if isinstance(chunk.get("timings"), dict):
            self._timings = chunk["timings"]
            found += _timings(self._timings)
        return found

    def finish(self) -> list[GenerationEvent]:
        """Text held back, then the Usage. Raises DependencyDown if the stream was cut before its end."""
        if not self.done and self._finish_reason is None:
            raise DependencyDown(
                self._dependency,
                "The model server cut the answer short: its stream ended without a finish. "
                "It may have crashed or been restarted; ask again.",
            )
        rate = _timings(self._timings)
        usage = Usage(
            prompt_tokens=_count(self._usage.get("prompt_tokens")),
            completion_tokens=_count(self._usage.get("completion_tokens")),
            tokens_per_second=rate[0].tokens_per_second if rate else None,
            finish_reason=self._finish_reason,
        )
        return [*self._think.finish(), usage]

    def _parse(self, event: SseEvent) -> dict[str, Any]:
        try:
            chunk = json.loads(event.data)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            raise DependencyDown(
                self._dependency,
                f"The model server sent a malformed chunk: {event.data[:120]!r}. "
                "Check that the URL is that of an OpenAI-compatible API.",
            )
        error = chunk if event.name == "error" else chunk.get("error")
        if error:
            detail: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
            inner = detail.get("error")
            detail = inner if isinstance(inner, dict) else detail
            raise context_error(detail, dependency=self._dependency) or DependencyDown(
                self._dependency,
                f"The model server failed while answering: {detail.get('message', detail)}. Ask again.",
            )
        return chunk

    def _deltas(self, delta: Any) -> list[Delta]:
        if not isinstance(delta, dict):
            return []
        found: list[Delta] = []
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        if thought:
            found.append(Delta(kind="reasoning", text=thought))
        content = _text(delta.get("content"))
        if content:
            found += self._think.feed(content)
        return found


def _timings(timings: dict[str, Any]) -> list[Timings]:
    """llama.cpp's decode counters, once they say anything (its first token has no rate)."""
    tokens, rate = _count(timings.get("predicted_n")), timings.get("predicted_per_second")
    if (
        tokens is None
        or tokens < 2
        or not isinstance(rate, int | float)
        or not math.isfinite(rate)
        or rate <= 0
    ):
        return []
    return [Timings(completion_tokens=tokens, tokens_per_second=float(rate))]


def _text(value: Any) -> str:
    """Text without what can be neither kept nor sent on: NUL, halves of surrogate pairs."""
    return clean_text(value, max_chars=len(value)) if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
