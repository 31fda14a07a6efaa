"""A corpus to measure with: seeded text with a natural spread of words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

_SYLLABLES = (
    "ba",
    "ker",
    "lin",
    "mo",
    "tas",
    "ven",
    "dor",
    "shi",
    "ula",
    "pre",
    "con",
    "tri",
    "sol",
    "ne",
    "gar",
)


def vocabulary(size: int, *, seed: int) -> list[str]:
    """Made-up words, each once."""
    draw = random.Random(seed)
    words: dict[str, None] = {}
    while len(words) < size:
        words["".join(draw.choices(_SYLLABLES, k=draw.randint(2, 4)))] = None
    return list(words)


def paragraphs(n_words: int, *, seed: int, words: list[str]) -> Iterator[str]:
    """Paragraphs of about 60 words, word frequencies falling as Zipf's law says."""
    draw = random.Random(seed)
    weights = [1 / (rank + 3) for rank in range(len(words))]
    left = n_words
    while left > 0:
        count = min(left, draw.randint(40, 80))
        chosen = draw.choices(words, weights, k=count)
        yield " ".join(chosen).capitalize() + "."
        left -= count


def write_corpus(folder: Path, *, n_files: int, n_words: int, seed: int) -> None:
    """`n_files` text files of `n_words` words each."""
    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary(5000, seed=seed)
    for index in range(n_files):
        text = "\n\n".join(paragraphs(n_words, seed=seed * 100_003 + index, words=words))
        (folder / f"file-{index:05}.txt").write_text(text, encoding="utf-8")
