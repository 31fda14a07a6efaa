"""`ingest`, and following a run on the terminal."""

from __future__ import annotations

import argparse
import sys
from contextlib import aclosing
from typing import Any

from loreline.cli.attach import Attached, EdgeRefused, attached

RUNNING = "ingest_already_running"


async def ingest(arguments: argparse.Namespace) -> int:
    """Start a run; with --wait, or on a stack of our own, follow it to its end."""
    async with attached(arguments.config) as client:
        body = {name: getattr(arguments, name) for name in ("reingest", "force", "again")}
        if not arguments.wait and not client.own:
            run = await client.post("/api/ingest", body)
            print(f"Ingest {run['run_id']} started; follow it with `loreline events tail` or in the browser.")
            return 0
        await _start_after_others(client, body)
        ended = await follow_run(client)
    return 1 if ended["state"] != "completed" or (ended.get("summary") or {}).get("failed") else 0


async def take_in(client: Attached) -> None:
    """Take in what is new, and show it."""
    try:
        await _start_after_others(client, {})
    except EdgeRefused as error:
        print(f"loreline: nothing is taken in: {error}", file=sys.stderr)
    else:
        await follow_run(client)


async def _start_after_others(client: Attached, body: dict[str, Any]) -> None:
    """Start a run. One of before that goes on is followed first: it may not know of the newest files."""
    while True:
        try:
            await client.post("/api/ingest", body)
        except EdgeRefused as error:
            if error.code != RUNNING:
                raise
            await follow_run(client)
        else:
            return


async def follow_run(client: Attached) -> dict[str, Any]:
    """Show the newest run until it ends; returns it."""
    run: dict[str, Any] = {}
    async with aclosing(client.stream("GET", "/api/ingest/status")) as frames:
        async for sent in frames:
            if sent.event == "status" and sent.data["run"] is not None:
                run = sent.data["run"]
            elif sent.event == "progress" and sent.data["stage"] == "file_done":
                _show_file(sent.data)
            elif sent.event == "log" and sent.data["level"] != "INFO":
                print(f"  {sent.data['message']}", file=sys.stderr, flush=True)
    print(_summary(run), flush=True)
    return run


def _show_file(data: dict[str, Any]) -> None:
    done, total = data.get("files_done"), data.get("files_total")
    count = f"[{done}/{total}]" if total is not None else f"[{done}]"
    print(f"  {count} {data['outcome']:<9} {data['file']}", flush=True)


def _summary(run: dict[str, Any]) -> str:
    summary = run.get("summary")
    if summary is None:
        return f"Ingest {run.get('state', 'unknown')}: {run.get('error') or 'no summary'}"
    words = ("ingested", "skipped", "no_text", "failed", "unsupported")
    parts = [f"{summary[word]} {word.replace('_', ' ')}" for word in words if summary[word]]
    return f"Ingest {run['state']}: {', '.join(parts) or 'nothing to do'}; {summary['chunks']} new chunks."
