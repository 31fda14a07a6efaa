"""What must hold in the end, judged by the oracle's two files and the stores, from outside the product."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import nats
import psycopg
from psycopg.rows import dict_row

from loreline.cli.attach import Attached
from loreline.events.audit import audit
from loreline.events.jetstream import JetStreamLog
from tests.campaign.drive import VIEWS
from tests.campaign.records import read_record

EMBED_BATCH = 16
IN_WORK_S = 5.0
"""A kill this long before a call may still repeat it: the call was on its way, or the event in two hands."""
MARKER = re.compile(r"mk[0-9a-f]{10}")
PREFIX = "passage: "


@dataclass(frozen=True)
class Chunk:
    """A row of the passages view."""

    chunk_id: str
    from_seq: int
    is_live: bool
    path: str
    number: int
    content: str
    context: str


@dataclass
class World:
    """Everything there is to judge by."""

    root: Path
    acknowledged: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    kills: list[dict[str, Any]]
    events: list[dict[str, Any]] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


async def observe(client: Attached, *, root: Path, oracle: Path) -> World:
    """Look at everything, once the views contain the whole log."""
    world = World(
        root,
        read_record(oracle / "acknowledged.jsonl"),
        read_record(oracle / "calls.jsonl"),
        read_record(root / "kills.jsonl"),
    )
    world.events = [sent.data async for sent in client.stream("GET", "/api/events?after_seq=0&follow=false")]
    for view in await client.get("/api/views"):
        await client.get("/api/documents", min_seq=view["seq"] + view["lag"])
    world.chunks = _passages(root)
    return world


async def judge(client: Attached, world: World) -> list[str]:
    """Everything that is not as it must be, in words, but for what needs the models to be away."""
    documents = await client.get("/api/documents", include="failed")
    return [
        *_corpus(world, documents),
        *_no_chunk_twice(world),
        *await _conversations(client, world),
        *repeated_calls(world),
        *_numbered(world),
        *await _audited(world),
    ]


async def compare_views(client: Attached) -> list[str]:
    """Every view beside its rebuild from the first event. Stop the models before."""
    problems = []
    for name in VIEWS:
        found = await client.post(f"/api/views/{name}/verify")
        if not found["equal"]:
            problems.append(f"the view {name} differs from its rebuild")
        if name in {"passages", "lexical", "documents"} and found["rows"] == 0:
            problems.append(f"the view {name} is empty")
    return problems


def _corpus(world: World, documents: list[dict[str, Any]]) -> list[str]:
    """Each path in the state its newest acknowledged content must have, with that content and no other."""
    wanted = _wanted(world)
    found = {each["relative_path"]: each for each in documents}
    texts: dict[str, str] = defaultdict(str)
    for chunk in world.chunks:
        if chunk.is_live:
            texts[chunk.path] += chunk.content + "\n"
    problems = [f"{path} is listed, but nobody put it there" for path in found.keys() - wanted.keys()]
    for path, content in wanted.items():
        if content is None:
            if path in found or path in texts:
                problems.append(f"{path} is still there")
        else:
            held = set(MARKER.findall(texts[path]))
            problems += _file(path, content, found=found.get(path, {}), held=held)
    return problems


def _wanted(world: World) -> dict[str, dict[str, Any] | None]:
    """What each path must hold; None: nothing. An upload in the log counts, though its answer was lost."""
    stored = [each["payload"]["private"] for each in world.events if each["type"] == "file.uploaded"]
    uploaded = {each["relative_path"] for each in stored}
    wanted: dict[str, dict[str, Any] | None] = {}
    for line in world.acknowledged:
        if line["kind"] in {"upload", "drop", "lone_upload"}:
            is_lost = line.get("lost") and line["path"] not in uploaded
            wanted[line["path"]] = None if is_lost else line["content"]
        elif line["kind"] == "delete":
            wanted[line["path"]] = None
    return wanted


def _file(path: str, content: dict[str, Any], *, found: dict[str, Any], held: set[str]) -> list[str]:
    problems = []
    if found.get("state") != content["state"]:
        problems.append(f"{path} is {found.get('state')}, not {content['state']}")
    if held != set(content["markers"]):
        problems.append(f"{path} holds other text than was acknowledged last")
    if found.get("content_hash") not in {content["sha256"], None}:
        problems.append(f"{path} is listed with another content's hash")
    return problems


def _no_chunk_twice(world: World) -> list[str]:
    live = Counter(chunk.chunk_id for chunk in world.chunks if chunk.is_live)
    problems = [f"passages hold {each} {count} times" for each, count in live.items() if count > 1]
    lexical: Counter[str] = Counter()
    version = json.loads((world.root / "data/lexical/live.json").read_text())["version"]
    for path in (world.root / f"data/lexical/v{version}").glob("*.sqlite3"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as index:
            lexical.update(
                row[0] for row in index.execute("SELECT chunk_id FROM chunks WHERE to_seq IS NULL")
            )
    problems += [f"lexical holds {each} {count} times" for each, count in lexical.items() if count > 1]
    if live.keys() != lexical.keys():
        problems.append(f"passages and lexical differ in {len(live.keys() ^ lexical.keys())} chunks")
    return problems


async def _conversations(client: Attached, world: World) -> list[str]:
    """Each acknowledged conversation and turn once, each deleted one gone, and nothing else."""
    created = [line["conversation"] for line in world.acknowledged if line["kind"] == "create"]
    deleted = {line["conversation"] for line in world.acknowledged if line["kind"] == "delete_conversation"}
    turns: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in world.acknowledged:
        if line["kind"] == "ask":
            turns[line["done"]["conversation_id"]].append(line)
    wanted = Counter({*created, *turns} - deleted)
    listed = Counter(each["conversation_id"] for each in await client.get("/api/conversations"))
    problems = []
    if listed != wanted:
        problems.append(f"conversations listed too often: {listed - wanted}, too seldom: {wanted - listed}")
    for conversation in wanted & listed:
        messages = (await client.get(f"/api/conversations/{conversation}"))["messages"]
        held = [(each["role"], each["content"]) for each in messages]
        asked = [
            pair
            for line in turns[conversation]
            for pair in (("user", line["question"]), ("assistant", line["done"]["answer"]))
        ]
        if Counter(held) != Counter(asked):
            problems.append(f"{conversation} holds {len(held)} messages; {len(asked)} were acknowledged")
    answers = [(await client.http.get(f"/api/conversations/{each}")).status_code for each in deleted]
    return problems + [f"a deleted conversation answers {code}" for code in answers if code != 404]


def repeated_calls(world: World) -> list[str]:
    """No call for a text batch after its version is embedded; before, at most one more a kill."""
    names = {each.context.partition(":")[0] for each in world.chunks}
    names |= {line["path"].rsplit("/", 1)[1] for line in world.acknowledged if line.get("content")}
    batches: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for call in world.calls:
        first = call["texts"][0].removeprefix(PREFIX)
        if call["texts"][0].startswith(PREFIX) and first.partition("\n")[0].partition(":")[0] in names:
            batches[tuple(call["texts"])].append(call["at"])
    problems = []
    for texts, moments in batches.items():
        since = min(moments) - IN_WORK_S
        kills = sum(since <= kill["at"] <= max(moments) for kill in world.kills)
        if len(moments) > 1 + kills:
            problems.append(f"{len(moments)} calls for {texts[0][:60]!r}… with {kills} kills among them")
    n_matched = 0
    for seq, moment, committed in _embedded(world):
        for texts in committed:
            n_matched += texts in batches
            late = [at for at in batches.get(texts, []) if at > moment]
            if late:
                problems.append(
                    f"{len(late)} calls for {texts[0][:60]!r}… up to {max(late) - moment:.3f} s "
                    f"after it was embedded at {seq}"
                )
    if not n_matched:
        problems.append("no call of the log belongs to an embedded version: the check sees nothing")
    return problems


def _embedded(world: World) -> list[tuple[int, float, list[tuple[str, ...]]]]:
    """(Sequence, time, text batches) of every embedded event, from the rows it led to."""
    rows: dict[int, list[Chunk]] = defaultdict(list)
    for chunk in world.chunks:
        rows[chunk.from_seq].append(chunk)
    found = []
    for event in world.events:
        if event["type"] == "file.embedded":
            chunks = sorted(rows[event["seq"]], key=lambda chunk: chunk.number)
            texts = [f"{PREFIX}{each.context}\n\n{each.content}" for each in chunks]
            cut = [tuple(texts[at : at + EMBED_BATCH]) for at in range(0, len(texts), EMBED_BATCH)]
            found.append((event["seq"], datetime.fromisoformat(event["time"]).timestamp(), cut))
    return found


def _numbered(world: World) -> list[str]:
    """The log's sequences have no gap and no event is in it twice."""
    seqs = [each["seq"] for each in world.events]
    problems = [] if seqs == list(range(1, len(seqs) + 1)) else ["the log's sequences have gaps"]
    ids = Counter(each["id"] for each in world.events)
    problems += [f"event {each} is {count} times in the log" for each, count in ids.items() if count > 1]
    parked = [each for each in world.events if each["type"] == "deadletter.parked"]
    return [*problems, *(f"parked: {each['payload']}" for each in parked)]


async def _audited(world: World) -> list[str]:
    """The log's own chains."""
    ports, secrets = _runtime(world.root)["ports"], _secrets(world.root)
    url = f"nats://app:{secrets['nats']['app']}@127.0.0.1:{ports['nats']}"
    connection = await nats.connect(url)
    try:
        log = JetStreamLog(connection)
        last_seq = (await log.info()).last_seq
        found = await audit(log, through_seq=last_seq)
    finally:
        await connection.close()
    return [] if found.seq == last_seq else [f"the audit came to {found.seq} of {last_seq}"]


def database_of(root: Path) -> psycopg.Connection[dict[str, Any]]:
    """A connection of our own to the running stack's database."""
    return psycopg.connect(
        host="127.0.0.1",
        port=_runtime(root)["ports"]["postgres"],
        user="postgres",
        password=_secrets(root)["postgres"],
        dbname="loreline",
        row_factory=dict_row,
        autocommit=True,
    )


def live_chunk_tables(database: psycopg.Connection[dict[str, Any]]) -> list[str]:
    """The tables of the passages view that answers, one a profile."""
    found = database.execute(
        "SELECT format('%I.%I', t.schemaname, t.tablename) AS name FROM loreline.views v JOIN pg_tables t"
        " ON t.schemaname = 'passages_v' || v.version AND t.tablename LIKE 'chunks\\_%'"
        " WHERE v.view = 'passages' AND v.state = 'live'"
    )
    return [row["name"] for row in found]


def _passages(root: Path) -> list[Chunk]:
    with database_of(root) as database:
        tables = live_chunk_tables(database)
        return [_chunk(row) for table in tables for row in database.execute(f"SELECT * FROM {table}")]


def _chunk(row: dict[str, Any]) -> Chunk:
    return Chunk(
        row["chunk_id"],
        row["from_seq"],
        row["to_seq"] is None,
        row["metadata"]["relative_path"],
        row["metadata"]["chunk_index"],
        row["content"],
        row["context"] or "",
    )


def _runtime(root: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((root / "data/runtime.json").read_text())
    return held


def _secrets(root: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((root / "data/secrets.json").read_text())
    return held


async def is_away(url: str) -> bool:
    """Whether nothing answers at an address."""
    async with httpx.AsyncClient(trust_env=False) as http:
        try:
            await http.post(f"{url}/embeddings", json={"model": "oracle", "input": ["x"]})
        except httpx.TransportError:
            return True
    return False
