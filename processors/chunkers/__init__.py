"""Chunkers: a parsed document in, exact pieces of its text out.

To add a strategy, add a line to `CHUNKERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from loreline.processors.chunkers.recursive import chunk_recursively
from loreline.schemas.records import Chunk, ParsedDocument


class Chunker(Protocol):
    """Cuts a document; pure and deterministic."""

    def __call__(
        self,
        doc: ParsedDocument,
        *,
        chunk_size: int,
        chunk_overlap: int,
        count_tokens: Callable[[str], int],
    ) -> list[Chunk]:
        """Return the chunks in order, each with `content == doc.text[start:end]`; none for an empty text.

        Args:
            doc: what a reader returned.
            chunk_size: the most a chunk may hold, in the strategy's unit.
            chunk_overlap: the most a chunk may repeat of the one before; less than `chunk_size`.
            count_tokens: text -> cl100k tokens, as `tokens.cl100k_counter` makes it.

        Raises:
            ValueError: sizes that make no sense.
        """
        ...


CHUNKERS: dict[str, Chunker] = {
    "recursive_character": chunk_recursively,
}
"""Every strategy that `CHUNKING_STRATEGY` can name."""

__all__ = ["CHUNKERS", "Chunker"]
