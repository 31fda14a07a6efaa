"""Cuts a passage into sentences with exact offsets, in many scripts, without a model.

Lines come first: a list item, a table row, a heading, a record of `Key: value` lines stands alone, and a
line that merely wraps is joined to the next. Inside such a run the terminators of the script decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

Kind = Literal["sentence", "item", "row", "heading", "record", "ornament"]

MAX_SENTENCE_CHARS = 480
"""Longer runs (Thai, code, a legal clause) are cut at a space: a quotation should fit in a glance."""

WRAP_SHARE = 0.55
"""A line shorter than this share of the widest line of its paragraph was ended on purpose."""


MAX_HEADING_CHARS = 60
"""Longer than this, a line of its own is text even without a full stop."""


@dataclass(frozen=True)
class Sentence:
    """`content[start:end]`, half open, in code points, without outer white space.

    Attributes:
        kind: `sentence` for running text; `record` for lines of `Key: value` that belong together;
            `ornament` for rules and underlines, never worth quoting.
    """

    start: int
    end: int
    kind: Kind = "sentence"


@dataclass(frozen=True)
class _Line:
    start: int
    end: int
    kind: Kind | None
    text: str


_ORNAMENT = regex.compile(r"[\W_]+")
_HEADING = regex.compile(r"#{1,6}\s+\S")
_ITEM = regex.compile(r"(?:[-*+•‣◦▪–—]|\(?\d{1,3}[.)、]|\(?[A-Za-z]\)|[a-z]\.)\s+\S")
_FIELD = regex.compile(r":?\*{0,2}\p{L}[\p{L}\p{N} _/()-]{0,30}\*{0,2}[:：]\*{0,2}(?:\s+\S|\p{Han})")

_CJK_STOPS = "。！？｡"
_STOPS = ".!?…؟۔।॥։።" + _CJK_STOPS
_CLOSERS = "\"'”’»›)]}）」』】》〉“"
_BREAK = regex.compile(rf"[{_STOPS}]+[{regex.escape(_CLOSERS, special_only=False)}]*")
_PUNCTUATED = regex.compile(rf"[{_STOPS}]\S?\Z|[,;，；、]\s")
_LAST_WORD = regex.compile(r"[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N}.]*\Z")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER_ENDS = _words(
    """mr mrs ms dr prof rev hon st sen rep gov gen col capt lt cmdr sgt messrs mme mlle vs cf ca approx
    fig figs eq eqs nr vol vols pp e.g i.e
    z.b d.h u.a bzw evtl ggf vgl bsp inkl zzgl sog geb
    sra srta ej pág págs núm avda p.ex
    т.е г ул стр рис см проф акад им dott"""
)
_MAY_END = _words(
    """jr sr etc al est sec secs no nos ch chap p pt art ed eds inc ltd co corp dept univ assn bros
    a.m p.m u.s u.k ph.d b.c a.d d.c jan feb mar apr jun jul aug sep sept oct nov dec
    mon tue wed thu fri sat sun usw str abs hr fr mind max min ud uds av aprox т.д т.п гг вв др
    млн млрд тыс руб ecc pag nn"""
)
_ORDINAL_MONTHS = tuple(
    sorted(
        _words(
            """januar jänner februar märz april mai juni juli august september oktober november
            dezember marts maj december"""
        )
    )
)


def split_sentences(content: str) -> tuple[Sentence, ...]:
    """Cuts `content` into sentences, in order, not overlapping.

    Every character that is not white space lies in exactly one of them. Linear in the length.
    """
    found: list[Sentence] = []
    for start, end, kind in _runs(content):
        whole = kind in ("ornament", "heading", "record")
        for a, b in [(start, end)] if whole else _stops(content, start, end):
            found.extend(Sentence(x, y, kind) for x, y in _fold(content, a, b))
    return tuple(found)


def starts_line(text: str) -> bool:
    """Whether a line of a quotation keeps its own line when it is shown."""
    return _line_kind(text) is not None


def _runs(content: str) -> Iterator[tuple[int, int, Kind]]:
    """Yields runs of joined lines as (start, end, kind), trimmed, none empty."""
    for paragraph in _paragraphs(content):
        widest = max(len(line.text) for line in paragraph)
        run = [paragraph[0]]
        for line in paragraph[1:]:
            if _breaks(run, line, widest=widest):
                yield run[0].start, run[-1].end, _run_kind(run, underlined=line.kind == "ornament")
                run = []
            run.append(line)
        yield run[0].start, run[-1].end, _run_kind(run, underlined=False)


def _run_kind(run: Sequence[_Line], *, underlined: bool) -> Kind:
    """The kind of a run; a short unpunctuated line that stands alone is a heading."""
    first = run[0]
    if first.kind == "record":
        return "record" if sum(line.kind == "record" for line in run) > 1 else "sentence"
    if first.kind is not None:
        return first.kind
    if len(run) > 1 or (len(first.text) > MAX_HEADING_CHARS and not underlined):
        return "sentence"
    return "heading" if underlined or not _PUNCTUATED.search(first.text) else "sentence"


def _paragraphs(content: str) -> Iterator[list[_Line]]:
    """Yields the lines between blank lines, trimmed."""
    lines: list[_Line] = []
    at = 0
    for raw in content.splitlines(keepends=True):
        text = raw.strip()
        start = at + len(raw) - len(raw.lstrip())
        at += len(raw)
        if text:
            lines.append(_Line(start, start + len(text), _line_kind(text), text))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def _line_kind(text: str) -> Kind | None:
    """The kind a line declares by its own look; None for running text."""
    if _HEADING.match(text):
        return "heading"
    if _ORNAMENT.fullmatch(text):
        return "ornament"
    if _ITEM.match(text):
        return "item"
    if "\t" in text or " | " in text or (len(text) > 2 and text[0] == text[-1] == "|"):
        return "row"
    if _FIELD.match(text) and len(text) <= 200:
        return "record"
    return None


def _breaks(run: Sequence[_Line], line: _Line, *, widest: int) -> bool:
    """Whether the line end before `line` also ends the run."""
    first, last = run[0], run[-1]
    if first.kind == "record" and line.kind in ("record", None):
        return line.end - first.start > MAX_SENTENCE_CHARS
    if line.kind == "record" and first.kind is None:
        return _ends_on_purpose(last, line, widest=widest)
    if line.kind is not None or last.kind in ("heading", "ornament", "row"):
        return True
    return _ends_on_purpose(last, line, widest=widest)


def _ends_on_purpose(last: _Line, line: _Line, *, widest: int) -> bool:
    """A short line before one that opens with a capital or digit did not wrap: it ended."""
    first = line.text[0]
    if first.islower() or last.text[-1] in ",;-–(":
        return False
    return len(last.text) < WRAP_SHARE * widest


def _stops(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cuts a run at its sentence ends."""
    begin = start
    marker = _ITEM.match(content, start, end)
    search_from = marker.end() - 1 if marker else start
    for stop in _BREAK.finditer(content, search_from, end):
        if stop.start() < begin or not _ends_sentence(content, stop, begin, end):
            continue
        yield begin, stop.end()
        begin = stop.end()
        while begin < end and content[begin].isspace():
            begin += 1
    if begin < end:
        yield begin, end


def _ends_sentence(content: str, stop: regex.Match[str], begin: int, end: int) -> bool:
    """Whether the terminator found at `stop` ends the sentence that began at `begin`."""
    if stop.end() >= end or any(char in _CJK_STOPS for char in stop.group()):
        return True
    if not content[stop.end()].isspace():
        return False
    rest = content[stop.end() : stop.end() + 40].lstrip()
    following = rest.lstrip("\"'“‘«(„¿¡[")
    if following[:1].islower():
        return False
    if stop.group()[0] != ".":
        return True
    return not _abbreviates(content[max(begin, stop.start() - 24) : stop.start()], following)


def _abbreviates(before: str, following: str) -> bool:
    """Whether the full stop after `before` belongs to its last word."""
    match = _LAST_WORD.search(before)
    if match is None:
        return False
    word = match.group()
    lower = word.lower().rstrip(".")
    if lower in _NEVER_ENDS or (len(word) == 1 and word.lower() != word.upper()):
        return True
    if word.isdigit() and len(word) <= 2:
        return following.lower().startswith(_ORDINAL_MONTHS)
    return lower in _MAY_END and not following[:1].isupper()


def _fold(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cuts what is too long to quote at the last good place before the limit."""
    while end - start > MAX_SENTENCE_CHARS:
        limit = start + MAX_SENTENCE_CHARS
        cut = max(
            content.rfind(mark, start + MAX_SENTENCE_CHARS // 2, limit) + 1
            for mark in ("\n", "; ", "；", "，")
        )
        cut = cut or content.rfind(" ", start + 1, limit) or 0
        if cut <= start:
            cut = limit
        stop = cut
        while content[stop - 1].isspace():
            stop -= 1
        if stop > start:
            yield start, stop
        start = cut
        while start < end and content[start].isspace():
            start += 1
    if start < end:
        yield start, end
