"""How much of a question a text covers, the question's rarer terms counting more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from loreline.processors.chat.questions import Stem, words


class Stems:
    """Stems of texts, each word stemmed once."""

    def __init__(self, stem: Stem) -> None:
        self._stem = stem
        self._known: dict[str, str] = {}

    def of(self, text: str) -> frozenset[str]:
        """The distinct stems of `text`."""
        found = set()
        for word in words(text):
            if word not in self._known:
                self._known[word] = self._stem(word)
            found.add(self._known[word])
        return frozenset(found)


@dataclass(frozen=True)
class Cover:
    """How much of a question a set of terms covers, rare terms counting more."""

    weights: dict[str, float]
    alike: dict[str, frozenset[str]]

    @classmethod
    def over(cls, wanted: Sequence[str], sentences: Sequence[frozenset[str]]) -> Cover:
        """Weighs each wanted term by how few of the sentences hold it or a word like it."""
        vocabulary: set[str] = set().union(*sentences)
        alike = {term: frozenset(word for word in vocabulary if _alike(term, word)) for term in wanted}
        weights = {
            term: math.log(1 + (len(sentences) + 1) / (1 + sum(not like.isdisjoint(s) for s in sentences)))
            for term, like in alike.items()
        }
        return cls(weights, alike)

    def of(self, terms: frozenset[str]) -> float:
        """Between 0 and 1."""
        whole = sum(self.weights.values())
        held = sum(
            w for term, w in self.weights.items() if term in terms or not self.alike[term].isdisjoint(terms)
        )
        return held / whole if whole else 0.0


def _alike(term: str, word: str) -> bool:
    """Whether two stems are one word, allowing for an ending the stemmer does not know."""
    if term == word:
        return True
    shorter, longer = sorted((len(term), len(word)))
    shared = max(4, math.ceil(0.7 * longer))
    return shorter >= shared and term[:shared] == word[:shared]
