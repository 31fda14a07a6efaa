from __future__ import annotations

import pytest

from loreline.processors.models.transport import api_base, server_root


@pytest.mark.parametrize(
    ("written", "base"),
    [
        ("http://box:8080", "http://box:8080/v1"),
        ("http://box:8080/", "http://box:8080/v1"),
        (" http://box:8080/v1/ ", "http://box:8080/v1"),
        ("http://box:8080/v1/chat/completions", "http://box:8080/v1"),
        ("http://box:8080/v1/embeddings", "http://box:8080/v1"),
        ("https://api.example/openai/v1beta", "https://api.example/openai/v1beta"),
    ],
)
def test_the_api_is_found_from_what_people_write(written: str, base: str) -> None:
    assert api_base(written) == base


def test_the_servers_own_routes_are_beside_the_api() -> None:
    assert server_root("http://box:8080/v1") == "http://box:8080"
    assert server_root("http://box:8080/other") == "http://box:8080/other"
