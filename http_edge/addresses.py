"""From the ids in an address to what they name."""

from __future__ import annotations

from uuid import UUID

from loreline.schemas.errors import NotFound
from loreline.schemas.ids import Aggregate, conversation_aggregate


def conversation_of(text: str) -> Aggregate:
    """The aggregate of a conversation id. Raises NotFound for what cannot be one."""
    try:
        return conversation_aggregate(str(UUID(text)))
    except ValueError:
        raise conversation_not_found(text) from None


def conversation_not_found(conversation_id: str) -> NotFound:
    """The error for a conversation that is not there."""
    return NotFound("conversation_not_found", f"there is no conversation {conversation_id[:60]}")
