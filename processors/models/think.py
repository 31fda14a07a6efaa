"""Tell a reasoning model's thoughts from its answer while both are still coming in."""

from __future__ import annotations

from typing import Literal

from loreline.schemas.ports import Delta

Kind = Literal["reasoning", "token"]

_OPEN = "<think>"
_CLOSE = "</think>"


class ThinkSplitter:
    """Splits streamed text into `reasoning` (inside think tags) and `token` (the answer).

    Feed fragments as they come, then call `finish` once. However the text is cut into fragments,
    the joined output is the same. Tags count only before the answer begins: afterwards `<think>`
    is a word like any other, so an answer *about* the tag is not swallowed. White space around the
    tags and before the answer is dropped. A block that is never closed is all reasoning.

    starts_inside: the prompt template already opened the block, so the text begins with a thought.
    """

    def __init__(self, *, starts_inside: bool = False) -> None:
        self._held = ""
        self._inside = starts_inside
        self._answering = False
        self._at_start = True

    def feed(self, text: str) -> list[Delta]:
        """The deltas that `text` completes; possibly none, while a tag may still be coming."""
        self._held += text
        deltas: list[Delta] = []
        while self._step(deltas):
            pass
        return deltas

    def finish(self) -> list[Delta]:
        """What was held back in case it became a tag."""
        held, self._held = self._held, ""
        if not held.strip():
            return []
        return [Delta(kind="reasoning" if self._inside else "token", text=held)]

    def _step(self, deltas: list[Delta]) -> bool:
        """Consume something of what is held; False when nothing more can be decided."""
        if self._answering:
            self._emit(deltas, self._held, kind="token")
            self._held = ""
            return False
        if self._at_start:
            self._held = self._held.lstrip()
        if not self._held:
            return False
        return self._step_inside(deltas) if self._inside else self._step_before_answer()

    def _step_inside(self, deltas: list[Delta]) -> bool:
        thought, tag, rest = self._held.partition(_CLOSE)
        if tag:
            self._emit(deltas, thought.rstrip(), kind="reasoning")
            self._held, self._inside, self._at_start = rest, False, True
            return True
        keep = _undecided(thought, _CLOSE)
        self._emit(deltas, thought[: len(thought) - keep], kind="reasoning")
        self._held = thought[len(thought) - keep :]
        return False

    def _step_before_answer(self) -> bool:
        if self._held.startswith(_OPEN):
            self._held, self._inside, self._at_start = self._held[len(_OPEN) :], True, True
            return True
        if _OPEN.startswith(self._held):
            return False
        self._answering = True
        return True

    def _emit(self, deltas: list[Delta], text: str, *, kind: Kind) -> None:
        if text:
            self._at_start = False
            deltas.append(Delta(kind=kind, text=text))


def _undecided(text: str, tag: str) -> int:
    """Length of the end of `text` that cannot be given out yet: white space, then the tag's beginning."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            break
    else:
        size = 0
    head = text[: len(text) - size]
    return size + len(head) - len(head.rstrip())
