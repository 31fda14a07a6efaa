"""The commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from loreline.cli import commands as do
from loreline.wiring.variables import SETTINGS_HELP

DESCRIPTION = """\
Answers from your documents, on your own machine, with the evidence beside them.

Put files into docs/, run `loreline up`, open the address it prints, and ask.
Every other command attaches to a running stack, or starts one for as long as it takes."""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The command with its options; `run` is the coroutine function that does it."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if not hasattr(parsed, "run"):
        parser.print_help()
        parser.exit(0)
    return parsed


def configure(parsed: argparse.Namespace) -> None:
    """Set `config`: the environment, with what was said on the command line before it.

    Raises InputError naming the variable at fault.
    """
    from loreline.wiring.environment import read_environment

    given = {name: getattr(parsed, name) for name in ("data", "docs", "graph_docs", "port")}
    config = read_environment()
    parsed.config = replace(config, **{name: value for name, value in given.items() if value is not None})


def _parser() -> argparse.ArgumentParser:
    variables = "\n".join(f"  {name:<20} {words}" for name, words in SETTINGS_HELP.items())
    parser = argparse.ArgumentParser(
        prog="loreline",
        description=DESCRIPTION,
        epilog=f"environment:\n{variables}\n\nThe settings of search, ingest and chat are in SETTINGS.md.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_globals(parser, suppress=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_running(commands)
    _add_asking(commands)
    _add_looking(commands)
    return parser


def _add_globals(parser: argparse.ArgumentParser, *, suppress: bool) -> None:
    """Options of every command, before or after its name."""
    default = argparse.SUPPRESS if suppress else None
    parser.add_argument("--data", type=Path, default=default, help="data directory (default .loreline)")
    parser.add_argument("--docs", type=Path, default=default, help="document corpus (default docs)")
    parser.add_argument(
        "--graph-docs", type=Path, default=default, help="message corpus (default graph-docs)"
    )
    parser.add_argument("--port", type=int, default=default, help="port of the web page (default a free one)")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, words: str, more: str = ""
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=words,
        description=f"{words[0].upper()}{words[1:]}.\n\n{more}".rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_globals(command, suppress=True)
    return command


def _add_running(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    up = _command(
        commands,
        "up",
        "start everything, take in what is new in docs/, and print the address",
        "Runs until Ctrl-C, SIGTERM or `loreline down`, and stops everything it started. Whatever happens\n"
        "to it, also kill -9, nothing that was acknowledged is lost, and the next `up` carries on.\n"
        "A second `up` on the same data says who runs it and exits with 2.\n\n"
        "  loreline up\n"
        "  loreline --docs ~/papers --data ~/papers-loreline --port 8080 up",
    )
    up.add_argument("--no-ingest", action="store_true", help="do not look for new files at the start")
    up.set_defaults(run=do.up, stopped_code=0)
    down = _command(
        commands,
        "down",
        "stop the stack that runs on this data directory",
        "Returns when it has stopped; with nothing running it says so and exits with 0.",
    )
    down.set_defaults(run=do.down)
    status = _command(
        commands,
        "status",
        "say what runs, whether it is well, and how far the views are",
        "Exits with 0 when everything is well, with 1 when nothing runs or something is not well.\n"
        "--json prints {state: running | starting | stopping | stopped, pid, url, health, views}.",
    )
    status.add_argument("--json", action="store_true", help="one JSON object")
    status.set_defaults(run=do.status)
    ingest = _command(
        commands,
        "ingest",
        "take in what is new or changed in docs/",
        "With --wait, or where no stack runs yet, it shows the run to its end and exits with 1 if any file\n"
        "failed. Unchanged files are skipped; a failed file is tried again.\n\n"
        "  loreline ingest --wait\n"
        "  loreline ingest --wait --reingest    after a change of settings that shape chunks",
    )
    ingest.add_argument("--wait", action="store_true", help="follow the run to its end")
    ingest.add_argument(
        "--reingest", action="store_true", help="process every file under the settings of now"
    )
    ingest.add_argument(
        "--force", action="store_true", help="do the work again even where its output is kept"
    )
    ingest.add_argument("--again", action="store_true", help="take deleted files in that still lie in docs/")
    ingest.set_defaults(run=do.ingest)


def _add_asking(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ask = _command(
        commands,
        "ask",
        "ask one question; prints the answer as it comes, then its passages",
        "Exits with 1 when nothing in the documents answers it. In the list of passages * marks the cited\n"
        "ones, # a passage's place in each arm of the search. Each question is a conversation of its own.\n\n"
        '  loreline ask "When does the last ferry leave?"\n'
        '  loreline ask --json --method bm25 "error E-2041" | jq .answer',
    )
    ask.add_argument("question", help="the question, in quotes")
    ask.add_argument("--json", action="store_true", help="one JSON object instead of text")
    ask.add_argument("--method", help="how to search: semantic, bm25 or hybrid")
    ask.add_argument("--top-k", type=int, help="passages to answer from")
    ask.set_defaults(run=do.ask)
    chat = _command(
        commands,
        "chat",
        "take in what is new, then answer question after question; :quit ends it",
        "All questions are one conversation, which the web page lists too. Reads lines from standard input,\n"
        "so a file of questions works as well: loreline chat < questions.txt",
    )
    chat.add_argument("--no-ingest", action="store_true", help="begin at once")
    chat.set_defaults(run=do.chat)


def _add_looking(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    events = commands.add_parser("events", help="look at the log", description="Look at the log.")
    inside = events.add_subparsers(title="commands", metavar="COMMAND", required=True)
    tail = _command(
        inside,
        "tail",
        "print events as they are appended",
        "Every change is an event in the log: each upload, ingest stage, question and answer.\n\n"
        "  loreline events tail --after 0 --no-follow     the whole log\n"
        "  loreline events tail --json | jq .type",
    )
    tail.add_argument(
        "--after", type=int, metavar="SEQ", help="begin after this sequence (default: the last 20)"
    )
    tail.add_argument("--no-follow", action="store_true", help="end at the end of the log")
    tail.add_argument("--json", action="store_true", help="one JSON object a line, opened payloads included")
    tail.set_defaults(run=do.tail)
    views = commands.add_parser(
        "views", help="list, rebuild and verify views", description="Look after views."
    )
    inside = views.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listed = _command(
        inside,
        "list",
        "list the views and how far behind the log they are",
        "A view is what questions and pages are answered from; it can be dropped and rebuilt from the log.",
    )
    listed.set_defaults(run=do.list_views)
    for name, words in (
        ("rebuild", "build a view from the beginning of the log, compare, and let it answer"),
        ("verify", "build a view beside the live one, compare row by row, and drop it again"),
    ):
        more = "No file is parsed and no model is called. Exits with 1 when a view and its rebuild differ."
        command = _command(inside, name, words, more)
        command.add_argument("view", help="a view's name, or `all`")
        command.set_defaults(run=do.compare_views, action=name)
