"""The commands explain themselves, quickly."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from loreline.cli import main
from loreline.cli.arguments import parse_arguments

COMMANDS = (
    ("up",), ("down",), ("status",), ("ingest",), ("ask",), ("chat",), ("events", "tail"),
    ("views", "list"), ("views", "rebuild"), ("views", "verify"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_that_says_more_than_its_name(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments([*command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "--data" in said
    assert len(said.splitlines()) > 12


def test_the_program_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "LORELINE_DATA" in capsys.readouterr().out


def test_options_of_every_command_may_stand_before_and_after_its_name() -> None:
    def port(*arguments: str) -> object:
        parsed: argparse.Namespace = parse_arguments(arguments)
        return parsed.port

    assert port("--port", "7", "up") == port("up", "--port", "7") == 7
    assert port("--port", "7", "up", "--port", "8") == 8
    assert port("up") is None


def test_help_loads_no_library() -> None:
    script = (
        "import sys; from loreline.cli.arguments import parse_arguments; parse_arguments(['down']); "
        "print([name for name in ('numpy', 'httpx', 'nats', 'psycopg', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
