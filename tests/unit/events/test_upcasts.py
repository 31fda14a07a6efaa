"""Upcasts carry a body to the newest version, a step at a time."""

from __future__ import annotations

from typing import Any

from loreline.events.catalogue import CATALOGUE
from loreline.events.upcasts import UPCASTS, upcast


def test_every_version_before_the_newest_has_its_step() -> None:
    steps = {(name, version) for name, row in CATALOGUE.items() for version in range(1, row.version)}
    assert set(UPCASTS) == steps


def test_a_body_goes_through_every_step_from_its_own_version_on() -> None:
    def add(word: str) -> Any:
        return lambda body: {**body, "seen": [*body.get("seen", []), word]}

    table = {("a", 1): add("1"), ("a", 2): add("2"), ("b", 3): add("never")}
    assert upcast("a", 1, {}, table=table) == {"seen": ["1", "2"]}
    assert upcast("a", 2, {}, table=table) == {"seen": ["2"]}
    assert upcast("a", 3, {"x": 1}, table=table) == {"x": 1}
