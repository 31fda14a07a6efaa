"""API.md and the route table say the same."""

from __future__ import annotations

import re
from pathlib import Path

from loreline.http_edge.app import ROUTES
from loreline.http_edge.errors import answer
from loreline.schemas import errors

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "API.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^### `(GET|POST|PUT|PATCH|DELETE) (/[^` ]*)`$", re.MULTILINE)
ROW = re.compile(r"^\| `([a-z_<>]+)` \| (\d{3}) \|", re.MULTILINE)


def test_every_route_is_described_and_every_description_is_of_a_route() -> None:
    routes = {(method, route.path) for route in ROUTES for method in (route.methods or set()) - {"HEAD"}}
    described = HEADING.findall(PAGE)
    assert sorted(described) == sorted(routes)


def test_every_code_the_edge_can_answer_is_in_the_table() -> None:
    sources = [*(ROOT / "http_edge").glob("*.py"), *(ROOT / "http_edge/routes").glob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    raised = re.findall(r"(?:InputError|NotFound|Conflict|envelope)\(\s*\"([a-z_]+)\"", text)
    listed = {code for code, _ in ROW.findall(PAGE)}
    assert set(raised) - listed == set()
    assert {"<name>_unreachable", "not_found", "method_not_allowed"} <= listed


def test_the_statuses_in_the_table_are_those_that_are_sent() -> None:
    listed = dict(ROW.findall(PAGE))
    assert answer(errors.NotReady("soon")).status_code == int(listed["not_ready"])
    assert answer(errors.LogFull("full")).status_code == int(listed["log_full"])
    assert answer(errors.LogHole("hole")).status_code == int(listed["log_damaged"])
    assert answer(errors.DependencyDown("llm", "down")).status_code == int(listed["<name>_unreachable"])
    assert answer(errors.BlobMissing("gone")).status_code == int(listed["internal_error"])
    assert answer(errors.StaleAggregate("lost")).status_code == int(listed["service_unavailable"])
