"""What a subscriber may say of its consumer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loreline.events.desk import refusal


def body(**config: Any) -> bytes:
    return json.dumps({"stream_name": "LORE", "config": {"durable_name": "sub-00", **config}}).encode()


@pytest.mark.parametrize(
    "config",
    [{}, {"filter_subjects": ["lore.rag.>"], "ack_wait": 1}, {"deliver_subject": "", "flow_control": False}],
)
def test_a_pulled_consumer_is_made(config: dict[str, Any]) -> None:
    assert refusal(body(**config)) is None


@pytest.mark.parametrize("name", ["deliver_subject", "deliver_group", "flow_control", "something_new"])
def test_what_is_not_allowed_is_named(name: str) -> None:
    assert f"has no {name}" in (refusal(body(**{name: "x"})) or "")


@pytest.mark.parametrize("request_", [b"", b"{", b"[]", b'"x"', b'{"config": [1]}', b"\xff"])
def test_what_is_no_request_is_refused(request_: bytes) -> None:
    assert "not that of a consumer" in (refusal(request_) or "")
