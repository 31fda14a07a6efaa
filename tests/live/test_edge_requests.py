"""One envelope for every failure, whatever is sent; conversations; what the page is served."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from loreline.cli.attach import Attached
from tests.edge import ask, refused, stream
from tests.stack import stack_at

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Attached]:
    async with stack_at(tmp_path_factory.mktemp("edge")) as (_, attached):
        yield attached


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/api/health/", 404, "not_found"),
        ("PUT", "/api/conversations", 405, "method_not_allowed"),
        ("GET", "/api/chat", 405, "method_not_allowed"),
        ("POST", "/api/health", 405, "method_not_allowed"),
        ("GET", "/api/conversations/" + NOWHERE, 404, "conversation_not_found"),
        ("GET", "/api/conversations/x", 404, "conversation_not_found"),
        ("GET", "/api/conversations/%00", 404, "conversation_not_found"),
        ("GET", "/api/conversations/%ED%A0%80", 404, "conversation_not_found"),
        ("GET", "/api/conversations/" + "9" * 5000, 404, "conversation_not_found"),
        ("DELETE", "/api/conversations/" + NOWHERE, 404, "conversation_not_found"),
        ("DELETE", "/api/documents/0123456789abcdef", 404, "document_not_found"),
        ("DELETE", "/api/documents/%00", 404, "document_not_found"),
        ("DELETE", "/api/documents/" + "a" * 5000, 404, "document_not_found"),
        ("DELETE", "/api/documents/0123456789abcdef?remove_file=perhaps", 422, "validation_error"),
        ("GET", "/api/documents/..%2F..%2Fetc%2Fpasswd", 404, "not_found"),
        ("GET", "/api/documents?min_seq=-1", 422, "validation_error"),
        ("GET", "/api/documents?min_seq=²", 422, "validation_error"),
        ("GET", "/api/documents?min_seq=" + "9" * 5000, 422, "validation_error"),
        ("GET", "/api/documents?include=all", 422, "validation_error"),
        ("GET", "/api/events?after_seq=999999999", 422, "validation_error"),
        ("GET", f"/api/chat/{NOWHERE}/stream", 404, "turn_not_found"),
        ("POST", f"/api/chat/{NOWHERE}/abort", 404, "turn_not_found"),
        ("POST", "/api/chat/x/abort", 404, "turn_not_found"),
        ("POST", "/api/views/nothing/verify", 404, "view_not_found"),
        ("GET", "/static/", 404, "not_found"),
        ("GET", "/static/..%2Fapp.py", 404, "not_found"),
        ("GET", "/static/%2e%2e/app.py", 404, "not_found"),
        ("POST", "/static/app.js", 405, "method_not_allowed"),
    ],
)
async def test_every_failure_has_the_envelope(
    client: Attached, method: str, path: str, status: int, code: str
) -> None:
    response = await client.http.request(method, path)
    assert refused(response) == (status, code)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    if status == 405:
        assert response.headers["Allow"]


async def test_a_refused_method_is_told_all_methods_of_the_address(client: Attached) -> None:
    response = await client.http.put("/api/conversations")
    assert response.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/api/chat", b"", 422, "validation_error"),
        ("/api/chat", b"{", 422, "validation_error"),
        ("/api/chat", b"[]", 422, "validation_error"),
        ("/api/chat", b"null", 422, "validation_error"),
        ("/api/chat", b"\xff\xfe", 422, "validation_error"),
        ("/api/chat", b"[" * 100_000, 422, "validation_error"),
        ("/api/chat", b'{"query": ' + b"9" * 5000 + b"}", 422, "validation_error"),
        ("/api/chat", b'{"query": ""}', 422, "validation_error"),
        ("/api/chat", b'{"query": "  \\n "}', 422, "validation_error"),
        ("/api/chat", b'{"query": 7}', 422, "validation_error"),
        ("/api/chat", b'{"query": "a\\u0000b"}', 422, "validation_error"),
        ("/api/chat", b'{"query": "\\ud800"}', 422, "validation_error"),
        ("/api/chat", b'{"query": "a", "\\ud800": 1}', 422, "validation_error"),
        ("/api/chat", b'{"query": "a", "corpus": "else"}', 422, "validation_error"),
        ("/api/chat", b'{"query": "a", "overrides": {"top_k": 0}}', 422, "validation_error"),
        ("/api/chat", b'{"query": "a", "overrides": {"top_k": 101}}', 422, "validation_error"),
        ("/api/chat", b'{"query": "a", "overrides": {"top_k": 1e400}}', 422, "validation_error"),
        ("/api/chat", b'{"query": "a", "overrides": {"top_k": 1.5}}', 422, "validation_error"),
        ("/api/chat", json.dumps({"query": "a" * 16_001}).encode(), 422, "validation_error"),
        ("/api/chat", json.dumps({"query": "a" * 3_000_000}).encode(), 413, "body_too_large"),
        (
            "/api/chat",
            b'{"query": "a", "overrides": {"retrieval_method": "\\u00e9\\u0000"}}',
            422,
            "unknown_retrieval_method",
        ),
        ("/api/chat", b'{"query": "a", "overrides": {"chat_engine": "x"}}', 422, "unknown_chat_engine"),
        ("/api/chat", b'{"query": "a", "corpus": "graph"}', 403, "graph_disabled"),
        (
            "/api/chat",
            json.dumps({"query": "a", "conversation_id": NOWHERE}).encode(),
            404,
            "conversation_not_found",
        ),
        ("/api/chat", b'{"query": "a", "conversation_id": "\\u0000"}', 404, "conversation_not_found"),
        ("/api/conversations", b'{"title": ""}', 422, "validation_error"),
        ("/api/conversations", b'{"title": "a\\u0000"}', 422, "validation_error"),
        ("/api/conversations", json.dumps({"title": "a" * 201}).encode(), 422, "validation_error"),
        ("/api/ingest", b'{"reingest": "perhaps"}', 422, "validation_error"),
        ("/api/ingest", b'{"unknown": true}', 422, "validation_error"),
        ("/api/documents/delete", b"{}", 422, "validation_error"),
        ("/api/documents/delete", b'{"doc_ids": []}', 422, "validation_error"),
        ("/api/documents/delete", b'{"doc_ids": [1]}', 422, "validation_error"),
    ],
)
async def test_a_body_that_cannot_be_used_is_refused_in_words(
    client: Attached, path: str, body: bytes, status: int, code: str
) -> None:
    response = await client.http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert refused(response) == (status, code)


async def test_what_is_checked_first_is_told_first(client: Attached) -> None:
    wrong: dict[str, Any] = {
        "query": "",
        "conversation_id": NOWHERE,
        "overrides": {"retrieval_method": "x", "chat_engine": "x"},
    }
    order = []
    for repair in ({"query": "a"}, {"overrides": {"chat_engine": "x"}}, {"overrides": None}, {}):
        order.append(refused(await client.http.post("/api/chat", json=wrong))[1])
        wrong.update(repair)
    assert order == [
        "validation_error",
        "unknown_retrieval_method",
        "unknown_chat_engine",
        "conversation_not_found",
    ]


async def test_a_conversation_is_made_once_however_often_it_is_asked_for(client: Attached) -> None:
    key = {"Idempotency-Key": "one"}
    first = await client.http.post("/api/conversations", json={"title": " Ships "}, headers=key)
    again = await client.http.post("/api/conversations", json={"title": "Other"}, headers=key)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    made = first.json()
    assert set(made) == {
        "conversation_id",
        "title",
        "created_at",
        "updated_at",
        "message_count",
        "group_id",
    }
    assert (made["title"], made["message_count"], made["group_id"]) == ("Ships", 0, None)
    seq = first.headers["X-Log-Seq"]
    assert again.headers["X-Log-Seq"] == seq
    listed = await client.get("/api/conversations", min_seq=seq)
    assert [each for each in listed if each["conversation_id"] == made["conversation_id"]] == [made]
    detail = await client.get(f"/api/conversations/{made['conversation_id']}")
    assert set(detail) == {"conversation_id", "title", "created_at", "updated_at", "messages"}
    assert detail["messages"] == []
    gone = await client.http.delete(f"/api/conversations/{made['conversation_id']}")
    assert (gone.status_code, gone.content) == (204, b"")
    twice = await client.http.delete(f"/api/conversations/{made['conversation_id']}")
    assert refused(twice) == (404, "conversation_not_found")
    listed = await client.get("/api/conversations", min_seq=gone.headers["X-Log-Seq"])
    assert made["conversation_id"] not in [each["conversation_id"] for each in listed]
    question = {"query": "a", "conversation_id": made["conversation_id"]}
    assert refused(await client.http.post("/api/chat", json=question)) == (404, "conversation_not_found")


async def test_a_body_may_be_left_out_where_nothing_in_it_is_needed(client: Attached) -> None:
    made = await client.http.post("/api/conversations")
    assert made.status_code == 201
    assert made.json()["title"] == "New conversation"


async def test_a_key_that_is_too_long_is_refused(client: Attached) -> None:
    response = await client.http.post("/api/conversations", headers={"Idempotency-Key": "k" * 201})
    assert refused(response) == (422, "validation_error")


async def test_a_sequence_nobody_has_written_yet_is_not_waited_for_in_vain(client: Attached) -> None:
    response = await client.http.get("/api/conversations", params={"min_seq": 10_000_000})
    assert refused(response) == (503, "not_ready")
    assert int(response.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    "question", ["the of and is", "🚢🌊", "灯台の高さは？", "?", "a" * 16_000, "' OR 1=1; --", '\\ " % _ { }']
)
async def test_a_question_about_nothing_is_answered_with_not_found(client: Attached, question: str) -> None:
    frames = await ask(client.http, question)
    assert [frames[0].event, frames[-1].event] == ["retrieval", "done"]
    assert frames[0].data["chunks"] == []
    assert frames[-1].data["found"] is False
    assert "not found" in frames[-1].data["answer"].lower()


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, "forbidden_host"),
        ({"Host": "evil.example:80"}, "forbidden_host"),
        ({"Host": "127.0.0.1.evil.example"}, "forbidden_host"),
        ({"Origin": "http://evil.example"}, "forbidden_origin"),
        ({"Origin": "null"}, "forbidden_origin"),
        ({"Origin": "http://127.0.0.1:1"}, "forbidden_origin"),
        ({"Origin": ""}, "forbidden_origin"),
    ],
)
async def test_another_site_may_not_write_here(client: Attached, headers: dict[str, str], code: str) -> None:
    response = await client.http.post("/api/conversations", json={"title": "theirs"}, headers=headers)
    assert refused(response) == (403, code)
    ours = await client.http.post("/api/conversations", json={"title": "ours"})
    listed = await client.get("/api/conversations", min_seq=ours.headers["X-Log-Seq"])
    assert "theirs" not in [each["title"] for each in listed]


async def test_the_own_page_may_write_under_every_local_name(client: Attached) -> None:
    port = httpx.URL(client.url).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        own = {"Host": host, "Origin": f"http://{host}".lower()}
        assert (await client.http.post("/api/conversations", headers=own)).status_code == 201


async def test_the_page_and_its_files_are_served_as_what_they_are(client: Attached) -> None:
    page = await client.http.get("/")
    assert page.headers["Content-Type"].startswith("text/html")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["Referrer-Policy"] == "no-referrer"
    for name, kind in (("app.js", "javascript"), ("base.css", "text/css"), ("logo.svg", "image/svg+xml")):
        file = await client.http.get(f"/static/{name}")
        assert kind in file.headers["Content-Type"]
        assert file.headers["Cache-Control"] == "no-cache"
        same = await client.http.get(f"/static/{name}", headers={"If-None-Match": file.headers["ETag"]})
        assert same.status_code == 304


async def test_what_the_stack_can_do_is_said_as_the_contract_says_it(client: Attached) -> None:
    config = await client.get("/api/config")
    assert {"semantic", "bm25", "hybrid"} <= set(config["retrievers"])
    assert config["ranges"]["top_k"] == {"min": 1.0, "max": 100.0}
    assert all(name == name.lower() for name in config["ranges"])
    assert config["allowed_extensions"] == sorted(config["allowed_extensions"])
    assert all(each.startswith(".") for each in config["allowed_extensions"])
    assert isinstance(config["upload_max_mb"], int)
    assert config["preview_enabled"] is False
    for name in ("chunkers", "ocr_engines", "model_types", "llm_model_types", "chat_engines"):
        assert isinstance(config[name], list)


async def test_a_healthy_stack_says_so(client: Attached) -> None:
    health = await client.get("/api/health")
    assert health["ok"] is True
    assert {"nats", "postgres", "embedder", "log", "views"} <= set(health["services"])
    assert all(set(each) == {"ok", "detail"} for each in health["services"].values())


async def test_events_are_read_from_after_a_sequence_and_the_stream_ends_when_not_followed(
    client: Attached,
) -> None:
    async with stream(client.http, "GET", "/api/events?after_seq=0&follow=false") as events:
        seen = await events.rest()
    assert [each.data["seq"] for each in seen] == list(range(1, len(seen) + 1))
    assert [each.id for each in seen] == [str(each.data["seq"]) for each in seen]


async def test_only_the_head_of_a_stream_is_a_whole_answer(client: Attached) -> None:
    for path in ("/api/events", "/api/ingest/status"):
        head = await client.http.head(path)
        assert head.status_code == 200
        assert head.headers["Content-Type"].startswith("text/event-stream")
    assert (await client.http.get("/api/config")).headers["Cache-Control"] == "no-store"


def nonsense(dice: random.Random, depth: int = 0) -> Any:
    """A JSON value that means nothing."""
    leaves: list[Any] = [
        None, True, -1, 0, 1e308, 2**70, "", "\0", "é" * 50, "rag", "\u2028", NOWHERE, "../..", " ",
    ]  # fmt: skip
    if depth > 2 or dice.random() < 0.6:
        return dice.choice(leaves)
    if dice.random() < 0.5:
        return [nonsense(dice, depth + 1) for _ in range(dice.randrange(4))]
    names = ("query", "conversation_id", "overrides", "top_k", "title", "doc_ids", "reingest", "\0", "x")
    return {dice.choice(names): nonsense(dice, depth + 1) for _ in range(dice.randrange(4))}


# The form parser leaves the spool of a file whose upload breaks off to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_nonsense_never_breaks_anything(client: Attached) -> None:
    dice = random.Random(20)
    paths = ("/api/chat", "/api/conversations", "/api/documents/delete", "/api/ingest", "/api/documents")
    kinds = (b"application/json", b"multipart/form-data; boundary=b", b"text/plain", b"multipart/form-data")
    for _ in range(250):
        body = json.dumps(nonsense(dice)).encode()
        if dice.random() < 0.3:
            at = dice.randrange(len(body) + 1)
            body = body[:at] + dice.randbytes(3) + body[at:]
        if dice.random() < 0.2:
            body = (
                b'--b\r\nContent-Disposition: form-data; name="files"; filename="'
                + body
                + b'"\r\n\r\n'
                + body
            )
            body += dice.choice((b"", b"\r\n--b--\r\n"))
        headers = {
            b"Content-Type": dice.choice(kinds),
            b"Idempotency-Key": dice.choice((b"", b"\xe9", b"k")),
        }
        response = await client.http.post(dice.choice(paths), content=body, headers=headers)
        assert response.status_code < 500, (body, response.text)
        if response.status_code >= 400:
            refused(response)
    health = await client.get("/api/health")
    assert health["ok"], health
