"""The command line: `loreline up`, `ask`, `ingest` and the rest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from loreline.cli.arguments import parse_arguments
from loreline.schemas.errors import LorelineError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What is wrong is one line on standard error."""
    parsed = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        code: int = asyncio.run(parsed.run(parsed))
    except LorelineError as error:
        print(f"loreline: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0
    return code
