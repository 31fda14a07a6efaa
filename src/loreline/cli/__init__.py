"""The command line: `loreline up`, `ask`, `ingest` and the rest."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence

__all__ = ["main"]

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What is wrong is one line on standard error.

    Ctrl-C and SIGTERM stop a command wherever it is, also while it is still being loaded: it cleans up and
    exits with 130, `up` with 0, because being stopped is how it ends.
    """
    before = signal.signal(signal.SIGTERM, _as_interrupt)
    stopped_code = 128 + signal.SIGINT
    try:
        # Imported here: a Ctrl-C during the imports is a stop like any other, and --help stays quick.
        from loreline.cli.arguments import parse_arguments

        parsed = parse_arguments(sys.argv[1:] if arguments is None else arguments)
        stopped_code = getattr(parsed, "stopped_code", stopped_code)
        code = _run(parsed)
    except KeyboardInterrupt:
        code = None
    except BrokenPipeError:
        # Keeps the interpreter from flushing into the closed pipe at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    finally:
        signal.signal(signal.SIGTERM, before)
    return stopped_code if code is None else code


def _run(parsed: Namespace) -> int | None:
    """The command's exit code; None if it was stopped."""
    from loreline.cli.arguments import configure
    from loreline.schemas.errors import LorelineError

    try:
        configure(parsed)
        return asyncio.run(_stoppable(parsed))
    except BrokenPipeError:
        raise
    except (LorelineError, OSError) as error:
        print(f"loreline: {error}", file=sys.stderr)
    except Exception as error:
        if not logging.getLogger().handlers:
            raise  # nowhere else to say where it happened
        _log.error("unforeseen", exc_info=error)
        words = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"loreline: {words}. This is a bug; logs/loreline.log says more.", file=sys.stderr)
    return 2


async def _stoppable(parsed: Namespace) -> int | None:
    """The command, cancelled by the first SIGINT or SIGTERM; more of them change nothing."""
    loop = asyncio.get_running_loop()
    command: asyncio.Task[int] = asyncio.create_task(parsed.run(parsed))
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            command.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    await asyncio.wait({command})
    return None if command.cancelled() and stopped else command.result()


def _as_interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
