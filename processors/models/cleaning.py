"""What every model is spared: NUL bytes, lone surrogates, texts without end."""

from __future__ import annotations

import numpy as np

from loreline.schemas.ports import Vectors
from loreline.schemas.text import keepable


def clean_text(text: str, *, max_chars: int) -> str:
    """`text` as a model can take it: valid Unicode, no NUL, at most `max_chars` characters.

    NUL becomes a space (C engines end the text there), a lone surrogate becomes U+FFFD, a surrogate
    pair becomes the character it stands for. What lies beyond `max_chars` is not seen by the model.
    """
    return keepable(text[:max_chars])


def to_unit(vectors: Vectors) -> Vectors:
    """Rows of `(n, dim)` float32 scaled to unit length; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)
