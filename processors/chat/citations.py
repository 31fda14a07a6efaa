"""Checks the numbered marks of an answer against the passages it was given, whole or as it streams.

A mark is `[2]`, `[1, 3]`, `[2-4]` or the same in full-width brackets, three digits at most. What looks
like one inside code, a link, a footnote, a link definition or an index (`a[1]`) is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import regex

from loreline.schemas.records import Citation, RetrievedChunk

MAX_RANGE = 50
"""A wider range than this is no citation; only its ends are looked at."""

_MARK = regex.compile(
    r"[\[【［][ ]{0,2}(?P<list>\d{1,3}(?:[ ]{0,2}[-–—,;、，][ ]{0,2}\d{1,3}){0,15})[ ]{0,2}[\]】］]"
)
_PLAIN = regex.compile(r"[^\n`\[【［\\ \t]+")
_BLANKS = regex.compile(r"[ \t]+")
_FENCE = regex.compile(r"[ ]{0,3}(?P<bar>`{3,}(?=[^`\n]*(?:\n|\Z))|~{3,})")
_FENCE_START = regex.compile(r"[ ]{0,3}(?:`{0,2}|~{0,2}|(?:`{3,}|~{3,})[^\n]*)\Z")
_PARAGRAPH_END = regex.compile(r"\n[ \t]*\n")
_INDEXED = regex.compile(
    r"(?:\b\p{L}|[\p{L}\p{N}]*_[\p{L}\p{N}_]*|\p{Ll}+\p{Lu}\p{L}*|\p{L}+\p{Nd}+"
    r"|\b(?:arr|array|args|argv|data|dict|items|list|matrix|row|rows|tuple|values|vec|vector)|\)|[\]】］])\Z"
)
_OPENERS = "[【［"
_CONTEXT_CHARS = 40


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer whose every mark names a passage it was given.

    Attributes:
        text: the answer with each mark in the form `[n]` and the invalid ones taken out.
        citations: one a passage cited, in order of first mention.
        dropped: the numbers taken out, in order, with repeats.
    """

    text: str
    citations: tuple[Citation, ...]
    dropped: tuple[int, ...]


def numbered(passages: Sequence[RetrievedChunk]) -> dict[int, RetrievedChunk]:
    """Passages by their mark: the final rank where a trace tells it, the place in the list otherwise.

    Raises ValueError if two passages have one mark.
    """
    marks: dict[int, RetrievedChunk] = {}
    for place, passage in enumerate(passages, start=1):
        mark = passage.trace.final_rank if passage.trace else place
        if mark in marks:
            raise ValueError(f"two passages have the mark {mark}; rank each passage once")
        marks[mark] = passage
    return marks


def check_answer(answer: str, passages: Sequence[RetrievedChunk]) -> CheckedAnswer:
    """Keeps the marks of `answer` that name one of `passages` and takes the others out."""
    stream = CitationStream(passages)
    text = stream.feed(answer) + stream.close()
    return CheckedAnswer(text=text, citations=stream.citations, dropped=stream.dropped)


class CitationStream:
    """`check_answer` for an answer that arrives in fragments.

    What `feed` and `close` return, joined, is the checked text however the answer was cut. A mark is
    held back until it is decided, a code span until it is closed: an invalid mark never gets out.
    """

    def __init__(self, passages: Sequence[RetrievedChunk]) -> None:
        """passages: those given to the model, numbered as `numbered` does."""
        self._chunk_ids: Mapping[int, str] = {
            mark: passage.chunk_id for mark, passage in numbered(passages).items()
        }
        self._held = ""
        self._before = "\n"
        self._fence = ""
        self._cited: dict[int, Citation] = {}
        self._dropped: list[int] = []

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The passages cited so far, in order of first mention."""
        return tuple(self._cited.values())

    @property
    def dropped(self) -> tuple[int, ...]:
        """The numbers taken out so far."""
        return tuple(self._dropped)

    def feed(self, fragment: str) -> str:
        """Takes the next fragment; returns what can be shown now, possibly nothing."""
        self._held += fragment
        return self._drain(final=False)

    def close(self) -> str:
        """Returns what was still held back; the stream takes nothing more."""
        return self._drain(final=True)

    def _drain(self, *, final: bool) -> str:
        shown: list[str] = []
        at = 0
        while at < len(self._held):
            step = self._step(at, final=final)
            if step is None:
                break
            end, text = step
            shown.append(text)
            at = end
        self._held = self._held[at:]
        return "".join(shown)

    def _step(self, at: int, *, final: bool) -> tuple[int, str] | None:
        """Decides the next piece of what is held: (its end, what to show), None to wait for more."""
        held = self._held
        if self._before.endswith("\n"):
            line = self._line(at, final=final)
            if line is None or line[0] > at:
                return line
        plain = _PLAIN.match(held, at)
        if plain:
            return self._keep(at, plain.end())
        char = held[at]
        if char == "\n":
            return self._keep(at, at + 1)
        if char == "\\":
            return None if at + 1 == len(held) and not final else self._keep(at, min(at + 2, len(held)))
        if char == "`":
            return self._code(at, final=final)
        blanks = _BLANKS.match(held, at)
        bracket = blanks.end() if blanks else at
        if bracket == len(held):
            return self._keep(at, bracket) if final else None
        if held[bracket] not in _OPENERS:
            return self._keep(at, bracket)
        return self._bracket(at, bracket, final=final)

    def _keep(self, at: int, end: int, *, as_mark: bool = False) -> tuple[int, str]:
        text = self._held[at:end]
        self._before = (self._before + text)[-_CONTEXT_CHARS:]
        return end, text

    def _line(self, at: int, *, final: bool) -> tuple[int, str] | None:
        """At the start of a line: takes it whole if it is code, (at, "") if it is text."""
        held = self._held
        end = held.find("\n", at) + 1
        if not end and not final and (self._fence or _FENCE_START.match(held, at)):
            return None
        end = end or len(held)
        fence = _FENCE.match(held, at, end)
        if not self._fence:
            if fence is None:
                return at, ""
            self._fence = fence["bar"]
        elif fence and fence["bar"].startswith(self._fence) and not held[fence.end() : end].strip():
            self._fence = ""
        return self._keep(at, end)

    def _code(self, at: int, *, final: bool) -> tuple[int, str] | None:
        """A code span whole, or its opening backticks alone when nothing in the paragraph closes it."""
        held = self._held
        opened = at
        while opened < len(held) and held[opened] == "`":
            opened += 1
        if opened == len(held) and not final:
            return None
        paragraph = _PARAGRAPH_END.search(held, opened)
        limit = paragraph.start() if paragraph else len(held)
        ticks = held[at:opened]
        closing = regex.compile(rf"(?<!`){ticks}(?!`)").search(held, opened, limit)
        if closing is None:
            return self._keep(at, opened) if paragraph or final else None
        if closing.end() == len(held) and not final:
            return None
        return self._keep(at, closing.end())

    def _bracket(self, at: int, bracket: int, *, final: bool) -> tuple[int, str] | None:
        """Blanks and the bracket after them: a mark to keep, to take out, or no mark at all."""
        held = self._held
        mark = _MARK.match(held, bracket, partial=not final)
        if mark is None:
            return self._keep(at, bracket + 1)
        if mark.partial or (mark.end() == len(held) and not final):
            return None
        after = held[mark.end() : mark.end() + 1]
        numbers = _numbers(mark["list"])
        if self._is_no_mark(at, bracket, after) or (0 in numbers and len(numbers) > 1):
            return self._keep(at, mark.end())
        known = [number for number in numbers if number in self._chunk_ids]
        self._dropped.extend(number for number in numbers if number not in self._chunk_ids)
        for number in known:
            self._cited.setdefault(number, Citation(mark=number, chunk_id=self._chunk_ids[number]))
        blanks = held[at:bracket]
        if known:
            text = blanks + "".join(f"[{number}]" for number in known)
            self._before = " "
        else:
            text = self._gap(blanks, after)
            self._before = (self._before + text)[-_CONTEXT_CHARS:]
        return mark.end(), text

    def _is_no_mark(self, at: int, bracket: int, after: str) -> bool:
        """Whether a bracketed number is a link, a link definition, or an index."""
        if after == "(":
            return True
        if bracket > at:
            return after == ":" and self._before.endswith("\n")
        if after == ":" and self._before.endswith("\n"):
            return True
        return bool(_INDEXED.search(self._before))

    def _gap(self, blanks: str, after: str) -> str:
        """What stands where a mark was taken out: nothing, unless the neighbours would form something new."""
        last = self._before[-1]
        if not blanks and (last in "[【［`~\\!" or last.isdigit() or last in ",;-–—、，"):
            return "…" if self._opens_list() or last in "`~\\!" else ""
        if last == "\n" and after in ("`", "~"):
            return "…"
        keeps_blanks = after.isalnum() or after in _OPENERS
        return blanks if after and keeps_blanks else ""

    def _opens_list(self) -> bool:
        return bool(regex.search(r"[\[【［][\d ,;、，–—-]*\Z", self._before))


def _numbers(listed: str) -> list[int]:
    """The numbers a mark lists, ranges spelled out, each once, in order."""
    found: list[int] = []
    for part in regex.split(r"[,;、，]", listed):
        ends = [int(end) for end in regex.split(r"[-–—]", part)]
        if len(ends) == 2 and 0 <= ends[1] - ends[0] <= MAX_RANGE:
            ends = list(range(ends[0], ends[1] + 1))
        found.extend(ends)
    return list(dict.fromkeys(found))
