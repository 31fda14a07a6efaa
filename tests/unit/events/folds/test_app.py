from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from tests.unit.events.folds.given import given

from loreline.events.folds.app import DEADLETTER, SETTINGS_FOLD, DeadletterState
from loreline.schemas.errors import InputError
from loreline.schemas.events import app
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import SETTINGS, deadletter_aggregate
from loreline.schemas.settings import resolve


def changed(*cleared: str, **values: str) -> Payload:
    return app.SettingsChanged(names=tuple(values), cleared=cleared, private=app.SettingValues(set=values))


def overrides(*events: Payload) -> Mapping[str, str]:
    return given(SETTINGS_FOLD, SETTINGS, events)


def test_a_later_change_counts_and_a_cleared_setting_falls_back() -> None:
    assert overrides(changed(TOP_K="5"), changed(TOP_K="7", CHUNK_SIZE="900")) == {
        "TOP_K": "7",
        "CHUNK_SIZE": "900",
    }
    known = overrides(changed(TOP_K="5", CHUNK_SIZE="900"), changed("TOP_K"))
    assert known == {"CHUNK_SIZE": "900"}
    assert resolve({"TOP_K": "4"}, known).retrieval.top_k == 4


def test_settings_are_validated_as_a_merged_whole() -> None:
    half = overrides(changed(SEMANTIC_WEIGHT="0.8"))
    with pytest.raises(InputError, match="sum to 1"):
        resolve({}, half)
    assert resolve({"BM25_WEIGHT": "0.2"}, half).retrieval.bm25_weight == pytest.approx(0.2)
    assert resolve({}, overrides(changed(SEMANTIC_WEIGHT="0.8", BM25_WEIGHT="0.2")))
    with pytest.raises(InputError, match="CHUNK_OVERLAP must be below CHUNK_SIZE"):
        resolve({"CHUNK_OVERLAP": "400"}, overrides(changed(CHUNK_SIZE="400")))
    with pytest.raises(InputError, match="there is no setting NOPE"):
        resolve({}, overrides(changed(NOPE="1")))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOP_K", "0"),
        ("TOP_K", "ten"),
        ("TOP_K", "nan"),
        ("SEMANTIC_WEIGHT", "nan"),
        ("SEMANTIC_WEIGHT", "inf"),
        ("CHUNK_SIZE", "99"),
        ("RETRIEVAL_METHOD", "magic"),
        ("CONTEXTUALIZE", "perhaps"),
        ("ALLOWED_EXTENSIONS", " , "),
    ],
)
def test_a_value_that_will_not_do_is_named_with_what_would(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{name}=.* will not do: ") as refused:
        resolve({}, {name: value})
    assert refused.value.code == "invalid_settings"


def test_a_parked_event_is_released_or_given_up_and_may_be_parked_again() -> None:
    parked = app.EventParked(
        stage="parse",
        seq=4,
        event=UUID(int=4),
        event_type="file.discovered",
        owner="app",
        attempts=8,
        private=app.ParkedError(error="ValueError: no"),
    )
    released, discarded = app.EventReleased(stage="parse", seq=4), app.EventDiscarded(stage="parse", seq=4)
    aggregate = deadletter_aggregate("parse", 4)

    def state(*events: Payload) -> DeadletterState:
        return given(DEADLETTER, aggregate, events)

    assert [state(*events).state for events in ([], [parked], [parked, released], [parked, discarded])] == [
        "none",
        "parked",
        "released",
        "discarded",
    ]
    assert state(parked, released, parked).state == "parked"
