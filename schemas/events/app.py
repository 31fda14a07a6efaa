"""Events of the application itself: settings, parked events, seals."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from loreline.schemas.events.payload import Payload, Private
from loreline.schemas.ids import Code, Hex, OwnerName

SettingName = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]


class SettingValues(Private):
    """The values that were set, as the environment would spell them."""

    set: dict[str, str] = Field(default_factory=dict)


class SettingsChanged(Payload):
    """One change of settings, decided on the merged whole; running parts take it up."""

    names: tuple[SettingName, ...]
    cleared: tuple[SettingName, ...] = ()
    private: SettingValues


class ParkedError(Private):
    """The error that parked the event, in words."""

    error: str


class EventParked(Payload):
    """A stage gave an event up after its last delivery; it waits for release or discard."""

    stage: Code
    seq: int = Field(ge=1)
    event: UUID
    event_type: Code
    owner: OwnerName
    attempts: int = Field(ge=1)
    private: ParkedError


class EventReleased(Payload):
    """The parked event goes back to its stage."""

    stage: Code
    seq: int = Field(ge=1)


class EventDiscarded(Payload):
    """The parked event is given up for good."""

    stage: Code
    seq: int = Field(ge=1)


class LogSealed(Payload):
    """The sealer vouches for the log: `digest` chains the digests of all events to `through_seq`."""

    through_seq: int = Field(ge=0)
    digest: Hex
