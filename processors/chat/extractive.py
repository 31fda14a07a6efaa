"""The answer without a language model: the sentences of the passages that answer, quoted and cited.

Terms in common with the question choose candidates, a sentence embedding and a few cues rank them,
and a threshold decides whether anything answers at all. The same input gives the same answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loreline.processors.chat.coverage import Cover, Stems
from loreline.processors.chat.questions import (
    Stem,
    answer_kinds,
    asked_words,
    carries,
    content_terms,
    languages,
)
from loreline.processors.chat.quotes import below, join_quotes, render, widen
from loreline.processors.chat.sentences import Sentence, split_sentences
from loreline.schemas.ports import Embedder
from loreline.schemas.records import Citation, RetrievedChunk

NOT_FOUND = "Not found in your documents."


@dataclass(frozen=True)
class Tuning:
    """The constants of the choice.

    Weights were fitted as a softmax over the sentences of public question sets in English, German
    and Chinese, each held out in turn, then rounded.

    Attributes:
        max_passages: passages read; the gold passage is in the first 8 for over 97 % of questions.
        max_candidates: sentences embedded; 16 lost nothing to 32, a few more serve foreign questions.
        max_embed_bytes: UTF-8 of all embedded sentences, about 1,000 tokens, under a second.
        max_sentence_chars: of one sentence as embedded; what a sentence says it says early.
        coverage: weight of the question's terms in the sentence itself.
        window: the same in the sentence with both neighbours, its headings and its file's name.
        support: the same in its whole passage.
        kind: weight of holding the kind of thing asked for (a name, a date, a number).
        rank: weight of 1 / the passage's place.
        similarity: weight of the cosine; e5 crowds all cosines into 0.75 to 0.95, hence so large.
        fragment: cost of a heading or a sentence cut off by its chunk's start; they answer rarely.
        margin: how far below the best a further sentence may score; 3 is where further
            sentences still brought answers: 0.78 to 0.91 of questions, at 1.3 quotations each.
        cosine_floor: the cosine of text about something else, where evidence begins.
        evidence_support: weight of the passage's support as evidence that it answers at all.
        evidence_cosine: weight of the cosine above the floor.
        evidence: least evidence to answer; 0.92 to 0.99 of answerable questions pass in English, German,
            Chinese, Spanish and Russian, and 0.02 to 0.09 of questions about something else. At 1.0 it
            is 0.89 to 0.97: a wrong "not found" hides an answer, a weak quotation shows its source.
        foreign_cosine: least cosine where question and passage differ in language and so share no
            terms; passes 0.9 of answerable questions between German and English, 0.8 from Chinese to
            English, and 0.1 to 0.3 of unanswerable ones: scripts differ in how close unrelated text is.
    """

    max_passages: int = 8
    max_candidates: int = 20
    max_embed_bytes: int = 4800
    max_sentence_chars: int = 320
    coverage: float = 3.0
    window: float = 3.0
    support: float = 3.0
    kind: float = 1.0
    rank: float = 1.5
    similarity: float = 28.0
    fragment: float = 1.0
    margin: float = 3.0
    cosine_floor: float = 0.8
    evidence_support: float = 1.6
    evidence_cosine: float = 10.0
    evidence: float = 0.9
    foreign_cosine: float = 0.785


TUNING = Tuning()


@dataclass(frozen=True)
class ExtractiveAnswer:
    """Quoted sentences with their marks, as Markdown, or that nothing was found.

    Attributes:
        text: one paragraph a quotation, each followed by its mark; `NOT_FOUND` without citations.
        citations: one a quotation, in the order of the text; `quote` is the exact substring.
    """

    text: str
    citations: tuple[Citation, ...]
    found: bool


@dataclass(frozen=True)
class Candidate:
    """A sentence that may answer.

    Attributes:
        passage: index of its passage, best first.
        place: index of its sentence in the passage.
        terms: the stems it holds.
        support: share, by rarity, of the question's terms that its passage holds.
        score: what ranks it; without the embedding until `rank` has run.
        cosine: of question and sentence, once known.
    """

    passage: int
    place: int
    sentence: Sentence
    text: str
    terms: frozenset[str]
    support: float
    score: float
    cosine: float = 0.0


async def answer_extractively(
    question: str,
    passages: Sequence[RetrievedChunk],
    *,
    embedder: Embedder,
    stem: Stem,
    max_sentences: int = 3,
    tuning: Tuning = TUNING,
) -> ExtractiveAnswer:
    """Quotes the sentences of `passages` that answer `question`, or says that none does.

    passages: best first. max_sentences: quotations at most, from 1; lists and sentences that lean on
    the one before bring their context along. stem: see `questions.Stem`; memoised here for the call.
    Two calls of the embedder, under a second with the bundled one. Raises DependencyDown as it does.
    """
    pools, candidates = await asyncio.to_thread(_gathered, question, passages, stem, tuning)
    if not candidates:
        return ExtractiveAnswer(text=NOT_FOUND, citations=(), found=False)
    asked = await embedder.embed_query(question)
    told = await embedder.embed_passages([c.text[: tuning.max_sentence_chars] for c in candidates])
    ranked = rank(candidates, [float(cosine) for cosine in told @ asked], tuning=tuning)
    if not is_answer(question, passages, best=ranked[0], tuning=tuning):
        return ExtractiveAnswer(text=NOT_FOUND, citations=(), found=False)
    picked = choose(ranked, max_sentences=max_sentences, tuning=tuning)
    return compose(picked, passages, pools=pools)


def _gathered(
    question: str, passages: Sequence[RetrievedChunk], stem: Stem, tuning: Tuning
) -> tuple[tuple[tuple[Sentence, ...], ...], list[Candidate]]:
    """The sentences of the passages and the candidates among them; away from the event loop."""
    pools = tuple(split_sentences(passage.content) for passage in passages[: tuning.max_passages])
    return pools, gather(question, passages, pools=pools, stem=stem, tuning=tuning)


def gather(
    question: str,
    passages: Sequence[RetrievedChunk],
    *,
    pools: Sequence[Sequence[Sentence]],
    stem: Stem,
    tuning: Tuning = TUNING,
) -> list[Candidate]:
    """The sentences worth embedding, best first by all that is known without a model.

    pools: the sentences of each passage that is read, in order.
    """
    stems = Stems(stem)
    held = [
        [stems.of(passage.content[s.start : s.end]) for s in pool]
        for passage, pool in zip(passages, pools, strict=False)
    ]
    cover = Cover.over(content_terms(question, stem=stem), [terms for pool in held for terms in pool])
    kinds, asked = answer_kinds(question), asked_words(question)
    found: list[Candidate] = []
    for index, (passage, pool) in enumerate(zip(passages, pools, strict=False)):
        titles = stems.of(f"{passage.metadata.file_name} {passage.metadata.heading_path or ''}")
        support = cover.of(titles.union(*held[index]))
        for place, sentence in enumerate(pool):
            if sentence.kind == "ornament" or (sentence.kind == "heading" and below(pool, place) == place):
                continue
            text = passage.content[sentence.start : sentence.end]
            around = titles.union(*held[index][max(0, place - 1) : place + 2])
            score = (
                tuning.coverage * cover.of(held[index][place])
                + tuning.window * cover.of(around)
                + tuning.support * support
                + tuning.kind * any(carries(text, kind, asked=asked) for kind in kinds)
                + tuning.rank / (index + 1)
                - tuning.fragment * _is_fragment(passage, sentence, text)
            )
            found.append(Candidate(index, place, sentence, text, held[index][place], support, score))
    return _affordable(sorted(found, key=_order), tuning=tuning)


def rank(
    candidates: Sequence[Candidate], cosines: Sequence[float], *, tuning: Tuning = TUNING
) -> list[Candidate]:
    """Adds what the embedding says; best first, ties in reading order."""
    scored = [
        replace(
            candidate,
            cosine=cosine,
            score=candidate.score + tuning.similarity * (cosine - tuning.cosine_floor),
        )
        for candidate, cosine in zip(candidates, cosines, strict=True)
    ]
    return sorted(scored, key=_order)


def is_answer(
    question: str, passages: Sequence[RetrievedChunk], *, best: Candidate, tuning: Tuning = TUNING
) -> bool:
    """Whether the best sentence is evidence enough that the documents answer the question."""
    asked = languages(question)
    told = languages(passages[best.passage].content)
    if asked and told and asked.isdisjoint(told) and best.cosine >= tuning.foreign_cosine:
        return True
    evidence = tuning.evidence_support * best.support + tuning.evidence_cosine * (
        best.cosine - tuning.cosine_floor
    )
    return evidence >= tuning.evidence


def choose(ranked: Sequence[Candidate], *, max_sentences: int, tuning: Tuning = TUNING) -> list[Candidate]:
    """The best sentence and those close behind it that say something else."""
    picked: list[Candidate] = []
    for candidate in ranked:
        if len(picked) == max_sentences or candidate.score < ranked[0].score - tuning.margin:
            break
        if not any(_says_the_same(candidate, other) for other in picked):
            picked.append(candidate)
    return picked


def compose(
    picked: Sequence[Candidate], passages: Sequence[RetrievedChunk], *, pools: Sequence[Sequence[Sentence]]
) -> ExtractiveAnswer:
    """Lays the picked sentences out, best first, neighbours joined."""
    quotes = [
        widen(passages[c.passage].content, pools[c.passage], passage=c.passage, place=c.place) for c in picked
    ]
    citations: list[Citation] = []
    paragraphs: list[str] = []
    for quote in join_quotes(quotes, pools=pools):
        passage = passages[quote.passage]
        mark = passage.trace.final_rank if passage.trace else quote.passage + 1
        exact = passage.content[quote.start : quote.end]
        citations.append(Citation(mark=mark, chunk_id=passage.chunk_id, quote=exact))
        paragraphs.append(render(exact, mark=mark))
    return ExtractiveAnswer(text="\n\n".join(paragraphs), citations=tuple(citations), found=True)


def _is_fragment(passage: RetrievedChunk, sentence: Sentence, text: str) -> bool:
    cut = sentence.start == 0 and passage.metadata.start > 0 and text[0].islower()
    return cut or sentence.kind == "heading"


def _affordable(candidates: Sequence[Candidate], *, tuning: Tuning) -> list[Candidate]:
    """The first candidates that the embedding budget allows, one at least."""
    kept: list[Candidate] = []
    size_bytes = 0
    for candidate in candidates[: tuning.max_candidates]:
        size_bytes += len(candidate.text[: tuning.max_sentence_chars].encode("utf-8", "replace"))
        if kept and size_bytes > tuning.max_embed_bytes:
            break
        kept.append(candidate)
    return kept


def _order(candidate: Candidate) -> tuple[float, int, int]:
    return (-round(candidate.score, 4), candidate.passage, candidate.place)


def _says_the_same(one: Candidate, other: Candidate) -> bool:
    """Whether one sentence holds nearly all the terms of the other."""
    smaller = min(len(one.terms), len(other.terms))
    return len(one.terms & other.terms) >= 0.8 * smaller if smaller else one.text == other.text
