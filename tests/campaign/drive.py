"""Drives a stack through a plan: starts it, arms kills, repeats requests until they are acknowledged."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from loreline.cli.attach import Attached, EdgeRefused
from tests.campaign import processes
from tests.campaign.plan import Act, Kill, Step
from tests.campaign.records import Record, read_record

REPOSITORY = Path(__file__).parents[2]
START_PATIENCE_S = 60.0
PATIENCE_S = 90.0
STALLED_S = 45.0
ORPHAN_PATIENCE_S = 5.0
VIEWS = ("passages", "lexical", "documents", "conversations", "settings", "operations")


class GaveUp(Exception):
    """A request was not acknowledged in any reasonable time."""


def spawn(module: str, *arguments: str, cwd: Path, output: Path | int) -> subprocess.Popen[bytes]:
    """A process of this package, which ends when its standard input does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])}
    argv = [sys.executable, "-m", f"tests.campaign.{module}", *arguments]
    if isinstance(output, int):
        return subprocess.Popen(argv, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=output)
    with output.open("ab") as log:
        return subprocess.Popen(argv, cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log)


def end(process: subprocess.Popen[bytes]) -> None:
    """Let go of a process and wait for its end."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait(timeout=30)


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Attached]:
    """A client that passes on what the transport raises, as any client in the world would see it."""
    timeout = httpx.Timeout(None, connect=5.0)
    async with httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False) as http:
        yield Attached(url, http)


class Oracle:
    """The embedding server in a process of its own."""

    def __init__(self, folder: Path, *, delay_s: float) -> None:
        folder.mkdir(parents=True)
        self.calls = folder / "calls.jsonl"
        self._process = spawn("oracle", str(self.calls), str(delay_s), cwd=REPOSITORY, output=subprocess.PIPE)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()

    def stop(self) -> None:
        """End it; a second call does nothing."""
        end(self._process)


class Victim:
    """The stack in a process of its own, on one data directory through all its lives.

    Attributes:
        problems: what it did that it must not do, in words.
        gone_s: for each death, how long its servers and workers outlived it.
    """

    def __init__(self, root: Path, embedder_url: str) -> None:
        (root / "docs").mkdir(parents=True)
        self.root = root
        self.problems: list[str] = []
        self.gone_s: list[float] = []
        self.start_s: list[float] = []
        self.kills = Record(root / "kills.jsonl")
        self._embedder_url = embedder_url
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """Its process id while it lives."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def ready_pid(self) -> int | None:
        """Its process id while it lives and has come up."""
        held = self._ready()
        return self.pid if held is not None and held["pid"] == self.pid else None

    def _ready(self) -> dict[str, Any] | None:
        try:
            held: dict[str, Any] = json.loads((self.root / "ready.json").read_text())
        except FileNotFoundError:
            return None
        return held

    async def url(self) -> str:
        """Where it answers; started first if it does not live. Raises GaveUp when it does not come up."""
        started = time.monotonic()
        while True:
            if self.pid is None:
                await self._bury()
                started = time.monotonic()
                self._process = spawn(
                    "victim",
                    str(self.root),
                    self._embedder_url,
                    cwd=self.root,
                    output=self.root / "victim.log",
                )
            held = self._ready()
            if held is not None and held["pid"] == self.pid:
                if time.monotonic() - started > 0.05:
                    self.start_s.append(time.monotonic() - started)
                return str(held["url"])
            if time.monotonic() - started > START_PATIENCE_S:
                raise GaveUp("the stack did not start")
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Stop it the way a user does."""
        if self._process is not None and self.pid is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(self._process.wait, 40)
            except subprocess.TimeoutExpired:
                self.problems.append("a stop by SIGTERM took more than 40 s")
                self._process.kill()
            else:
                if self._process.returncode != 0:
                    self.problems.append(f"a stop by SIGTERM ended with code {self._process.returncode}")
            await self._bury(stopped=True)
        self.kills.close()

    def kill_all(self) -> None:
        """End everything that is left, whatever happened before."""
        processes.kill(*processes.of_stack(self.root, *self._shelters()))
        if self._process is not None:
            end(self._process)

    async def _bury(self, *, stopped: bool = False) -> None:
        """After a death: was it one of ours, and did everything die with it?"""
        if self._process is None:
            return
        if not stopped and self._process.returncode != -signal.SIGKILL:
            self.problems.append(f"the stack ended by itself with code {self._process.returncode}")
        end(self._process)
        self._process = None
        left, gone_s = await asyncio.to_thread(
            lambda: processes.wait_gone(self.root, *self._shelters(), timeout_s=ORPHAN_PATIENCE_S)
        )
        self.gone_s.append(gone_s)
        if left:
            self.problems.append(f"orphans {ORPHAN_PATIENCE_S:g} s after a death: {left}")

    def _shelters(self) -> list[str]:
        """Directories of the stack outside its root: PostgreSQL's, when the root is closed to it."""
        try:
            runtime = json.loads((self.root / "data" / "runtime.json").read_text())
        except (OSError, ValueError):
            return []
        elsewhere = runtime.get("postgres_directory")
        return [elsewhere] if elsewhere else []


class Client:
    """A client that repeats a request, with its key, until it is acknowledged, and writes down what was."""

    def __init__(self, victim: Victim, acknowledged: Path) -> None:
        self.victim = victim
        self.acknowledged = Record(acknowledged)
        self.problems: list[str] = []
        self._conversations: dict[str, str] = {}

    @asynccontextmanager
    async def _attached(self) -> AsyncIterator[Attached]:
        async with client_of(await self.victim.url()) as attached:
            yield attached

    async def request(
        self, method: str, path: str, *, key: str, ok: tuple[int, ...], again: bool = True, **body: Any
    ) -> tuple[httpx.Response | None, bool]:
        """(The answer with one of the `ok` codes, whether it was asked more than once).

        None instead of an answer when `again` is False and the first try was lost.
        """
        deadline, retried = time.monotonic() + PATIENCE_S, False
        last = "nothing"
        while time.monotonic() < deadline:
            try:
                async with self._attached() as attached:
                    response = await attached.http.request(
                        method, path, headers={"Idempotency-Key": key}, timeout=STALLED_S, **body
                    )
            except httpx.TransportError as error:
                last = f"{type(error).__name__}: {error}"
                if isinstance(error, httpx.ReadTimeout):
                    self.problems.append(f"{method} {path} had no answer for {STALLED_S:g} s")
                if not again:
                    return None, retried
            else:
                if response.status_code in ok:
                    return response, retried
                last = f"{response.status_code} {response.text[:300]}"
                if response.status_code < 500 and response.status_code not in {404, 409}:
                    break
                if response.status_code == 404 and retried:
                    return response, retried
                if response.status_code == 404:
                    break
            retried = True
            await asyncio.sleep(0.1)
        raise GaveUp(f"{method} {path} ({key}) was not acknowledged; last: {last}")

    async def do(self, step: Step) -> None:
        """Do a step until it is acknowledged."""
        match step.kind:
            case "upload" | "lone_upload":
                await self._upload(step)
            case "drop":
                await asyncio.to_thread(_drop, self.victim.root / "docs" / step.path, step.data)
                self._note(step, content=_content(step))
            case "ingest" | "reingest":
                body = {"reingest": step.kind == "reingest"}
                await self.request("POST", "/api/ingest", key=step.key, ok=(202,), json=body)
                self._note(step)
            case "delete":
                await self._delete(step)
            case "create":
                answer, _ = await self.request(
                    "POST", "/api/conversations", key=step.key, ok=(201,), json={"title": step.key}
                )
                assert answer is not None
                self._conversations[step.key] = answer.json()["conversation_id"]
                self._note(step, conversation=self._conversations[step.key])
            case "delete_conversation":
                conversation = self._conversations[step.conversation or ""]
                await self.request("DELETE", f"/api/conversations/{conversation}", key=step.key, ok=(204,))
                self._note(step, conversation=conversation)
            case "ask":
                await self._ask(step)

    async def _upload(self, step: Step) -> None:
        files = {"files": (step.path.rsplit("/", 1)[1], step.data)}
        answer, _ = await self.request(
            "POST",
            "/api/documents",
            key=step.key,
            ok=(201,),
            again=step.kind == "upload",
            files=files,
            data={"paths": step.path},
        )
        self._note(step, content=_content(step), lost=answer is None)

    async def _delete(self, step: Step) -> None:
        """Delete a document that was ingested: the id is that of its content, known without the product."""
        await self.settle()
        await self.request("POST", "/api/ingest", key=f"{step.key}-ingest", ok=(202,), json={})
        await self.settle()
        data = (self.victim.root / "docs" / step.path).read_bytes()
        doc_id = hashlib.sha256(f"{step.path}:{hashlib.sha256(data).hexdigest()}".encode()).hexdigest()[:16]
        await self.request("DELETE", f"/api/documents/{doc_id}", key=step.key, ok=(200,))
        self._note(step)

    async def _ask(self, step: Step) -> None:
        """Ask until `done` comes; a turn that ended in an error is asked again under a new key."""
        conversation = self._conversations.get(step.conversation or "")
        body: dict[str, Any] = {"query": step.question}
        if conversation is not None:
            body["conversation_id"] = conversation
        deadline, attempt, last = time.monotonic() + PATIENCE_S, 0, "nothing"
        while time.monotonic() < deadline:
            try:
                async with asyncio.timeout(STALLED_S):
                    kind, data = await self._turn(f"{step.key}-{attempt}", body)
            except (httpx.TransportError, EdgeRefused) as error:
                kind, data, last = "lost", {}, f"{type(error).__name__}: {error}"
            except TimeoutError:
                self.problems.append(f"the answer to {step.key} stalled for {STALLED_S:g} s")
                kind, data = "lost", {}
            if kind == "done":
                self._note(step, question=step.question, done=data)
                return
            if kind == "error":
                attempt, last = attempt + 1, str(data)
                self.acknowledged.add(kind="ask_error", key=step.key, error=data)
            await asyncio.sleep(0.1)
        raise GaveUp(f"{step.key} was never answered; last: {last}")

    async def _turn(self, key: str, body: Mapping[str, Any]) -> tuple[str, Any]:
        async with self._attached() as attached:
            attached.http.headers["Idempotency-Key"] = key
            async for sent in attached.stream("POST", "/api/chat", body):
                if sent.event in {"done", "error"}:
                    return sent.event, sent.data
        return "lost", {}

    async def settle(self) -> dict[str, Any] | None:
        """Wait for the end of the newest ingest; returns the run."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError, EdgeRefused, TimeoutError):
                async with asyncio.timeout(STALLED_S), self._attached() as attached:
                    run: dict[str, Any] | None = None
                    async for sent in attached.stream("GET", "/api/ingest/status"):
                        if sent.event == "status":
                            run = sent.data["run"]
                    if run is None or run["state"] == "completed":
                        return run
                    if run["state"] == "failed":
                        raise GaveUp(f"an ingest failed: {run}")
            await asyncio.sleep(0.1)
        raise GaveUp("an ingest did not come to its end")

    def _note(self, step: Step, **more: Any) -> None:
        self.acknowledged.add(kind=step.kind, key=step.key, path=step.path, **more)


def _content(step: Step) -> dict[str, Any]:
    shape = "failed" if step.path.endswith(".pdf") else "embedded" if step.markers else "no_text"
    return {"sha256": hashlib.sha256(step.data).hexdigest(), "markers": step.markers, "state": shape}


def _drop(path: Path, data: bytes) -> None:
    """Put a file into the corpus as a careful user does: whole, and durable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


class Killer:
    """Arms a kill, strikes from outside where that is what it is, and knows whether it was hit."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self._arm = victim.root / "arm.json"
        self._striking: asyncio.Task[None] | None = None

    def arm(self, number: int, kill: Kill) -> None:
        """Arm a kill."""
        if kill.nth:
            hook = {"during_rebuild": "in_projection", "before_answer": "after_append"}.get(
                kill.point, kill.point
            )
            aside = self._arm.with_suffix(".new")
            aside.write_text(json.dumps({"kill": number, "point": hook, "nth": kill.nth}))
            aside.replace(self._arm)
        else:
            self._striking = asyncio.create_task(self._strike(number, kill))

    async def disarm(self) -> None:
        """Arm nothing."""
        self._arm.unlink(missing_ok=True)
        if self._striking is not None:
            await self._striking
            self._striking = None

    def was_hit(self, number: int) -> bool:
        """Whether the kill happened."""
        return any(line["kill"] == number for line in read_record(self._victim.root / "kills.jsonl"))

    async def _strike(self, number: int, kill: Kill) -> None:
        await asyncio.sleep(kill.delay_s)
        for _ in range(3000):
            pid = self._victim.ready_pid
            children = processes.children_of(pid) if pid else {}
            wanted = [each for each, name in children.items() if name.startswith(kill.point)]
            if pid and kill.point == "everything":
                wanted = [pid, *children]
            if wanted:
                self._victim.kills.add(kill=number, at=time.time())
                processes.kill(*wanted)
                return
            await asyncio.sleep(0.01)


async def act(client: Client, killer: Killer, number: int, scene: Act, chance: random.Random) -> bool:
    """Play an act to its end; whether its kill was hit."""
    rebuilds = scene.kill.point == "during_rebuild"
    if not rebuilds and scene.aim is None:
        killer.arm(number, scene.kill)
    for step in scene.steps:
        if step.key == scene.aim:
            await client.settle()  # nobody else appends anything now
            killer.arm(number, scene.kill)
        await client.do(step)
    await client.settle()
    if rebuilds:
        killer.arm(number, scene.kill)
        for view in chance.sample(VIEWS, len(VIEWS)):
            if not killer.was_hit(number):
                path = f"/api/views/{view}/rebuild"
                await client.request("POST", path, key=f"rebuild-{number}", ok=(200,))
    await killer.disarm()
    return killer.was_hit(number)
