"""Texts that every store, model and client can take: valid Unicode, whatever came in."""

from __future__ import annotations


def encodable(text: str) -> str:
    """`text` with surrogate pairs joined to the characters they stand for, and U+FFFD for lone ones."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def keepable(text: str, *, nul: str = " ") -> str:
    """`text` as an event, a view, a model and a client can take it: encodable, `nul` for each NUL."""
    return encodable(text.replace("\0", nul))
