"""Settings and parked events as the folds of their events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from loreline.events.append import Fold
from loreline.events.envelope import Stored
from loreline.schemas.events import app
from loreline.schemas.events.payload import Payload

Overrides = Mapping[str, str]


def evolve_settings(state: Overrides, stored: Stored[Payload]) -> Overrides:
    """The overrides after one more change."""
    payload = stored.event.payload
    if not isinstance(payload, app.SettingsChanged):
        return state
    kept = {name: value for name, value in state.items() if name not in payload.cleared}
    return MappingProxyType(kept | payload.private.set)


SETTINGS_FOLD: Fold[Overrides] = Fold("settings", MappingProxyType({}), evolve_settings)
"""The fold of the settings: overrides by name."""


@dataclass(frozen=True)
class DeadletterState:
    """Where a parked event stands."""

    state: Literal["none", "parked", "released", "discarded"] = "none"


def evolve_deadletter(state: DeadletterState, stored: Stored[Payload]) -> DeadletterState:
    """The parked event after one more decision on it."""
    match stored.event.payload:
        case app.EventParked():
            return DeadletterState("parked")
        case app.EventReleased():
            return DeadletterState("released")
        case app.EventDiscarded():
            return DeadletterState("discarded")
    return state


DEADLETTER: Fold[DeadletterState] = Fold("deadletter", DeadletterState(), evolve_deadletter)
"""The fold of one parked event."""
