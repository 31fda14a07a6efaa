"""Text to index terms: Lucene's english chain, an identifier chain and CJK bigrams.

The english chain is that of Lucene 10's `EnglishAnalyzer`: words by Unicode's UAX #29, possessive
filter, lower case, 33 stop words, Porter's stemmer with Martin Porter's extensions. The other two are
the subfields that make code names and unspaced scripts findable.
"""

from __future__ import annotations

import re
import unicodedata

import regex

from loreline.projectors.lexical.porter import porter_stem

ANALYZER_VERSION = "english-ident-cjk/1"
"""Name of the chains below; indexes written under another name are derived again from their text."""

MAX_TOKEN_CHARS = 255
"""Lucene's `StandardAnalyzer.DEFAULT_MAX_TOKEN_LENGTH`: longer words are cut into pieces of this size."""

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be but by for if in into is it no not of on or such that the their then there "
        "these they this to was will with",
    )
)
"""Lucene's `EnglishAnalyzer.ENGLISH_STOP_WORDS_SET`."""

_MEMO_WORDS = 500_000

_ASCII_RUN = r"(?:[A-Za-z]++(?:[:.'][A-Za-z]++)*+|[0-9]++(?:[.',;][0-9]++)*+)++"
_ASCII_WORD = re.compile(rf"_*+{_ASCII_RUN}(?:_++{_ASCII_RUN})*_*+|_++")

_JOINED = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*+"
_LETTERS = rf"(?:[\p{{WB=ALetter}}\p{{WB=Hebrew_Letter}}]++{_JOINED})++"
_DIGITS = rf"(?:[\p{{WB=Numeric}}]++{_JOINED})++"
_INSIDE_WORD = (
    rf"(?:[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_JOINED}"
    r'|(?<=\p{WB=Hebrew_Letter})"(?=\p{WB=Hebrew_Letter}))'
)
_INSIDE_NUMBER = rf"[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_JOINED}"
_RUN = (
    rf"(?:(?:\p{{WB=Katakana}}++{_JOINED})++"
    rf"|(?:{_LETTERS}(?:{_INSIDE_WORD}{_LETTERS})*+|{_DIGITS}(?:{_INSIDE_NUMBER}{_DIGITS})*+)++)"
)
_BRIDGE = rf"(?:\p{{WB=ExtendNumLet}}++{_JOINED})++"
_EMOJI = (
    r"\p{WB=Regional_Indicator}{2}"
    rf"|(?:\p{{Emoji_Presentation}}|\p{{Extended_Pictographic}}(?=\uFE0F)){_JOINED}"
    rf"(?:(?<=\u200d)\p{{Extended_Pictographic}}{_JOINED})*+"
)
_UNICODE_WORD = regex.compile(
    rf"(?:{_BRIDGE})?+{_RUN}(?:{_BRIDGE}{_RUN})*(?:{_BRIDGE})?+|{_BRIDGE}"
    rf"|[\p{{Script=Han}}\p{{Script=Hiragana}}]{_JOINED}|\p{{LB=SA}}++|{_EMOJI}"
)
_BRIDGE_ONLY = regex.compile(r"[\p{WB=ExtendNumLet}\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*")
_CJK_RUN = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u30FC\uFF70\uFF9E\uFF9F]+"
)
_CAMEL_STEP = re.compile(r"([a-z0-9])([A-Z])")
_IDENTIFIER_JOINTS = str.maketrans("_.:", "   ")
_APOSTROPHES = "'\u2019\uff07"


def words(text: str) -> list[str]:
    """The words of UAX #29 that hold a letter, digit, ideograph or emoji, in order, as written.

    Ideographs and hiragana are single words, katakana and South-East Asian scripts runs. Any str is
    accepted; time is linear in its length. Source: Unicode Standard Annex #29, rules WB3-WB13b, as in
    Lucene's `StandardTokenizer`.
    """
    found: list[str] = []
    for line in text.split("\n"):
        pattern = _ASCII_WORD if line.isascii() else _UNICODE_WORD
        found.extend(pattern.findall(line))
    if any(len(word) > MAX_TOKEN_CHARS for word in found):
        found = [piece for word in found for piece in _pieces(word)]
    return found


class Analyzer:
    """The three chains, with a memo of the words seen so far. Safe to share between threads."""

    def __init__(self) -> None:
        self._english_memo: dict[str, str] = {}
        self._identifier_memo: dict[str, str] = {}

    def analyze(self, text: str) -> list[str]:
        """Terms of Lucene's english analyzer, in text order, repeats kept."""
        return self._terms(words(text), memo=self._english_memo, possessive=True)

    def identifiers(self, text: str) -> list[str]:
        """Terms of the parts of names: `fooBar`, `ERR_2041`, `a.b::c` fall apart before the words are cut.

        Elasticsearch's equivalent: char filters `([a-z0-9])([A-Z])` -> `$1 $2` and `_ . :` -> space,
        then standard, lowercase, stop, porter_stem.
        """
        parted = _CAMEL_STEP.sub(r"\1 \2", text).translate(_IDENTIFIER_JOINTS)
        return self._terms(words(parted), memo=self._identifier_memo, possessive=False)

    def cjk(self, text: str) -> list[str]:
        """Overlapping pairs of every run of Han, kana or Hangul, width-folded; a lone sign stands alone."""
        if text.isascii():
            return []
        pairs: list[str] = []
        for found in _CJK_RUN.findall(text):
            run = unicodedata.normalize("NFKC", found)
            pairs.extend(run[i : i + 2] for i in range(max(1, len(run) - 1)))
        return pairs

    def _terms(self, found: list[str], *, memo: dict[str, str], possessive: bool) -> list[str]:
        terms: list[str] = []
        for word in found:
            term = memo.get(word)
            if term is None:
                if len(memo) >= _MEMO_WORDS:
                    memo.clear()
                term = memo[word] = self._term(word, possessive=possessive)
            if term:
                terms.append(term)
        return terms

    def _term(self, word: str, *, possessive: bool) -> str:
        """The term of one word; empty for a stop word or a mere underscore."""
        if possessive and len(word) >= 2 and word[-1] in "sS" and word[-2] in _APOSTROPHES:
            word = word[:-2]
        lowered = word.lower() if word.isascii() else "".join(c.lower()[0] for c in word)
        if lowered in STOP_WORDS or _BRIDGE_ONLY.fullmatch(lowered):
            return ""
        # Every rule of Porter's begins at an ASCII suffix: other words pass through unchanged.
        return porter_stem(lowered) if "a" <= lowered[-1] <= "z" else lowered


def _pieces(word: str) -> list[str]:
    return [word[i : i + MAX_TOKEN_CHARS] for i in range(0, len(word), MAX_TOKEN_CHARS)]
