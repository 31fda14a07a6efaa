"""`up` and `down`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time

from loreline.cli.attach import EdgeRefused, attached_to, log_to_file
from loreline.cli.ingesting import follow_run
from loreline.embedded.directory import read_runtime
from loreline.schemas.errors import ServerFailed
from loreline.wiring.environment import Config
from loreline.wiring.stack import Stack, running

STOP_PATIENCE_S = 30.0


async def up(arguments: argparse.Namespace) -> int:
    """Start everything, take in what is new, print the address, and run until told to stop."""
    config: Config = arguments.config
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    first = not (config.data / "format").exists()
    started = time.monotonic()
    print("Starting …", flush=True)
    starting = asyncio.create_task(_start_and_run(config, arguments, stop, started, first=first))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    return await starting


async def _start_and_run(
    config: Config, arguments: argparse.Namespace, stop: asyncio.Event, started: float, *, first: bool
) -> int:
    log_to_file(config)
    async with running(config) as stack:
        log_to_file(config)
        print(f"Ready after {time.monotonic() - started:.1f} s.", flush=True)
        if first:
            print(_keys_notice(config), flush=True)
        ingesting = None if arguments.no_ingest else asyncio.create_task(_ingest(stack))
        print(f"\n  Loreline answers at {stack.url}\n", flush=True)
        failed = asyncio.create_task(stack.failed.wait())
        waiting = asyncio.create_task(stop.wait())
        await asyncio.wait({failed, waiting}, return_when=asyncio.FIRST_COMPLETED)
        for task in (failed, waiting, ingesting):
            if task is not None:
                task.cancel()
        print("Stopping …", flush=True)
        if stack.failed.is_set() and not stop.is_set():
            raise ServerFailed(f"a part of the stack ended; {config.data / 'logs' / 'loreline.log'} says why")
    return 0


def _keys_notice(config: Config) -> str:
    keys = config.data / "keys"
    return (
        f"\nThe keys to everything are in {keys}. Without them neither the log nor the files in the data\n"
        f"directory can be read, by anyone. Copy that folder to a safe place of its own."
    )


async def _ingest(stack: Stack) -> None:
    """Take in what is new, and say so on the terminal."""
    async with attached_to(stack.url) as client:
        try:
            await client.post("/api/ingest")
        except EdgeRefused as error:
            print(f"loreline: no ingest at the start: {error}", file=sys.stderr)
            return
        await follow_run(client)


async def down(arguments: argparse.Namespace) -> int:
    """Stop the stack that runs on the data directory, and wait until it has stopped."""
    config: Config = arguments.config
    runtime = read_runtime(config.data)
    if runtime is None:
        print(f"Nothing runs on {config.data}.")
        return 0
    os.kill(runtime.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while time.monotonic() < deadline:
        if read_runtime(config.data) is None:
            print(f"Stopped {runtime.pid}.")
            return 0
        await asyncio.sleep(0.1)
    raise ServerFailed(f"process {runtime.pid} has not stopped after {STOP_PATIENCE_S:g} s")
