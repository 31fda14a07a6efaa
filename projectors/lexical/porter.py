"""Porter's stemmer as Lucene has it: the published algorithm with its author's three later changes.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980. The changes, which the author made
in his own releases: words of one or two letters stay, `bli` -> `ble` in place of `abli` -> `able`, and
`logi` -> `log`. Written out here because the packages that carry it load for one to two seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

_VOWELS = frozenset("aeiou")

_STEP_2: Mapping[str, str] = {
    **{"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble"},
    **{"alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate"},
    **{"ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al"},
    **{"iviti": "ive", "biliti": "ble", "logi": "log"},
}
_STEP_3: Mapping[str, str] = {
    **{"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""},
}
_STEP_4: Mapping[str, str] = {
    **{"al": "", "ance": "", "ence": "", "er": "", "ic": "", "able": "", "ible": "", "ant": "", "ement": ""},
    **{"ment": "", "ent": "", "ion": "", "ou": "", "ism": "", "ate": "", "iti": "", "ous": "", "ive": ""},
    **{"ize": ""},
}


def porter_stem(word: str) -> str:
    """The stem of a word, lower case."""
    stem = word.lower()
    if len(word) <= 2:
        return stem
    stem = _past_and_gerund(_plural(stem))
    if stem.endswith("y") and "v" in _shape(stem[:-1]):
        stem = stem[:-1] + "i"
    stem = _replaced(stem, _STEP_2, least=1)
    stem = _replaced(stem, _STEP_3, least=1)
    return _tidied(_replaced(stem, _STEP_4, least=2))


def _shape(word: str) -> str:
    """`c` or `v` for each letter: y is a vowel after a consonant, a consonant elsewhere."""
    shape = ""
    for letter in word:
        vowel = letter in _VOWELS or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Whether it ends consonant, vowel, consonant, the last one none of w, x, y."""
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _ends_double(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past_and_gerund(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        stem = word.removesuffix(ending)
        if stem != word and "v" in _shape(stem):
            return _restored(stem)
    return word


def _restored(stem: str) -> str:
    """What lost `ed` or `ing`, with the `e` that fell away before it, or without its doubled letter."""
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _ends_double(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_short(stem) else stem


def _replaced(word: str, endings: Mapping[str, str], *, least: int) -> str:
    """The first ending that fits is replaced if what is before it measures at least `least`."""
    for ending, instead in endings.items():
        if word.endswith(ending):
            stem = word[: -len(ending)]
            fits = _measure(stem) >= least and (ending != "ion" or stem[-1] in "st")
            return stem + instead if fits else word
    return word


def _tidied(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _ends_short(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
