"""The contract of a view's store, run over every view there is, on real stores and random histories."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
import pytest_asyncio
from psycopg.conninfo import make_conninfo

from loreline.embedded.postgres import EmbeddedPostgres
from loreline.events.append import Command
from loreline.events.envelope import Stored
from loreline.events.folds.conversation import CONVERSATION
from loreline.projectors.chunk_tables import table_of
from loreline.projectors.database import ViewDatabase
from loreline.projectors.host import ViewHost
from loreline.projectors.materialize import materializer
from loreline.projectors.postgres import ViewTables
from loreline.projectors.rowhash import row_hash
from loreline.projectors.runner import ViewRunner
from loreline.projectors.store import Inside, PostgresStore, ViewStore
from loreline.projectors.view import Checkpoint, View, ViewTaken
from loreline.projectors.views import (
    conversations_postgres,
    documents_postgres,
    operations_postgres,
    passages_postgres,
    settings_postgres,
)
from loreline.projectors.views.conversations_postgres import ConversationsReader, conversations
from loreline.projectors.views.documents_postgres import DOCUMENTS_VIEW, DocumentsReader
from loreline.projectors.views.lexical_sqlite import LexicalFiles, LexicalReader
from loreline.projectors.views.operations_postgres import OPERATIONS_VIEW, OperationsReader
from loreline.projectors.views.passages_postgres import PassagesReader, passages
from loreline.projectors.views.settings_postgres import SETTINGS_VIEW, SettingsReader
from loreline.schemas.errors import NotReady
from loreline.schemas.events import conversation as conversation_events
from loreline.schemas.events import file
from loreline.schemas.events.payload import Payload
from loreline.schemas.ids import conversation_aggregate, owner_of
from tests.contracts.history import WORDS, answered, asked, history
from tests.world import CountingEmbedder, World

TYPES: Mapping[str, frozenset[str]] = {
    "passages": passages_postgres.TYPES,
    "documents": documents_postgres.TYPES,
    "conversations": conversations_postgres.TYPES,
    "settings": settings_postgres.TYPES,
    "operations": operations_postgres.TYPES,
}
NAMES = ("passages", "documents", "conversations", "settings", "operations", "lexical")
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
Events = Sequence[Stored[Payload]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres() -> AsyncIterator[EmbeddedPostgres]:
    """One server for the module, in memory, where the user it runs as can reach it."""
    root = Path(tempfile.mkdtemp(prefix="loreline-views-", dir=MEMORY))
    root.chmod(0o755)
    (root / "postgres").mkdir(mode=0o700)
    (root / "shelter").mkdir(mode=0o755)
    server = EmbeddedPostgres(root / "postgres", password="views", logs=root, shelters=(root / "shelter",))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        shutil.rmtree(root)


@pytest.fixture
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[ViewDatabase]:
    """A database of the test's own."""
    name = f"test_{uuid4().hex}"
    async with await psycopg.AsyncConnection.connect(postgres.conninfo, autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {name}".encode())
    opened = ViewDatabase(make_conninfo(postgres.conninfo, dbname=name), max_connections=8)
    await opened.open()
    yield opened
    await opened.close()


Tell = Callable[[int], World]


@pytest.fixture(scope="module")
def tell(tmp_path_factory: pytest.TempPathFactory) -> Tell:
    """Worlds with histories by seed, each made once and handed out with a log of its own."""
    made: dict[int, World] = {}

    def told(seed: int) -> World:
        if seed not in made:
            root = tmp_path_factory.mktemp(f"told-{seed}")
            with ThreadPoolExecutor(1) as thread:
                made[seed] = thread.submit(lambda: asyncio.run(history(root, seed))).result()
        return made[seed].retold()

    return told


@pytest.fixture
def told(tell: Tell) -> World:
    return tell(7)


@pytest.fixture
async def events(told: World) -> Events:
    return await told.events()


class Stores:
    """The stores of all views over one world."""

    def __init__(self, world: World, database: ViewDatabase, root: Path) -> None:
        self.world = world
        self.database = database
        self.root = root / "lexical"
        self.docs = world.docs

    def tables(self) -> Mapping[str, ViewTables]:
        made = (
            passages(materializer(self.world.blobs)),
            DOCUMENTS_VIEW,
            conversations(self.world.blobs.get),
            SETTINGS_VIEW,
            OPERATIONS_VIEW,
        )
        return {each.name: each for each in made}

    def store(self, name: str, *, inside: Inside | None = None) -> ViewStore:
        if name == "lexical":
            return LexicalFiles(self.root, materializer(self.world.blobs), inside=inside)
        return PostgresStore(self.database, self.tables()[name], inside=inside)

    def all(self) -> list[ViewStore]:
        return [self.store(name) for name in NAMES]

    async def tamper(self, name: str, *, version: int, missing: bool) -> None:
        """Alter, or remove, one row that a view holds."""
        if name == "lexical":
            self._tamper_with_words(version, missing=missing)
            return
        table, change = TAMPERING[name]
        schema = f"{name}_v{version}"
        if name == "passages":
            (first, *_) = await self.database.fetch("SELECT profile FROM {schema}.profiles", schema=schema)
            table = table_of(first["profile"])
        doing = f"DELETE FROM {schema}.{table}" if missing else f"UPDATE {schema}.{table} SET {change}"
        statement = f"{doing} WHERE ctid = (SELECT ctid FROM {schema}.{table} LIMIT 1)"
        async with self.database.connection() as connection:
            assert (await connection.execute(statement.encode())).rowcount == 1

    def _tamper_with_words(self, version: int, *, missing: bool) -> None:
        path = sorted((self.root / f"v{version}").glob("*.sqlite3"))[0]
        doing = "DELETE FROM chunks" if missing else "UPDATE chunks SET content = 'x'"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"{doing} WHERE row = (SELECT min(row) FROM chunks)")


TAMPERING = {
    "passages": ("", "embedding = embedding + embedding"),
    "documents": ("outcomes", "n_chunks = n_chunks + 1"),
    "conversations": ("messages", "content = content || '.'"),
    "settings": ("settings", "value = value || '0'"),
    "operations": ("operations", "reingest = NOT reingest"),
}


@pytest.fixture
def stores(told: World, database: ViewDatabase, tmp_path: Path) -> Stores:
    return Stores(told, database, tmp_path)


async def fed(view: View, events: Events, *, size: int = 10_000) -> View:
    """The view after these events, `size` at a time, from where it stands."""
    await view.open()
    at = await view.checkpoint()
    for start in range(0, len(events), size):
        at = await view.apply(events[start : start + size], after=at)
    await view.flush()
    return view


async def contents(view: View) -> tuple[Checkpoint, str, int]:
    """(Where it stands, hash of its rows, number of rows)."""
    return await view.checkpoint(), *await row_hash(view.rows())


@pytest.mark.parametrize("name", NAMES)
async def test_rows_and_checkpoint_move_together(stores: Stores, events: Events, name: str) -> None:
    view = await fed(stores.store(name).view(1), events)
    at, digest, n_rows = await contents(view)
    assert at == Checkpoint(events[-1].seq, str(events[-1].event.id))
    assert n_rows > 3
    another = stores.store(name).view(1)
    await another.open()
    assert await contents(another) == (at, digest, n_rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("overlap", ["all", "some"])
async def test_who_applies_from_a_checkpoint_that_has_passed_is_stopped_and_changes_nothing(
    stores: Stores, events: Events, name: str, overlap: str
) -> None:
    half = len(events) // 2
    late = stores.store(name).view(1)
    await fed(late, events[:half])
    stale = await late.checkpoint()
    await fed(stores.store(name).view(1), events[half:-20])
    before = await contents(await _opened(stores, name))
    with pytest.raises(ViewTaken, match=name):
        await _taken_in(late, events[half:] if overlap == "all" else events[half : half + 1], after=stale)
    assert await contents(await _opened(stores, name)) == before


async def _taken_in(view: View, events: Events, *, after: Checkpoint) -> None:
    await view.apply(events, after=after)
    await view.flush()


async def _opened(stores: Stores, name: str) -> View:
    view = stores.store(name).view(1)
    await view.open()
    return view


@pytest.mark.parametrize("name", NAMES)
async def test_a_crash_inside_the_transaction_leaves_the_old_state(
    stores: Stores, events: Events, name: str
) -> None:
    async def die() -> None:
        raise ConnectionResetError("the process dies here")

    straight = await contents(await fed(stores.store(name).view(2), events))
    for end in (0, 1, len(events) // 2, _last_taken(name, events)):
        view = await fed(stores.store(name).view(1), events[(await _seq(stores, name)) : end])
        before = await contents(view)
        dying = stores.store(name, inside=die).view(1)
        await dying.open()
        with pytest.raises(ConnectionResetError):
            await dying.apply(events[end:], after=await dying.checkpoint())
        assert await contents(await _opened(stores, name)) == before
    rest = events[(await _seq(stores, name)) :]
    assert await contents(await fed(stores.store(name).view(1), rest)) == straight


def _last_taken(name: str, events: Events) -> int:
    """The index of the last event that is the view's business."""
    types = TYPES.get(name)
    return max(index for index, each in enumerate(events) if types is None or each.event.type in types)


async def _seq(stores: Stores, name: str) -> int:
    return (await (await _opened(stores, name)).checkpoint()).seq


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 7])
async def test_however_a_log_is_cut_into_batches_the_rows_are_the_same(
    database: ViewDatabase, tmp_path: Path, tell: Tell, name: str, seed: int
) -> None:
    world = tell(seed)
    stores, events, random = Stores(world, database, tmp_path), await world.events(), Random(seed)
    whole = await contents(await fed(stores.store(name).view(1), events))
    singly = await contents(await fed(stores.store(name).view(2), events, size=1))
    bulk = await fed(stores.store(name).view(3, bulk=True), events, size=7)
    await bulk.finish_load()
    uneven, rest = stores.store(name).view(4), list(events)
    while rest:
        size = random.randint(1, 40)
        await fed(uneven, rest[:size])
        rest = rest[size:]
    assert {whole, singly, await contents(bulk), await contents(uneven)} == {whole}


@asynccontextmanager
async def hosting(world: World, stores: Sequence[ViewStore]) -> AsyncIterator[ViewHost]:
    host = ViewHost(world.log, world.codec, stores)
    await host.start()
    try:
        assert await host.wait((await world.log.info()).last_seq, views=list(host.runners), timeout_s=60)
        yield host
    finally:
        await host.stop()


async def test_what_was_fed_live_equals_what_is_built_anew(database: ViewDatabase, tmp_path: Path) -> None:
    world = World(tmp_path)
    stores = Stores(world, database, tmp_path)
    await world.define()
    async with hosting(world, stores.all()) as host:
        await history_in(world, 5)
        for name in NAMES:
            found = await host.verify(name)
            assert found.is_equal, name
            assert found.seq == (await world.log.info()).last_seq


async def history_in(world: World, seed: int) -> None:
    """Something of everything in a world that is there already."""
    random = Random(seed)
    for n in range(6):
        world.put(**{random.choice("abc"): " ".join(random.choices(WORDS, k=50 * (n + 1)))})
        await world.ingest()
    await world.delete("a.txt")
    await world.change(CHUNK_SIZE="300", CHUNK_OVERLAP="20")
    await world.ingest(reingest=True)
    await converse(world, "Where are the boats?")


async def converse(world: World, question: str, *, answer: str = "In the harbour.") -> UUID:
    conversation, turn = uuid4(), uuid4()
    aggregate = conversation_aggregate(str(conversation))
    world.keys.ensure([owner_of(aggregate)])
    evidence = await world.blobs.put(owner_of(aggregate), b'{"passages": []}')
    payloads = [
        conversation_events.ConversationCreated(private=conversation_events.Title(title=question)),
        asked(turn, question),
        answered(turn, evidence, answer=answer),
    ]
    await world.appender.execute(Command(aggregate, CONVERSATION, uuid4(), lambda _: payloads, actor="user"))
    return conversation


@pytest.mark.parametrize("name", NAMES)
async def test_of_two_who_feed_a_view_one_steps_back(
    database: ViewDatabase, tmp_path: Path, name: str
) -> None:
    world = World(tmp_path)
    await world.define()
    stores = Stores(world, database, tmp_path)
    runners = [ViewRunner(stores.store(name).view(1), world.log, world.codec) for _ in range(2)]
    tasks = [asyncio.create_task(runner.run()) for runner in runners]
    try:
        async with asyncio.timeout(30):
            while not any(runner.state == "halted" for runner in runners):
                await world.change(TOP_K="5")
                last_seq = (await world.log.info()).last_seq
                while max(runner.at.seq for runner in runners) < last_seq:
                    await asyncio.sleep(0.001)
                if all(runner.at.seq == last_seq for runner in runners):
                    continue
                await asyncio.sleep(0.01)
        kept, gone = sorted(runners, key=lambda runner: runner.state == "halted")
        assert "another" in (gone.reason or "")
        await history_in(world, 3)
        assert await kept.wait((await world.log.info()).last_seq, timeout_s=30)
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    await kept.view.flush()
    live = await contents(kept.view)
    assert live == await contents(await fed(stores.store(name).view(2), await world.events()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("missing", [False, True], ids=["altered", "missing"])
async def test_verify_finds_one_row_altered_or_missing(
    stores: Stores, told: World, name: str, missing: bool
) -> None:
    async with hosting(told, [stores.store(name)]) as host:
        good = await host.verify(name)
        assert good.is_equal
        await stores.tamper(name, version=1, missing=missing)
        bad = await host.verify(name)
        assert not bad.is_equal
        assert bad.fresh_hash == good.fresh_hash
        assert await stores.store(name).versions() == [1]
        healed = await host.rebuild(name)
        assert not healed.is_equal
        assert (await host.verify(name)).is_equal
        assert await stores.store(name).live() == 2


@pytest.mark.parametrize("name", NAMES)
async def test_a_view_of_another_shape_is_built_anew_at_start(
    stores: Stores, told: World, events: Events, name: str
) -> None:
    async with hosting(told, [stores.store(name)]):
        pass
    assert await stores.store(name).live() == 1
    store = stores.store(name)
    if name == "lexical":
        for path in (stores.root / "v1").glob("*.sqlite3"):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("PRAGMA user_version = 99")
    else:
        tables = stores.tables()[name]
        store = PostgresStore(stores.database, replace(tables, ddl=tables.ddl + 1))
    async with hosting(told, [store]) as host:
        assert (await store.live(), await store.is_current(2)) == (2, True)
        assert host.runners[name].view.version == 2
        assert (await contents(host.runners[name].view))[0].seq == events[-1].seq


async def test_reads_never_fail_and_never_see_half_while_views_are_built_anew_and_switched(
    stores: Stores, told: World
) -> None:
    state = await told.corpus()
    profile = state.active or ""
    reading = Reading(stores, profile)
    async with hosting(told, stores.all()) as host:
        expected = await reading.once()
        tasks = [asyncio.create_task(reading.on(expected)) for _ in range(2)]
        for name in NAMES * 2:
            assert (await host.rebuild(name)).is_equal, name
        reading.stopped = True
        n_reads = sum(await asyncio.gather(*tasks))
        assert n_reads > 10
        for name in NAMES:
            assert await stores.store(name).versions() == [2, 3]  # the newest, and one to go back to
        assert await reading.once() == expected
        assert {version for version, _ in reading.lexical._searchers} == {3}  # old postings are let go
    reading.lexical.close()


class Reading:
    """Reads of every view."""

    def __init__(self, stores: Stores, profile: str) -> None:
        self.stopped = False
        self._profile = profile
        self._passages = PassagesReader(stores.database, corpus_root=stores.docs)
        self.lexical = LexicalReader(stores.root)
        self._documents = DocumentsReader(stores.database)
        self._conversations = ConversationsReader(stores.database)
        self._settings = SettingsReader(stores.database)
        self._operations = OperationsReader(stores.database)
        self._embedder = CountingEmbedder()

    async def once(self) -> list[object]:
        vector = await self._embedder.embed_query("herring boats")
        hits, _ = await self._passages.nearest(self._profile, vector, top_k=5)
        records = await self._passages.records(self._profile, [hit.original_index for hit in hits])
        words = await self.lexical.search(self._profile, "herring boats", top_k=5)
        listed = await self._conversations.list_recent()
        latest = await self._operations.latest()
        return [
            hits,
            records,
            words.hits,
            await self._documents.live(self._profile),
            await self._documents.known_files(),
            listed,
            [await self._conversations.messages(each.conversation_id) for each in listed],
            await self._settings.overrides(),
            latest,
        ]

    async def on(self, expected: list[object]) -> int:
        """Read until stopped; how often."""
        n = 0
        while not self.stopped:
            assert await self.once() == expected
            n += 1
        return n


async def test_whoever_waits_for_a_sequence_is_not_left_behind_by_a_rebuild(
    stores: Stores, told: World
) -> None:
    async with hosting(told, [stores.store("settings")]) as host:
        old = host.runners["settings"]
        rebuilding = asyncio.create_task(host.rebuild("settings"))
        last_seq = (await told.log.info()).last_seq
        waiting = asyncio.create_task(host.wait(last_seq + 1, views=["settings"], timeout_s=20))
        await rebuilding
        assert host.runners["settings"] is not old
        await told.change(TOP_K="9")
        assert await waiting


@pytest.mark.parametrize("seed", [1, 7])
async def test_reads_as_of_a_sequence_equal_those_of_a_view_that_stopped_there(
    database: ViewDatabase, tmp_path: Path, tell: Tell, seed: int
) -> None:
    world = tell(seed)
    stores, events, random = Stores(world, database, tmp_path), await world.events(), Random(seed)
    dense = PassagesReader(database, corpus_root=world.docs)
    words = LexicalReader(stores.root)
    growing = {name: stores.store(name).view(1) for name in ("passages", "lexical")}
    whole = {name: await fed(stores.store(name).view(2), events) for name in growing}
    assert whole
    profiles = list((await world.corpus()).profiles)
    questions = [" ".join(random.choices(WORDS, k=2)) for _ in range(2)]
    first = next(stored.seq for stored in events if isinstance(stored.event.payload, file.FileEmbedded))
    stops = sorted(random.sample(range(first, len(events)), 8))
    for before, stop in zip([0, *stops], stops, strict=False):
        for view in growing.values():
            await fed(view, events[before:stop])
        for profile in profiles:
            for question in questions:
                then: list[object] = []
                for version, seq in ((1, None), (2, stop)):
                    await stores.store("passages").switch(version)
                    await stores.store("lexical").switch(version)
                    then.append(await _asked(world, dense, words, profile, question, seq))
                assert then[0] == then[1], (stop, profile, question)
    words.close()


async def _asked(
    world: World, dense: PassagesReader, words: LexicalReader, profile: str, question: str, seq: int | None
) -> object:
    """Everything retrieval reads for a question; None while the profile does not exist."""
    vector = await world.embedder.embed_query(question)
    try:
        hits, _ = await dense.nearest(profile, vector, top_k=7, as_of_seq=seq)
        found = await words.search(profile, question, top_k=7, as_of_seq=seq)
    except NotReady:
        return [], [], {}
    numbers = [hit.original_index for hit in [*hits, *found.hits]]
    records = await dense.records(profile, numbers, as_of_seq=seq)
    rounded = sorted((round(hit.score, 6), hit.chunk_id) for hit in hits)
    return rounded, found.hits, records


async def test_the_past_beyond_the_checkpoint_is_not_answered(stores: Stores, events: Events) -> None:
    for name in ("passages", "lexical"):
        await fed(stores.store(name).view(1), events)
    profile = next(iter((await stores.world.corpus()).profiles))
    beyond = events[-1].seq + 1
    with pytest.raises(NotReady):
        await PassagesReader(stores.database, corpus_root=stores.docs).nearest(
            profile, np.ones(16, np.float32), top_k=1, as_of_seq=beyond
        )
    lexical = LexicalReader(stores.root)
    with pytest.raises(NotReady):
        await lexical.search(profile, "boats", top_k=1, as_of_seq=beyond)
    lexical.close()


@pytest.mark.parametrize("name", ["passages", "lexical"])
async def test_a_profile_the_view_does_not_know_yet_is_not_ready(
    stores: Stores, events: Events, name: str
) -> None:
    await fed(stores.store(name).view(1), events)
    unknown = "ef" * 16
    reader = PassagesReader(stores.database, corpus_root=stores.docs)
    asking = (
        LexicalReader(stores.root).search(unknown, "boats", top_k=1)
        if name == "lexical"
        else reader.nearest(unknown, np.ones(16, np.float32), top_k=1)
    )
    with pytest.raises(NotReady, match="try again"):
        await asking


@pytest.mark.parametrize(("dim", "indexed"), [(2000, True), (2500, True), (4500, False)])
@pytest.mark.parametrize("bulk", [False, True])
async def test_vectors_of_any_length_are_searched(
    database: ViewDatabase, tmp_path: Path, dim: int, indexed: bool, bulk: bool
) -> None:
    world = World(tmp_path, embedder=CountingEmbedder(dim=dim))
    profile = await world.define()
    world.put(**{word: f"{word} " * 3 + "in the port" for word in WORDS})
    await world.ingest()
    stores = Stores(world, database, tmp_path)
    view = await fed(stores.store("passages").view(1, bulk=bulk), await world.events())
    await view.finish_load()
    found = await database.fetch(
        "SELECT indexdef FROM pg_indexes WHERE schemaname='passages_v1' AND indexdef LIKE %s", ("%hnsw%",)
    )
    assert len(found) == indexed
    if dim == 2500:
        assert "halfvec(2500)" in found[0]["indexdef"]
    reader = PassagesReader(database, corpus_root=world.docs)
    for word in WORDS[:5]:
        hits, seq = await reader.nearest(profile, await world.embedder.embed_query(word), top_k=3)
        records = await reader.records(profile, [hits[0].original_index])
        assert records[hits[0].original_index].relative_path == f"{word}.txt"
        assert seq == (await world.log.info()).last_seq
        past, _ = await reader.nearest(
            profile, await world.embedder.embed_query(word), top_k=3, as_of_seq=seq
        )
        assert past[0].chunk_id == hits[0].chunk_id


async def test_characters_that_a_store_cannot_hold_halt_no_view(
    database: ViewDatabase, tmp_path: Path
) -> None:
    world = World(tmp_path)
    stores = Stores(world, database, tmp_path)
    await world.define()
    conversation = await converse(world, "Where\0are the\0boats?", answer="Here\0: 🚢 \u0001\ufffe.")
    world.put(zero=b"one\x00two \xf0\x9f\x9a\xa2 three", plain="boats")
    await world.ingest()
    async with hosting(world, stores.all()) as host:
        assert {runner.state for runner in host.runners.values()} == {"running"}
        reader = ConversationsReader(database)
        (question, answer) = await reader.messages(str(conversation))
        assert question.content == "Where\ufffdare the\ufffdboats?"
        assert answer.content == "Here\ufffd: 🚢 \u0001\ufffe."
        for name in NAMES:
            assert (await host.verify(name)).is_equal
