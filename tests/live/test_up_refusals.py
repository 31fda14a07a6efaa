"""`up` where it cannot run says so in one line; where it can, it makes what is missing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from loreline.embedded.directory import read_runtime
from tests.program import Place, gone, until
from tests.stack import write


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """What one line on standard error says."""
    assert done.returncode == 2, (done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def foreign(place: Place) -> str:
    write(place.data, {"thesis.txt": "mine"})
    return "not a Loreline data directory"


def a_file(place: Place) -> str:
    place.data.write_text("")
    return "is a file"


def newer(place: Place) -> str:
    write(place.data, {"format": json.dumps({"format": 99, "program": "loreline"})})
    return "Upgrade Loreline"


def damaged(place: Place) -> str:
    write(place.data, {"format": "{"})
    return "damaged"


def unwritable(place: Place) -> str:
    place.data.symlink_to("/proc/1/nothing-can-be-made-here")
    return "cannot be used"


def docs_is_a_file(place: Place) -> str:
    place.docs.write_text("")
    return "cannot be the folder of a corpus"


@pytest.mark.parametrize("spoil", [foreign, a_file, newer, damaged, unwritable, docs_is_a_file])
def test_up_where_it_cannot_run_says_why_in_one_line_and_changes_nothing(
    tmp_path: Path, spoil: object
) -> None:
    place = Place(tmp_path)
    assert callable(spoil)
    words = spoil(place)
    assert words in refused(place.run("up"))
    assert not place.processes()


@pytest.mark.parametrize(
    ("name", "value"), [("LORELINE_PORT", "http"), ("EMBEDDER", "magic"), ("CHUNK_SIZE", "many")]
)
def test_a_bad_variable_is_named_in_one_line(tmp_path: Path, name: str, value: str) -> None:
    place = Place(tmp_path, {name: value})
    words = refused(place.run("up"))
    assert name in words or value in words
    assert not place.processes()


def test_a_taken_port_is_one_clear_line_and_nothing_stays(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = refused(place.run("up", "--port", port))
    assert port in words
    assert "--port" in words
    assert not place.processes()


def test_a_second_up_says_who_runs_it_and_commands_know_every_state(tmp_path: Path) -> None:
    place = Place(tmp_path / "Zwei Wörter – 港")
    place.root.mkdir()
    nothing = place.run("status", "--json")
    assert (nothing.returncode, json.loads(nothing.stdout)["state"]) == (1, "stopped")
    assert place.run("down").returncode == 0
    assert not place.data.exists()
    with place.up("--no-ingest") as up:
        until(lambda: read_runtime(place.data) is not None, "the start")
        assert json.loads(place.run("status", "--json").stdout)["state"] in {"starting", "running"}
        url = up.url()
        assert place.docs.is_dir()
        words = refused(place.run("up"))
        assert str(up.pid) in words
        assert url in words
        running = json.loads(place.run("status", "--json").stdout)
        assert (running["state"], running["pid"], running["url"]) == ("running", up.pid, url)
        assert {view["name"] for view in running["views"]} >= {"passages", "lexical", "documents"}
        assert url in place.run("status").stdout
        up.interrupt()
        with place.up("--no-ingest", "--port", url.rsplit(":", 1)[1]) as after:
            # It waits for the one that stops, and gets its port.
            assert after.url() == url
            assert up.ends() == 0
            down = place.run("down")
            assert (down.returncode, str(after.pid) in down.stdout) == (0, True)
            assert after.ends() == 0
    assert not place.processes()


def test_of_two_ups_at_once_one_runs_and_the_other_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.up() as one, place.up() as two:
        until(lambda: {one.process.poll(), two.process.poll()} != {None}, "the end of one")
        loser, winner = (one, two) if two.process.poll() is None else (two, one)
        assert loser.ends() == 2
        assert str(winner.pid) in loser.text
        assert httpx.get(f"{winner.url()}/api/health", trust_env=False).json()["ok"] is True
        winner.interrupt()
        assert winner.ends() == 0
    gone(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must not let PostgreSQL run as itself")
def test_a_home_that_nobody_may_enter_gets_no_other_mode(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    place = Place(home)
    with place.up() as up:
        up.url()
        runtime = read_runtime(place.data)
        assert runtime is not None
        assert runtime.postgres_directory is not None
        assert home.stat().st_mode & 0o777 == 0o700
        up.interrupt()
        assert up.ends() == 0
    shutil.rmtree(runtime.postgres_directory)
