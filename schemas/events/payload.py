"""What every event payload is made of: closed, immutable shapes with one private part."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Private(BaseModel):
    """The sealed part of a payload: names, paths, questions, answers, reasons, values."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Payload(BaseModel):
    """A payload. A subclass with words in it keeps them in a field called `private`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Shredded(Payload):
    """Stands in for a payload whose owner's key was destroyed: the event remains, its words do not."""
