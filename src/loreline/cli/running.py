"""`up` and `down`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from loreline.cli.attach import attached_to, log_to_file
from loreline.cli.ingesting import take_in
from loreline.embedded.directory import is_held, read_runtime
from loreline.schemas.errors import ServerFailed
from loreline.wiring.environment import Config

if TYPE_CHECKING:
    from loreline.wiring.stack import Stack

STOP_PATIENCE_S = 30.0


async def up(arguments: argparse.Namespace) -> int:
    """Start everything, take in what is new, print the address, and run until told to stop."""
    config: Config = arguments.config
    first = not (config.data / "format").exists()
    started = time.monotonic()
    print("Starting …", flush=True)
    # Imported after the first word: it takes most of a second.
    from loreline.wiring.stack import running

    log_to_file(config)
    try:
        async with running(config) as stack:
            log_to_file(config)
            print(f"Ready after {time.monotonic() - started:.1f} s.", flush=True)
            if first:
                print(_first_words(config), flush=True)
            print(f"\n  Loreline answers at {stack.url}\n", flush=True)
            await _serve(stack, ingest=not arguments.no_ingest)
    except asyncio.CancelledError:
        print("Stopped.", flush=True)
        raise
    raise ServerFailed(f"a part of the stack ended; {config.data / 'logs' / 'loreline.log'} says why")


async def _serve(stack: Stack, *, ingest: bool) -> None:
    """Take in what is new, and return only when a part of the stack has ended."""
    ingesting = asyncio.create_task(_ingest(stack)) if ingest else None
    try:
        await stack.failed.wait()
    except asyncio.CancelledError:
        print("Stopping …", flush=True)
        raise
    finally:
        if ingesting is not None:
            ingesting.cancel()
            await asyncio.gather(ingesting, return_exceptions=True)


def _first_words(config: Config) -> str:
    return (
        f"\nNew data directory: {config.data.absolute()}. Everything Loreline knows is there;\n"
        f"your documents stay where they are, in {config.docs.absolute()}.\n\n"
        f"The keys to all of it are in {config.data.absolute() / 'keys'}. Without them neither the log nor\n"
        f"the files in the data directory can be read, by anyone. Copy that folder to a safe place of its\n"
        f"own, apart from the copies of the rest."
    )


async def _ingest(stack: Stack) -> None:
    """Take in what is new, and say so on the terminal."""
    async with attached_to(stack.url) as client:
        await take_in(client)


async def down(arguments: argparse.Namespace) -> int:
    """Stop the stack that runs on the data directory, and wait until it has stopped."""
    config: Config = arguments.config
    runtime = read_runtime(config.data)
    if runtime is None and not is_held(config.data):
        print(f"Nothing runs on {config.data}.")
        return 0
    if runtime is not None:
        with suppress(ProcessLookupError):
            os.kill(runtime.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while is_held(config.data):
        if time.monotonic() > deadline:
            who = "the process that runs it" if runtime is None else f"process {runtime.pid}"
            raise ServerFailed(f"{who} has not stopped after {STOP_PATIENCE_S:g} s")
        await asyncio.sleep(0.05)
    print("Stopped." if runtime is None else f"Stopped process {runtime.pid}.")
    return 0
