"""What PostgreSQL can hold: its texts have no NUL and no lone surrogates, and people's have everything."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.types.json import set_json_dumps
from psycopg.types.string import StrBinaryDumper, StrDumper, StrDumperUnknown

from loreline.schemas.text import keepable


def storable(text: str) -> str:
    """`text` with U+FFFD for each NUL and each lone surrogate."""
    return keepable(text, nul="\ufffd")


def storable_json(value: Any) -> str:
    """`value` as JSON whose texts are all storable."""
    text = json.dumps(value)
    if "\\u0000" in text or "\\ud" in text:
        return json.dumps(_walk(value))
    return text


def _walk(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): _walk(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(each) for each in value]
    return value


class _Text(StrDumper):
    def dump(self, obj: str) -> Any:
        return super().dump(storable(obj))


class _TextOfAnyKind(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(storable(obj))


class _BinaryText(StrBinaryDumper):
    def dump(self, obj: str) -> Any:
        return super().dump(storable(obj))


def store_any_text(connection: psycopg.AsyncConnection[Any]) -> None:
    """Let a connection send any str. psycopg prefers what is registered last: its own order is kept."""
    for dumper in (_BinaryText, _Text, _TextOfAnyKind):
        connection.adapters.register_dumper(str, dumper)
    set_json_dumps(storable_json, connection)
