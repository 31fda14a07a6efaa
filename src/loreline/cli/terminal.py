"""The terminal: answers without their Markdown escapes, and lines as they are typed."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading

_CODE_OR_ESCAPE = re.compile(r"(`+)(?:(?!\1).)*?\1(?!`)|\\([!-/:-@\[-`{-~])", re.DOTALL)
_UNDECIDED = re.compile(r"\\\Z|`")
MAX_HELD_CHARS = 2000
"""A code span that does not end within this many characters is none."""


def plain_words(markdown: str) -> str:
    """The text without the backslashes that keep signs from being Markdown; code stays as it is."""
    return _CODE_OR_ESCAPE.sub(lambda found: found[2] or found[0], markdown)


class PlainWords:
    """`plain_words` for an answer that comes in fragments."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, fragment: str) -> str:
        """Takes the next fragment; returns what can be shown now, possibly nothing."""
        text = self._held + fragment
        shown = _decided(text)
        self._held = text[shown:]
        return plain_words(text[:shown])

    def close(self) -> str:
        """What was still held back."""
        held, self._held = self._held, ""
        return plain_words(held)


def _decided(text: str) -> int:
    """How much of a beginning can be shown whatever follows: up to an open code span or a last backslash."""
    at = 0
    for found in _CODE_OR_ESCAPE.finditer(text):
        # What looks like an escape behind an open backtick may turn out to be code.
        open_at = text.find("`", at, found.start())
        if open_at >= 0 and len(text) - open_at <= MAX_HELD_CHARS:
            return open_at
        # A closing run of backticks at the very end may grow and then close nothing.
        if found.end() == len(text) and found[1]:
            return found.start() if len(text) - found.start() <= MAX_HELD_CHARS else len(text)
        at = found.end()
    open_ = _UNDECIDED.search(text, at)
    if open_ is None or len(text) - open_.start() > MAX_HELD_CHARS:
        return len(text)
    return open_.start()


def typed_lines() -> asyncio.Queue[str | None]:
    """Lines of standard input as they come, then None.

    A thread reads them, so that a terminal, a pipe and a file all do. It is left behind at the end: it holds
    nothing the interpreter would wait for, and a line that nobody types keeps no command from stopping.
    """
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    source = sys.stdin.fileno()

    def hand_over(line: str | None) -> None:
        try:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        except RuntimeError:
            return  # the loop is closed: the command has ended

    def read() -> None:
        rest = b""
        while piece := os.read(source, 65536):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                hand_over(line.decode("utf-8", "replace"))
        if rest:
            hand_over(rest.decode("utf-8", "replace"))
        hand_over(None)

    threading.Thread(target=read, name="typed-lines", daemon=True).start()
    return lines
