"""Forms that can't change after a release (ADR 0006): every value here is in somebody's data directory.

A failing test means that data written before would no longer be found, opened or trusted. For a changed
event raise its version, add an upcast, and add the new form under the next version; change nothing here.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from loreline.embedded.directory import FORMAT, PROGRAM, DataDirectory
from loreline.events.audit import EMPTY, roll
from loreline.events.blobs import FileBlobs, MemoryBlobs, SealedBlobs
from loreline.events.catalogue import CATALOGUE
from loreline.events.envelope import HEADERS, Codec, StoredWire, Wire, digest_of
from loreline.events.highwater import HighWater
from loreline.events.refs import MemoryRefs, Recordings
from loreline.events.topology import (
    ACCOUNT,
    ADMIN,
    APP,
    LIVE_STREAM,
    STREAM,
    SUBSCRIBER,
    SUBSCRIBER_ACCOUNT,
    SUBSCRIBER_API,
    SUBSCRIBER_CONSUMERS,
    StageConsumer,
    lore_stream,
)
from loreline.processors.ingest.profiles import profile_id
from loreline.projectors.rowhash import row_hash
from loreline.projectors.view import Row
from loreline.schemas import ids
from tests.fixtures.golden import FILE, ID, OWNER, TIME, FixedKeys, golden_events

EVENTS: Mapping[str, Mapping[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "golden" / "events.json").read_text(encoding="utf-8")
)
"""`type/version` -> the event as it was written."""
KEYS = FixedKeys()
APP_KEY = KEYS.current(ids.APP_OWNER).secret


def newest(name: str) -> str:
    return f"{name}/{CATALOGUE[name].version}"


def wire_of(form: Mapping[str, Any]) -> Wire:
    return Wire(form["subject"], form["headers"], form["body"].encode())


def test_every_type_has_its_golden_form() -> None:
    assert {newest(name) for name in CATALOGUE} <= EVENTS.keys()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_an_event_is_written_as_before(name: str) -> None:
    wire = Codec(KEYS).encode(golden_events()[name])
    form = EVENTS[newest(name)]
    assert (wire.subject, dict(wire.headers)) == (form["subject"], form["headers"])
    assert wire.body.decode() == form["body"]
    assert digest_of(wire) == form["digest"]


@pytest.mark.parametrize("form", sorted(EVENTS))
def test_an_event_ever_written_is_read(form: str) -> None:
    name, version = form.split("/")
    opened = Codec(KEYS).decode(StoredWire(1, wire_of(EVENTS[form]))).event
    assert isinstance(opened.payload, CATALOGUE[name].payload)
    if form == newest(name):
        assert opened == golden_events()[name]
    assert int(version) <= CATALOGUE[name].version


def test_headers_and_their_digest() -> None:
    assert (
        *("ce-specversion", "ce-id", "ce-type", "ce-source", "ce-subject", "ce-time", "ce-dataschema"),
        *("ce-correlationid", "ce-causationid", "ce-actor", "ce-schemaversion", "ce-prev"),
    ) == HEADERS
    wire = Wire("lore.a.b.c.d", {"ce-id": "é", "ce-type": "t", "Nats-Msg-Id": "not part of it"}, b"{}")
    assert digest_of(wire) == "b36f6717159ed93d24aba839373ca9f9e66470f583222d44b5cb7b2e37bdcb34"


def test_names_of_accounts_streams_and_consumers() -> None:
    assert (ACCOUNT, STREAM, LIVE_STREAM) == ("LORE", "LORE", "LIVE")
    assert (ADMIN, APP, SUBSCRIBER) == ("admin", "app", "subscriber")
    assert (SUBSCRIBER_ACCOUNT, SUBSCRIBER_API) == ("SUBSCRIBERS", "lorejs")
    assert (SUBSCRIBER_CONSUMERS[0], SUBSCRIBER_CONSUMERS[-1]) == ("sub-00", "sub-15")
    assert StageConsumer("parse", (), 1, 60).durable == "stage-parse"
    stream = lore_stream(max_bytes=1)
    assert (stream["subjects"], stream["max_msg_size"]) == (["lore.>"], 262_144)
    assert stream["deny_delete"]
    assert stream["deny_purge"]


def test_the_grammar_of_subjects() -> None:
    assert FILE.subject("parsed") == "lore.rag.file.0123456789abcdef0123456789abcdef.parsed"
    assert ids.Aggregate.of_subject(FILE.subject("parsed")) == FILE
    assert FILE.wildcard == "lore.rag.file.0123456789abcdef0123456789abcdef.*"
    assert ids.RAG_CORPUS.subject("planned") == "lore.rag.corpus.main.planned"
    assert ids.SETTINGS.subject("changed") == "lore.app.settings.current.changed"
    assert ids.LOG.subject("sealed") == "lore.app.log.current.sealed"
    assert ids.deadletter_aggregate("parse", 7).id == "f78862306a4a5ef1b3182a540a13bca1"
    assert ids.owner_of(FILE) == OWNER
    assert ids.owner_of(ids.RAG_CORPUS) == "app"


def test_ids_that_are_derived() -> None:
    assert str(ids.NAMESPACE) == "8d760e57-d74d-5943-975f-2fd6d55e1a5c"
    assert str(ids.command_event_id(ID, 3)) == "60e0aa62-ea71-56d9-93ee-d78cdb214ebe"
    assert str(ids.derived_key(ID, "parse", "detail")) == "76473c26-58f5-5a7f-8df7-da6c58aeb25a"
    assert ids.original_index_of(12345, 678) == 12345 * 2**20 + 678
    assert ids.doc_id_of("a/b.md", "00" * 32) == "3a6df13e18ac9fe7"


def test_keyed_digests() -> None:
    assert ids.file_id_of(APP_KEY, "./Ha\u0308fen\\Varn.md") == "1418995c43ff83062a839ea3c05cf363"
    assert ids.file_id_of(APP_KEY, "H\u00e4fen/Varn.md") == "1418995c43ff83062a839ea3c05cf363"
    assert ids.version_of(KEYS.current(OWNER).secret, "d0" * 8) == "fbcefebdeef06751db05f64e584b8f99"
    assert profile_id(KEYS, {"CHUNK_SIZE": "1000", "A": "b"}) == "be7c3855c281c86a3d12b789e1cb2fd0"
    recordings = Recordings(MemoryRefs(), SealedBlobs(MemoryBlobs(), KEYS), KEYS)
    assert (
        recordings.key(OWNER, "chunk", {"size": "9", "parsed": "01"})
        == "7d50d328d8dc762c26875c2822655535fb11558d61d6ffeff56fb3824ee3bdf4"
    )


def test_canonical_json() -> None:
    value = {"b": [1, 2.5, None, True], "a": {"ü": '\u2028\\"x'}, "": "\x00"}
    assert ids.canonical_json(value).decode() == (
        '{"":"\\u0000","a":{"ü":"\u2028\\\\\\"x"},"b":[1,2.5,null,true]}'
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        ids.canonical_json(float("nan"))


async def test_a_sealed_blob_and_its_address(tmp_path: Path) -> None:
    address = await SealedBlobs(FileBlobs(tmp_path), KEYS).put(OWNER, b"forty-one metres")
    assert address == "fd80cb2e3e7a730c79cebcd266d845191543c49de40a8a982496850055aabd65"
    held = (tmp_path / address[:2] / address[2:]).read_bytes()
    assert held.hex() == (
        "4c4c423100000000000000250d8cf722c50594232a314bcf2a717b604255d9cc30005561b89993ead9cf580d"
    )
    assert held[:4] == b"LLB1"
    assert held[4:12].hex() == KEYS.current(OWNER).kid


def test_the_rolling_digest_of_a_seal() -> None:
    assert EMPTY == "05512ac3e9785a8b75574820da735ea57a3a6cc7256a0d90df308ca659b2b924"
    assert roll(EMPTY, "0a" * 32) == "81606a1014ffd8eaa5637b434e0d7d25e7736de5f6fd6013b08ba523b2885f52"


async def test_the_row_hash() -> None:
    async def rows() -> AsyncIterator[Row]:
        vector = np.array([0.5, -0.25, 3.0], dtype=np.float32)
        yield Row("chunks", ("a", 1), ("Fähre ⚓", 2.5, None, True, vector, UUID(int=5), TIME, b"\x00\xff"))
        yield Row("chunks", ("a", 2), (("x", 1), []))

    assert await row_hash(rows()) == ("76fc893d3cce14afbfcdbddc85b0e09de7c5d6ca31f5017a55f695a1bc77c460", 2)


def test_the_format_file_and_the_high_water_mark(tmp_path: Path) -> None:
    assert (FORMAT, PROGRAM) == (1, "loreline")
    with DataDirectory.open(tmp_path / "data") as directory:
        assert (directory.path / "format").read_text() == '{"format": 1, "program": "loreline"}\n'
        folders = {path.name for path in directory.path.iterdir() if path.is_dir()}
        assert folders == {"nats", "postgres", "blobs", "keys", "lexical", "logs"}
    mark = HighWater(tmp_path / "highwater")
    mark.record(7, str(ID))
    mark.close()
    assert json.loads((tmp_path / "highwater").read_bytes()) == {"seq": 7, "id": str(ID)}
