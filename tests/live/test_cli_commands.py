"""Every command: attached to a running stack, and on one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.program import Place, Up, gone, until
from tests.stack import write

FILES: dict[str, str | bytes] = {
    "tower.md": "# Harbour\n\nThe lighthouse of Varn is 41 metres tall [B].\n",
    "ferry.md": "# Ferry\n\nThe last ferry to Osmund leaves at 18:20.\n",
}
QUESTION = "How tall is the lighthouse of Varn?"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("cli"))
    write(place.docs, FILES)
    return place


@pytest.fixture(scope="module")
def up(place: Place) -> Iterator[Up]:
    with place.up() as up:
        up.says("Ingest completed")
        yield up
        up.interrupt()
        assert up.ends() == 0
    gone(place)


def test_ask_prints_plain_words_and_the_passages(place: Place, up: Up) -> None:
    asked = place.run("ask", QUESTION)
    assert (asked.returncode, asked.stderr) == (0, "")
    answer, passages = asked.stdout.split("Passages:")
    assert "is 41 metres tall [B]. [1]" in answer
    assert "*[1] tower.md" in passages
    assert "bm25 #1" in passages


def test_ask_as_json_is_one_object_and_nothing_else(place: Place, up: Up) -> None:
    asked = place.run("ask", "--json", "--method", "bm25", "--top-k", "1", QUESTION)
    found = json.loads(asked.stdout)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert found["found"] is True
    assert "41 metres" in found["answer"]
    assert found["citations"][0]["mark"] == 1
    (chunk,) = found["retrieval"]["chunks"]
    assert chunk["metadata"]["relative_path"] == "tower.md"


def test_a_question_that_nothing_answers_exits_with_1(place: Place, up: Up) -> None:
    asked = place.run("ask", "--json", "Quis custodiet ipsos custodes?")
    assert asked.returncode == 1
    assert json.loads(asked.stdout)["found"] is False


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", ""),
        ("ask", "--method", "tarot", QUESTION),
        ("ask", "--top-k", "0", QUESTION),
        ("views", "rebuild", "tarot"),
    ],
)
def test_what_the_edge_refuses_is_one_line_and_exit_code_2(
    place: Place, up: Up, arguments: tuple[str, ...]
) -> None:
    done = place.run(*arguments)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("loreline: ")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("ending", ["", ":quit\nHow tall is it?\n"])
def test_chat_answers_piped_lines_until_quit_or_the_end(place: Place, up: Up, ending: str) -> None:
    chat = place.run("chat", given=f"{QUESTION}\n\nWhich lighthouse is 41 metres tall?\n{ending}")
    assert chat.returncode == 0, chat.stderr
    assert "41 metres" in chat.stdout
    assert chat.stdout.count("Passages:") == 2


def test_chat_waiting_for_a_line_ends_at_once_with_ctrl_c(place: Place, up: Up) -> None:
    chat = subprocess.Popen(
        place.command("chat", "--no-ingest"), env=place.variables(), text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert chat.stdout is not None
    said = ""
    while "> " not in said:
        said += chat.stdout.read(1)
    os.killpg(chat.pid, signal.SIGINT)
    assert chat.wait(10) == 130
    rest, _ = chat.communicate()
    assert "Traceback" not in rest


def test_ingest_waits_says_what_came_and_fails_if_a_file_failed(place: Place, up: Up) -> None:
    same = place.run("ingest", "--wait")
    assert (same.returncode, "2 skipped" in same.stdout) == (0, True)
    for option in ("--reingest", "--force", "--again"):
        done = place.run("ingest", "--wait", option)
        assert done.returncode == 0, (option, done.stdout, done.stderr)
    write(place.docs, {"broken.pdf": b"%PDF-1.4 this is not one"})
    try:
        broken = place.run("ingest", "--wait")
        assert broken.returncode == 1
        assert "1 failed" in broken.stdout
    finally:
        (place.docs / "broken.pdf").unlink()
    started = place.run("ingest")
    assert started.returncode == 0
    assert "started" in started.stdout


def test_a_deleted_file_comes_back_only_with_again(place: Place, up: Up) -> None:
    import httpx

    write(place.docs, {"gone.md": "# Gone\n\nThe wreck lies at 12 metres.\n"})
    assert place.run("ingest", "--wait").returncode == 0
    with httpx.Client(base_url=up.url(), trust_env=False) as http:
        (document,) = (
            each for each in http.get("/api/documents").json() if each["relative_path"] == "gone.md"
        )
        assert http.delete(f"/api/documents/{document['doc_id']}").status_code == 200
        write(place.docs, {"gone.md": "# Gone\n\nThe wreck lies at 12 metres.\n"})
        assert "ingested" not in place.run("ingest", "--wait").stdout
        assert "1 ingested" in place.run("ingest", "--wait", "--again").stdout
    (place.docs / "gone.md").unlink()


def test_events_tail_shows_the_log_from_where_it_is_asked(place: Place, up: Up) -> None:
    whole = place.run("events", "tail", "--after", "0", "--no-follow", "--json")
    assert whole.returncode == 0, whole.stderr
    events = [json.loads(line) for line in whole.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {"file.discovered", "file.embedded", "corpus.completed"} <= {event["type"] for event in events}
    last = place.run("events", "tail", "--no-follow")
    assert len(last.stdout.splitlines()) == min(20, len(events))
    follows = subprocess.Popen(
        place.command("events", "tail", "--after", str(len(events))), env=place.variables(), text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    place.run("ask", QUESTION)
    assert follows.stdout is not None
    assert str(len(events) + 1) in follows.stdout.readline()
    os.killpg(follows.pid, signal.SIGINT)
    follows.stdout.close()
    assert follows.wait(10) == 130


def test_views_are_listed_verified_and_rebuilt(place: Place, up: Up) -> None:
    listed = place.run("views", "list")
    assert {line.split()[0] for line in listed.stdout.splitlines()} >= {"passages", "lexical", "documents"}
    verified = place.run("views", "verify", "all")
    assert (verified.returncode, "DIFFERENT" in verified.stdout) == (0, False)
    rebuilt = place.run("views", "rebuild", "documents")
    assert rebuilt.returncode == 0
    assert "equal" in rebuilt.stdout


def test_the_global_options_may_stand_on_either_side(place: Place, up: Up) -> None:
    after = ("status", "--data", str(place.data), "--json")
    done = subprocess.run(
        [*place.command()[:3], *after], env=place.variables(), capture_output=True, text=True, check=False
    )
    assert json.loads(done.stdout)["url"] == up.url()


def test_a_command_runs_a_stack_of_its_own_where_none_runs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.docs, FILES)
    done = place.run("ingest")
    assert (done.returncode, "2 ingested" in done.stdout) == (0, True), done.stderr
    assert not place.processes()
    asked = place.run("ask", "--json", QUESTION)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "41 metres" in json.loads(asked.stdout)["answer"]
    assert not place.processes()
    chat = place.run("chat", given=f"{QUESTION}\n:quit\n")
    assert "41 metres" in chat.stdout
    assert not place.processes()


def test_a_command_waits_for_a_stack_that_is_just_starting(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.up("--no-ingest") as up:
        until(lambda: (place.data / "runtime.json").exists(), "the start")
        listed = place.run("views", "list")
        assert listed.returncode == 0, listed.stderr
        up.interrupt()
        assert up.ends() == 0
