"""Turns picked sentences into quotations: with the context they lean on, joined, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import regex

from loreline.processors.chat.sentences import Sentence, starts_line

MAX_LEAD_CHARS = 300
"""Of a sentence brought along because the picked one opens with a pronoun."""

MAX_LIST_ITEMS = 8
"""Of a list brought along because the picked sentence announces it."""

_LEANS = regex.compile(
    r"""(?:he|she|it|they|this|these|those|his|her|its|their|such|here|both
    |er|sie|es|dies|diese|dieser|dieses|il|elle|ils|elles|cela|ceux-ci|esto|esta|este|estos|ellos|ella
    |он|она|оно|они|это)\b|[他她它其这這]""",
    regex.VERBOSE | regex.IGNORECASE,
)
_ITEM_MARK = regex.compile(r"[-*+•‣◦▪–—]\s+")
_SPACE = regex.compile(r"\s+")
_ACTIVE = regex.compile(r"[\\`\[\]<>*~]|(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])|&(?=#?\w+;)")
_OPENS_BLOCK = regex.compile(r"(?:[#>+=|:-]|\d{1,9}(?=[.)]\s))")
_ESCAPED = regex.compile(r"\\([\\`\[\]<>*~_&#>+=|:.)-])")


@dataclass(frozen=True)
class Quote:
    """`passage.content[start:end]`, made of the sentences from `first` to `last`."""

    passage: int
    first: int
    last: int
    start: int
    end: int


def widen(content: str, sentences: Sequence[Sentence], *, passage: int, place: int) -> Quote:
    """The quotation of one sentence, with the sentence before or the list after it where it needs them."""
    first = last = place
    text = content[sentences[place].start : sentences[place].end]
    if place > 0 and _LEANS.match(text):
        lead = sentences[place - 1]
        if lead.kind == "sentence" and lead.end - lead.start <= MAX_LEAD_CHARS:
            first = place - 1
    if text.endswith((":", "：")):
        while (
            last + 1 < len(sentences) and sentences[last + 1].kind == "item" and last - place < MAX_LIST_ITEMS
        ):
            last += 1
    return Quote(passage, first, last, sentences[first].start, sentences[last].end)


def join_quotes(quotes: Iterable[Quote], *, pools: Sequence[Sequence[Sentence]]) -> list[Quote]:
    """Quotations by passage in the order passages first appear, in reading order, neighbours joined."""
    by_passage: dict[int, list[Quote]] = {}
    for quote in quotes:
        by_passage.setdefault(quote.passage, []).append(quote)
    joined: list[Quote] = []
    for passage, found in by_passage.items():
        run: Quote | None = None
        for quote in sorted(found, key=lambda each: (each.first, each.last)):
            if run is not None and quote.first <= run.last + 1:
                last = max(run.last, quote.last)
                run = Quote(passage, run.first, last, run.start, pools[passage][last].end)
                continue
            if run is not None:
                joined.append(run)
            run = quote
        if run is not None:
            joined.append(run)
    return joined


def render(exact: str, *, mark: int) -> str:
    """A quotation as Markdown that shows its very words, white space apart, then its mark.

    Lists keep their lines. Signs that Markdown or a reader of marks would act on are escaped.
    """
    lines = _display_lines(exact)
    shown = _escape(lines[0])
    for line in lines[1:]:
        shown += ("\n" if _ITEM_MARK.match(line) else "  \n") + _escape(line)
    return f"{shown} [{mark}]"


def _display_lines(exact: str) -> list[str]:
    """One line a list item, table row or field; lines that merely wrapped stay together."""
    found: list[str] = []
    for raw in exact.splitlines():
        line = _SPACE.sub(" ", raw).strip()
        if found and line and not starts_line(line):
            found[-1] += " " + line
        elif line:
            found.append(line)
    return found


def _escape(line: str) -> str:
    item = _ITEM_MARK.match(line)
    if item:
        return "- " + str(_ACTIVE.sub(r"\\\g<0>", line[item.end() :]))
    safe = str(_ACTIVE.sub(r"\\\g<0>", line))
    opens = _OPENS_BLOCK.match(safe)
    if opens is None:
        return safe
    at = opens.end() if safe[0].isdigit() else 0
    return f"{safe[:at]}\\{safe[at:]}"


def plain_text(markdown: str) -> str:
    """A rendered answer for a terminal: the same text without the escapes."""
    return str(_ESCAPED.sub(r"\1", markdown))
