from __future__ import annotations

import os
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.stack import write

from loreline.processors.ingest.scan import read_file, scan

TYPES = ("txt", "md")


def names(root: Path) -> list[str]:
    return [found.relative_path for found in scan(root, TYPES).files]


def refused(root: Path) -> dict[str, str]:
    return dict(scan(root, TYPES).unsupported)


@pytest.mark.parametrize(
    "name",
    [
        "café — naïve.txt",
        "🚢 ferry.txt",
        'it\'s "quoted" `so`.txt',
        "two\nlines.txt",
        "tab\tand\rreturn.txt",
        " spaces .txt",
        "%s {} $HOME ;drop.txt",
        "x" * 251 + ".txt",
        "deep/" * 40 + "down.txt",
        "UPPER.TXT",
    ],
)
def test_any_name_the_disk_can_hold_is_taken_in(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: "text"})
    assert names(tmp_path) == [unicodedata.normalize("NFC", name)]


def test_one_of_two_names_that_differ_only_in_composition_is_taken_and_the_other_is_named(
    tmp_path: Path,
) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café.txt") for form in ("NFC", "NFD"))
    write(tmp_path, {composed: "one", decomposed: "two"})
    assert names(tmp_path) == [composed]
    assert refused(tmp_path)[composed] == (
        "another file's name differs from it only in how its letters are composed"
    )


def test_names_that_would_change_their_meaning_are_refused_in_words(tmp_path: Path) -> None:
    write(tmp_path, {"a\\b.txt": "one", "a/b.txt": "two"})
    (tmp_path / os.fsdecode(b"latin-\xe9.txt")).write_text("three")
    assert names(tmp_path) == ["a/b.txt"]
    assert "backslash" in refused(tmp_path)["a/b.txt"]
    assert "not valid UTF-8" in refused(tmp_path)["latin-\ufffd.txt"]


def test_links_are_followed_inside_the_folder_and_nowhere_else(tmp_path: Path) -> None:
    root, outside = tmp_path / "docs", tmp_path / "secret.txt"
    outside.write_text("secret")
    write(root, {"real.txt": "text", "loreline-exports/old.txt": "exported"})
    links = {
        "inside.txt": "real.txt",
        "outside.txt": str(outside),
        "itself.txt": "itself.txt",
        "ping.txt": "pong.txt",
        "pong.txt": "ping.txt",
        "dangling.txt": "nowhere.txt",
        "reserved.txt": "loreline-exports/old.txt",
        "loop": ".",
        "up": "..",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    assert names(root) == ["inside.txt", "real.txt"]
    assert set(refused(root)) == {
        "outside.txt",
        "itself.txt",
        "ping.txt",
        "pong.txt",
        "dangling.txt",
        "reserved.txt",
    }
    assert "leads out" in refused(root)["outside.txt"]


def test_a_folder_that_is_itself_a_link_is_looked_through(tmp_path: Path) -> None:
    write(tmp_path / "real", {"a.txt": "text"})
    (tmp_path / "docs").symlink_to(tmp_path / "real")
    assert names(tmp_path / "docs") == ["a.txt"]


def test_hidden_and_reserved_places_are_passed_over_and_only_there(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".hidden.txt": "",
            ".git/config.txt": "",
            "a/.cache/b.txt": "",
            "loreline-exports/a.txt": "",
            "Varagity-Exports/a.txt": "",
            "LORELINE-EXPORTS.txt": "kept: it is a file of its own name",
            "sub/loreline-exports/a.txt": "kept: only the root's is reserved",
        },
    )
    assert names(tmp_path) == ["LORELINE-EXPORTS.txt", "sub/loreline-exports/a.txt"]


def test_what_is_no_regular_file_is_named_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    assert names(tmp_path) == []
    assert refused(tmp_path) == {"pipe.txt": "it is not a regular file"}


def test_a_file_that_turned_into_something_else_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    for path in (tmp_path / "pipe.txt", tmp_path, tmp_path / "gone.txt"):
        with pytest.raises(OSError, match=r"regular file|Is a directory|No such file"):
            read_file(path)


def test_a_file_that_goes_away_during_the_look_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.txt": "text", "b.txt": "text"})
    isfile = os.path.isfile

    def vanish(path: Path) -> bool:
        was_there = isfile(path)
        if Path(path).name == "a.txt":
            os.unlink(path)
        return was_there

    monkeypatch.setattr(os.path, "isfile", vanish)
    looked = scan(tmp_path, TYPES)
    assert [found.relative_path for found in looked.files] == ["b.txt"]
    assert dict(looked.unsupported) == {"a.txt": "it went away while the folder was looked through"}


def test_a_time_that_no_calendar_holds_is_no_reason_to_pass_a_file_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.txt": "text"})
    os.utime(tmp_path / "a.txt", (0, 86400))
    (found,) = scan(tmp_path, TYPES).files
    assert found.modified_at == datetime(1970, 1, 2, tzinfo=UTC)
    real = os.stat

    def stat(path: Path, **more: bool) -> os.stat_result:
        fields = list(real(path, **more))
        fields[8] = 10**15
        return os.stat_result(fields)

    monkeypatch.setattr(os, "stat", stat)
    (found,) = scan(tmp_path, TYPES).files
    assert found.modified_at is None


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    assert scan(tmp_path / "nowhere", TYPES).files == ()
