"""The data directory refuses what it does not know and believes no leftover."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from loreline.embedded.directory import DataDirectory, read_runtime
from loreline.embedded.runtime import Runtime
from loreline.schemas.errors import DataDirectoryBusy, DataDirectoryUnreadable


def test_everything_in_it_is_private_and_passwords_stay(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with DataDirectory.open(path) as data:
        first = data.secrets()
        assert path.stat().st_mode & 0o777 == 0o700
        assert (path / "secrets.json").stat().st_mode & 0o777 == 0o600
        assert first.postgres not in repr(first)
    with DataDirectory.open(path) as data:
        assert data.secrets() == first


def test_a_second_open_says_who_runs_it_and_where(tmp_path: Path) -> None:
    with DataDirectory.open(tmp_path / "data") as data:
        runtime = Runtime(pid=os.getpid(), url="http://127.0.0.1:8000", ports={"nats": 1})
        data.write_runtime(runtime)
        assert read_runtime(data.path) == runtime
        with pytest.raises(DataDirectoryBusy, match=rf"process {os.getpid()} at http://127\.0\.0\.1:8000"):
            DataDirectory.open(data.path)
    assert read_runtime(tmp_path / "data") is None


def test_a_leftover_runtime_file_is_not_believed(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path).close()
    (tmp_path / "runtime.json").write_text(Runtime(pid=os.getpid()).to_json())
    assert read_runtime(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (json.dumps({"format": 2, "program": "loreline"}), "newer Loreline"),
        (json.dumps({"format": 0, "program": "loreline"}), "older Loreline"),
        (json.dumps({"format": 1, "program": "other"}), "damaged"),
        ("[", "damaged"),
    ],
)
def test_another_format_is_refused_with_words(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "format").write_text(content)
    with pytest.raises(DataDirectoryUnreadable, match=words):
        DataDirectory.open(tmp_path)


def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(DataDirectoryUnreadable, match="not empty"):
        DataDirectory.open(tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]
