"""Turns picked sentences into quotations: with the context they lean on, joined, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
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
    """The quotation of one sentence, with the sentence before or the list after it where it needs them.

    For a heading it is what stands below: a heading answers by its section.
    """
    first = last = place
    text = content[sentences[place].start : sentences[place].end]
    if sentences[place].kind == "heading":
        first = last = below(sentences, place)
        if sentences[first].kind == "item":
            last = _list_end(sentences, first)
    elif text.endswith((":", "：")):
        last = _list_end(sentences, place)
    if first == place and place > 0 and _LEANS.match(text):
        lead = sentences[place - 1]
        if lead.kind == "sentence" and lead.end - lead.start <= MAX_LEAD_CHARS:
            first = place - 1
    return Quote(passage, first, last, sentences[first].start, sentences[last].end)


def below(sentences: Sequence[Sentence], place: int) -> int:
    """The place of what a heading at `place` stands over; `place` itself when nothing follows."""
    after = place + 1
    while after < len(sentences) and sentences[after].kind == "ornament":
        after += 1
    return after if after < len(sentences) and sentences[after].kind != "heading" else place


def _list_end(sentences: Sequence[Sentence], place: int) -> int:
    """The place of the last item of the list that goes on after `place`."""
    last = place
    while last + 1 < len(sentences) and sentences[last + 1].kind == "item" and last - place < MAX_LIST_ITEMS:
        last += 1
    return last


def join_quotes(quotes: Sequence[Quote], *, pools: Sequence[Sequence[Sentence]]) -> list[Quote]:
    """Neighbouring quotations as one, each standing where the better of them stood.

    quotes: best first. pools: the sentences of each passage.
    """
    runs: list[tuple[int, Quote]] = []
    in_reading_order = sorted(enumerate(quotes), key=lambda each: (each[1].passage, each[1].first, each[0]))
    for place, quote in in_reading_order:
        if runs and runs[-1][1].passage == quote.passage and quote.first <= runs[-1][1].last + 1:
            best, run = runs.pop()
            last = max(run.last, quote.last)
            joined = Quote(run.passage, run.first, last, run.start, pools[run.passage][last].end)
            runs.append((min(best, place), joined))
        else:
            runs.append((place, quote))
    return [run for _, run in sorted(runs, key=lambda each: each[0])]


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
