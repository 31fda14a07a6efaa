"""`status`, `events tail` and `views`: looking at a stack."""

from __future__ import annotations

import argparse
import json
from contextlib import aclosing
from typing import Any

from loreline.cli.attach import Attached, attached, attached_to
from loreline.embedded.directory import is_held, read_runtime
from loreline.embedded.runtime import Runtime

TAIL = 20


async def status(arguments: argparse.Namespace) -> int:
    """Say what runs; exits with 1 when nothing does, or something is not well."""
    runtime = read_runtime(arguments.config.data)
    if runtime is None or not runtime.url:
        _say_state(arguments, runtime)
        return 1
    async with attached_to(runtime.url) as client:
        health, views = await client.get("/api/health"), await client.get("/api/views")
    if arguments.json:
        found = {"state": "running", "pid": runtime.pid, "url": runtime.url, "health": health, "views": views}
        print(json.dumps(found, indent=2))
    else:
        print(f"Loreline runs at {runtime.url} (process {runtime.pid}).")
        for name, service in health["services"].items():
            print(f"  {name:<12} {'ok' if service['ok'] else 'NOT OK: ' + (service['detail'] or '')}")
        print(_view_lines(views))
    return 0 if health["ok"] else 1


def _say_state(arguments: argparse.Namespace, runtime: Runtime | None) -> None:
    """The state of a data directory whose stack does not answer."""
    data = arguments.config.data
    pid = runtime.pid if runtime is not None else None
    if pid is not None:
        state, words = "starting", f"Process {pid} is just starting the stack on {data}."
    elif is_held(data):
        state, words = "stopping", f"The stack on {data} is just stopping."
    else:
        state, words = "stopped", f"Nothing runs on {data}. `loreline up` starts it."
    found = {"state": state, "pid": pid, "url": None, "health": None, "views": None}
    print(json.dumps(found, indent=2) if arguments.json else words)


async def tail(arguments: argparse.Namespace) -> int:
    """Print events as they are appended."""
    async with attached(arguments.config) as client:
        after = arguments.after if arguments.after is not None else await _near_the_end(client)
        follow = "false" if arguments.no_follow else "true"
        path = f"/api/events?after_seq={after}&follow={follow}"
        async with aclosing(client.stream("GET", path)) as frames:
            async for sent in frames:
                print(
                    json.dumps(sent.data, ensure_ascii=False) if arguments.json else _line(sent.data),
                    flush=True,
                )
    return 0


async def _near_the_end(client: Attached) -> int:
    views = await client.get("/api/views")
    return max(0, max((view["seq"] + view["lag"] for view in views), default=0) - TAIL)


def _line(event: dict[str, Any]) -> str:
    payload = event["payload"]
    private = payload.get("private") or {}
    words = private.get("relative_path") or private.get("question") or private.get("title") or ""
    reason = private.get("reason") or private.get("error") or ""
    moment = event["time"][:19].replace("T", " ")
    return (
        f"{event['seq']:>8}  {moment}  {event['type']:<28} {words}{': ' if words and reason else ''}{reason}"
    )


async def list_views(arguments: argparse.Namespace) -> int:
    """List the views."""
    async with attached(arguments.config) as client:
        print(_view_lines(await client.get("/api/views")))
    return 0


async def compare_views(arguments: argparse.Namespace) -> int:
    """Rebuild or verify one view or all; exits with 1 when one differs from its rebuild."""
    equal = True
    async with attached(arguments.config) as client:
        names = [view["name"] for view in await client.get("/api/views")]
        for name in names if arguments.view == "all" else [arguments.view]:
            found = await client.post(f"/api/views/{name}/{arguments.action}")
            verdict = "equal" if found["equal"] else "DIFFERENT from what answered before"
            counts = f"{found['rows']:>8} rows through {found['seq']} in {found['seconds']:.2f} s"
            print(f"{name:<14} {counts}: {verdict}")
            equal = equal and found["equal"]
    return 0 if equal else 1


def _view_lines(views: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"  {view['name']:<14} v{view['version']}  at {view['seq']:<8} {view['lag']} behind  {view['state']}"
        + (f": {view['reason']}" if view["reason"] else "")
        for view in views
    )
