"""Names that are refused, and where a file of the corpus has its place."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from loreline.http_edge.corpus_folder import place_in, put_aside, remove_from_corpus
from loreline.http_edge.routes.uploads import refusal
from loreline.schemas.settings import resolve

LIMITS = replace(resolve({}, {}).upload, max_bytes=10)


@pytest.mark.parametrize(
    ("path", "size_bytes", "reason"),
    [
        ("a.txt", 10, None),
        ("a.TXT", 10, None),
        ("a/b c/ä.md", 0, None),
        ("10:45.txt", 0, None),
        ("a.txt", 11, "file_too_large"),
        ("", 0, "invalid_path"),
        ("..", 0, "invalid_path"),
        ("a/../b.txt", 0, "invalid_path"),
        ("/a.txt", 0, "invalid_path"),
        ("d:a.txt", 0, "invalid_path"),
        ("a\ud800.txt", 0, "invalid_path"),
        ("a\u2028.txt", 0, "invalid_path"),
        ("VARAGITY-exports", 0, "reserved_path"),
        ("a", 0, "extension_not_allowed"),
        ("a.", 0, "extension_not_allowed"),
    ],
)
def test_a_path_is_refused_for_one_reason(path: str, size_bytes: int, reason: str | None) -> None:
    assert refusal(path, size_bytes=size_bytes, limits=LIMITS) == reason


def test_a_name_spelled_otherwise_on_disk_keeps_its_spelling(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "ä")
    (tmp_path / apart).mkdir()
    (tmp_path / apart / f"{apart}.txt").write_bytes(b"")
    assert place_in(tmp_path, "ä/ä.txt") == tmp_path / apart / f"{apart}.txt"
    assert place_in(tmp_path, "ä/ö.txt") == tmp_path / apart / "ö.txt"


def test_no_place_is_a_folder_a_file_in_between_or_what_lies_outside(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    (root / "folder.txt").mkdir(parents=True)
    (root / "file").write_bytes(b"")
    (root / "out").symlink_to(tmp_path)
    (root / "out.txt").symlink_to(tmp_path / "elsewhere.txt")
    (root / "loop").symlink_to("loop")
    for path in ("folder.txt", "file/a.txt", "out/a.txt", "out.txt", "loop/a.txt", "x" * 5000):
        assert place_in(root, path) is None, path


def test_a_file_is_whole_before_it_is_in_its_place(tmp_path: Path) -> None:
    moment = datetime(2020, 1, 2, tzinfo=UTC)
    aside = put_aside(tmp_path / "new" / "a.txt", b"words", moment)
    assert aside.parent == tmp_path / "new"
    assert aside.name.startswith(".")
    assert aside.read_bytes() == b"words"
    assert aside.stat().st_mtime == moment.timestamp()


def test_a_file_where_the_corpus_folder_should_be_takes_no_files(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.write_bytes(b"")
    place = place_in(root, "a.txt")
    assert place is not None
    with pytest.raises(OSError, match="exists"):
        put_aside(place, b"", None)


def test_removing_takes_the_folders_it_leaves_empty_and_never_the_root(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/d.txt").write_bytes(b"")
    (tmp_path / "a/kept.txt").write_bytes(b"")
    assert remove_from_corpus(tmp_path, "a/b/c/d.txt")
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["kept.txt"]
    assert remove_from_corpus(tmp_path, "a/kept.txt")
    assert list(tmp_path.iterdir()) == []
    assert not remove_from_corpus(tmp_path, "a/kept.txt")
