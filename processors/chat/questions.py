"""What a question asks for and the terms it is asked in, by small tables instead of a model.

The tables cover the question words of a dozen languages. A language that is missing loses the bonus
for the kind of answer and nothing else: terms and vectors still find its sentences.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import regex

Stem = Callable[[str], str]
"""Maps a lower-case word to its stem; the identity is a valid one."""

AnswerKind = Literal["person", "time", "number", "place"]

_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]+")
_CAMEL = regex.compile(r"(?<=\p{Ll})(?=\p{Lu})")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ASKING_WORDS: Mapping[AnswerKind, frozenset[str]] = {
    "person": _words(
        """who whom whose author wer wen wem quién quien quiénes quienes qui chi quem wie кто кого кому
        ποιος ποια cine kim ai من कौन किसने author autor auteur autore"""
    ),
    "time": _words(
        """when year date day month wann cuándo cuando quand quando wanneer когда πότε când matí متى कब
        year jahr año année anno jaar год году date datum fecha yıl năm"""
    ),
    "number": _words(
        """many much often percentage percent number amount count cost price old wieviel viele viel
        prozent cuántos cuántas cuánto cuánta cuantos cuantas combien quanti quante quanto quantos hoeveel
        сколько процент πόσο πόσα πόσους πόσες câte câți cât kaç كم कितने कितना कितनी nhiêu"""
    ),
    "place": _words(
        """where city country wo woher wohin dónde donde où dove onde waar где куда πού unde nerede أين
        कहाँ कहां đâu stadt ciudad ville città город"""
    ),
}
"""Words that ask for a kind of answer, where words are spaced."""

ASKING_SIGNS: Mapping[AnswerKind, tuple[str, ...]] = {
    "person": ("谁", "誰", "ใคร"),
    "time": ("何时", "什么时候", "哪一年", "哪年", "几月", "いつ", "何年", "เมื่อไ", "เมื่อใด", "ปีใด"),
    "number": ("多少", "几", "いくつ", "何人", "เท่าไ", "กี่", "百分之"),
    "place": ("哪里", "在哪", "何处", "どこ", "ที่ไหน"),
}
"""The same for scripts that do not space their words: looked for anywhere in the question."""

FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    "en": _words(
        """a an the of to in on at by for from with as is are was were be been being do does did has have
        had what which who whom whose when where why how many much and or not no it its this that these
        those there their his her he she they we you i me my your our can could will would shall should
        may might must if than then so but about into over under after before between during through
        out up down any some all also just only most more give list name tell show please explain
        describe"""
    ),
    "de": _words(
        """der die das den dem des ein eine einen einem einer eines und oder nicht ist sind war waren
        wird wurde wurden werden hat haben hatte hatten wer was wann wo wie warum welche welcher welches
        welchen welchem viele viel in im am an auf aus bei mit nach von vom zu zum zur für über unter
        durch als auch sich es er sie wir ihr man"""
    ),
    "es": _words(
        """el la los las un una unos unas de del al y o no es son fue fueron era eran ser ha han había se
        su sus que qué quién quien quiénes cuál cuáles cuándo cuando dónde donde cómo cuántos cuántas
        cuánto cuánta en por para con sin sobre entre lo le les más como"""
    ),
    "fr": _words(
        """le la les un une des du de au aux et ou est sont était étaient été a ont avait qui que quoi
        quel quelle quels quelles quand où comment pourquoi combien dans par pour avec sans sur entre ce
        cette ces il elle ils elles on ne pas se sa son ses"""
    ),
    "it": _words(
        """il lo la gli i le un uno una di del della da in su con per che chi cosa quale quali quando
        dove come perché quanti quante è sono era e o non si"""
    ),
    "pt": _words(
        """o a os as um uma de do da dos das em no na nos nas ao por para com que quem qual quais quando
        onde como quantos quantas é foi são e ou não se"""
    ),
    "nl": _words("""de het een van en in is zijn was wat wie welke hoe waarom wanneer waar op te met voor"""),
    "ru": _words(
        """и в во на с со к ко по из за от до для о об не что кто кого когда где куда как какой какая
        какое какие каких сколько почему был была было были есть быть это его её их он она они или а но
        у при"""
    ),
    "el": _words(
        """ο η το οι τα του της των τον την και σε με για από που τι ποιος ποια πότε πόσα είναι ήταν"""
    ),
    "ro": _words("""un o de la în și cu pe din a al ale care ce cine când unde cum câte este sunt fost"""),
    "ar": _words("""من ما ماذا متى أين كيف لماذا كم هل في على إلى عن مع هو هي التي الذي كان كانت أو و أي"""),
    "hi": _words(
        """का के की में से को ने पर और या है हैं था थे थी क्या कौन कब कहाँ कैसे क्यों कितने कितना कितनी
        किस किसने यह वह एक"""
    ),
    "tr": _words("""ve bir bu ne kim hangi nasıl neden kaç için ile mi mı da de"""),
    "vi": _words("""là của và các có được trong cho với một những ai gì nào đâu khi"""),
}
"""Words that carry no subject, by language: they tell the language and count for nothing else."""

_SILENT: frozenset[str] = frozenset().union(*FUNCTION_WORDS.values())


def fold(text: str) -> str:
    """`text` in compatibility form and without case, for comparison only."""
    return unicodedata.normalize("NFKC", text).casefold()


def words(text: str) -> list[str]:
    """The folded words of `text` in order, with repeats; pairs of signs where words are not spaced.

    `camelCase` and `snake_case` give their parts.
    """
    found: list[str] = []
    for word in _WORD.findall(fold(_CAMEL.sub(" ", text))):
        at = 0
        for run in _UNSPACED.finditer(word):
            if run.start() > at:
                found.append(word[at : run.start()])
            found.extend(_pairs(run.group()))
            at = run.end()
        if at < len(word):
            found.append(word[at:])
    return found


def _pairs(run: str) -> Iterable[str]:
    if len(run) == 1:
        return [run]
    return [run[i : i + 2] for i in range(len(run) - 1)]


def content_terms(text: str, *, stem: Stem) -> list[str]:
    """The distinct stems of `text` that carry its subject, in order of appearance.

    A question made of function words only ("What is it?") keeps them all.
    """
    every = list(dict.fromkeys(words(text)))
    telling = [word for word in every if word not in _SILENT and not _asks(word)]
    return list(dict.fromkeys(stem(word) for word in telling or every))


def _asks(word: str) -> bool:
    return len(word) > 1 and any(word in sign for signs in ASKING_SIGNS.values() for sign in signs)


def languages(text: str) -> frozenset[str]:
    """The language `text` is likely written in, several when they tie, empty when nothing tells.

    Scripts without spaces count as one language of their own, `unspaced`.
    """
    spoken = _WORD.findall(fold(text))
    if not spoken:
        return frozenset()
    unspaced = sum(len(run) for run in _UNSPACED.findall(text))
    if unspaced * 4 > sum(len(word) for word in spoken):
        return frozenset({"unspaced"})
    counts = {name: sum(word in known for word in spoken) for name, known in FUNCTION_WORDS.items()}
    most = max(counts.values())
    return frozenset(name for name, count in counts.items() if count == most and most > 0)


def answer_kinds(question: str) -> frozenset[AnswerKind]:
    """The kinds of answer the question's own words ask for; empty when they do not say."""
    folded = fold(question)
    spoken = set(_WORD.findall(folded))
    kinds: set[AnswerKind] = {kind for kind, asking in ASKING_WORDS.items() if spoken & asking}
    kinds |= {kind for kind, signs in ASKING_SIGNS.items() if any(sign in folded for sign in signs)}
    if "person" in kinds and "wie" in spoken:  # "who" in Dutch, "how" in German
        kinds.discard("person")
    return frozenset(kinds)


_NUMBER = regex.compile(r"\p{Nd}|[½¼¾]|[一二三四五六七八九十百千万亿两]")
_NUMBER_WORDS = _words(
    """zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty
    hundred thousand million billion half none dozen once twice
    null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert tausend
    uno dos tres cuatro cinco seis siete ocho nueve diez cien mil deux trois quatre cinq sept huit neuf dix
    один два две три четыре пять шесть семь восемь девять десять"""
)
_TIME = regex.compile(
    r"(?<!\p{Nd})(?:1\p{Nd}|20|21)\p{Nd}{2}(?!\p{Nd})|\p{Nd}{1,4}[-./]\p{L}{3}[-./]\p{Nd}{2,4}|\p{Nd}{1,4}[-./]\p{Nd}{1,2}"
    r"[-./]\p{Nd}{1,4}|\p{Nd}{1,2}:\p{Nd}{2}|\p{Nd}\s*[年月日点時]|century|jahrhundert|siglo|siècle|век|世纪"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\b\.?\s+\p{Nd}"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day"
)
_NAME = regex.compile(r"(?<=\S\s{0,3})[\"'“„«(]?\p{Lu}[\p{L}\p{M}'’.-]+|@|·")


def carries(sentence: str, kind: AnswerKind, *, asked: frozenset[str]) -> bool:
    """Whether `sentence` holds something of `kind` that is not already among the `asked` words.

    `asked` are the folded words of the question: repeating its own year or name answers nothing.
    """
    if kind == "time":
        return any(found not in asked for found in _TIME.findall(fold(sentence)))
    fresh = set(_WORD.findall(fold(sentence))) - asked
    if kind == "number":
        return any(_NUMBER.search(word) for word in fresh) or not fresh.isdisjoint(_NUMBER_WORDS)
    return any(fold(found).strip("\"'“„«(.") not in asked for found in _NAME.findall(sentence))


def asked_words(question: str) -> frozenset[str]:
    """The folded words of a question, for `carries`."""
    return frozenset(_WORD.findall(fold(question)))
