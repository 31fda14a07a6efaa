"""Which fields the lexical index holds, and how a chunk's texts become term counts for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

from loreline.projectors.lexical.analyzer import Analyzer
from loreline.schemas.text import encodable

Chain = Callable[[Analyzer, str], list[str]]

CHAINS: Mapping[str, Chain] = {
    "english": Analyzer.analyze,
    "ident": Analyzer.identifiers,
    "cjk": Analyzer.cjk,
}
"""Subfield -> the chain that makes its terms."""

FIELDS: tuple[tuple[str, str], ...] = (
    ("content", "english"),
    ("content", "ident"),
    ("content", "cjk"),
    ("contextualized", "english"),
    ("contextualized", "ident"),
    ("contextualized", "cjk"),
)
"""(text, subfield) of every field, in the order of the forward index's columns."""

N_FIELDS = len(FIELDS)

MAX_QUERY_CHARS = 16_384
"""A longer question is cut here: what follows cannot change which passages answer it."""

MAX_QUERY_TERMS = 1_024
"""Lucene's limit of clauses a query (`IndexSearcher.maxClauseCount`)."""

TermCounts = tuple[Counter[str], ...]
"""Occurrences of each term, one Counter a field in the order of FIELDS."""


def count_terms(analyzer: Analyzer, content: str, contextualized_content: str) -> TermCounts:
    """Term counts of a chunk's two texts, one Counter a field.

    A contextualized text is mostly its context, a blank line and the content. No word crosses white
    space, so the content is analyzed once and its counts are added.
    """
    own = {name: Counter(chain(analyzer, content)) for name, chain in CHAINS.items()}
    context = _context(content, contextualized_content)
    if context is None:
        situated = {name: Counter(chain(analyzer, contextualized_content)) for name, chain in CHAINS.items()}
    elif context:
        situated = {name: Counter(chain(analyzer, context)) for name, chain in CHAINS.items()}
        for name, counts in own.items():
            situated[name].update(counts)
    else:
        situated = own
    texts = {"content": own, "contextualized": situated}
    return tuple(texts[text][subfield] for text, subfield in FIELDS)


def query_terms(analyzer: Analyzer, query: str) -> dict[str, dict[str, int]]:
    """Term counts of a question for each subfield, in question order; subfields without terms left out."""
    text = encodable(query[:MAX_QUERY_CHARS])
    counted = {name: Counter(chain(analyzer, text)) for name, chain in CHAINS.items()}
    return {name: dict(islice(counts.items(), MAX_QUERY_TERMS)) for name, counts in counted.items() if counts}


def _context(content: str, contextualized_content: str) -> str | None:
    """What stands before the content, white space at its end included; None if it cannot be split off."""
    if content == contextualized_content:
        return ""
    if content and contextualized_content.endswith("\n" + content):
        return contextualized_content[: -len(content)]
    return None
