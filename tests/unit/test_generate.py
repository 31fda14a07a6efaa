"""Generated pages: what they say, and that a check notices what they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loreline.events.catalogue import CATALOGUE
from loreline.generate import drifted, event_schema, events_page, main, pages, settings_page
from loreline.schemas.settings import KNOBS


def test_a_written_tree_has_no_drift_and_a_changed_or_missing_file_is_named(tmp_path: Path) -> None:
    assert main(["--root", str(tmp_path)]) == 0
    assert drifted(pages(), tmp_path) == []
    (tmp_path / "SETTINGS.md").write_text("something else", encoding="utf-8")
    (tmp_path / "schemas/json/file.parsed.1.json").unlink()
    assert drifted(pages(), tmp_path) == ["schemas/json/file.parsed.1.json", "SETTINGS.md"]


def test_a_check_writes_nothing_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []
    assert "EVENTS.md is out of date; run `make gen`" in capsys.readouterr().err


def test_a_schema_is_found_at_the_address_an_envelope_carries() -> None:
    schema = json.loads(event_schema(CATALOGUE["file.parsed"]))
    assert schema["$id"] == "urn:loreline:schema:file.parsed:1"
    assert schema["additionalProperties"] is False


def test_the_events_page_tells_public_fields_from_sealed_ones() -> None:
    page = events_page([CATALOGUE["conversation.turn_asked"]])
    public, sealed = page.split("- Sealed:")
    assert "`lore.app.conversation.<id>.turn_asked`" in public
    assert "`deadline` time" in public
    assert "`question` text" in sealed
    assert "`question`" not in public


def test_the_settings_page_gives_bounds_defaults_and_what_a_change_makes_stale() -> None:
    page = settings_page([KNOBS["CHUNK_SIZE"]])
    assert "| `CHUNK_SIZE` | 100 to 20000 | `1200` |" in page
    assert "*re-ingest*" in page.splitlines()[-1]
