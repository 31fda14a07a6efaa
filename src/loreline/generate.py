"""Pages and schemas that are derived from the code: `python -m loreline.generate` writes, `--check` compares.

Derived are one JSON Schema an event version (`schemas/json`), `EVENTS.md` from the catalogue and
`SETTINGS.md` from the knobs. Rendering is pure; only `main` touches the disk.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from loreline.events.catalogue import CATALOGUE, EventType
from loreline.events.envelope import SOURCE
from loreline.schemas.ids import APP_OWNER
from loreline.schemas.settings import KNOBS, Knob

_MADE_BY = "<!-- Written by `make gen` from {source}; change that instead. -->\n"

_EVENTS_HEAD = """
# Events

Every fact Loreline knows is one of these events on the stream `LORE`. A subject has five tokens:
`lore.<space>.<aggregate>.<id>.<event>`. Public fields hold ids, digests, counts, codes and times and can
be read by every subscriber; the *sealed* part holds words and is encrypted under the key of its owner.
An event is never edited. A new shape of a payload gets the next version; older versions are upcast when
they are read, and their schema stays in `schemas/json`.
"""

_SETTINGS_HEAD = """
# Settings

A value comes from the last `settings.changed` event (no route appends one in this release), else from the
environment variable of that name, else from the default here. Settings marked *re-ingest* shape chunks:
after a change the documents taken in before it are stale until they are ingested again.
"""

_WORDS = {
    "uuid": "uuid",
    "date-time": "time",
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "string": "text",
    "null": "nothing",
    "array": "list",
    "object": "record",
}


def pages() -> dict[str, str]:
    """Every generated file: path below the repository's root -> text."""
    rows = tuple(CATALOGUE.values())
    made = {f"schemas/json/{row.name}.{row.version}.json": event_schema(row) for row in rows}
    return {**made, "EVENTS.md": events_page(rows), "SETTINGS.md": settings_page(KNOBS.values())}


def event_schema(row: EventType) -> str:
    """The JSON Schema (2020-12) of an event's newest version, sealed part opened; ends with a newline."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{SOURCE}:schema:{row.name}:{row.version}",
        **row.payload.model_json_schema(mode="serialization"),
    }
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def events_page(rows: Sequence[EventType]) -> str:
    """EVENTS.md: the rows grouped by aggregate, in the catalogue's order."""
    sections = [_MADE_BY.format(source="events/catalogue.py") + _EVENTS_HEAD]
    for kind, members in groupby(rows, key=lambda row: row.kind):
        sections.append(f"## {kind}\n")
        sections.extend(_event_section(row) for row in members)
    return "\n".join(sections)


def _event_section(row: EventType) -> str:
    schema = row.payload.model_json_schema(mode="serialization")
    fields = {name: shape for name, shape in schema.get("properties", {}).items() if name != "private"}
    sealed = schema.get("properties", {}).get("private")
    subjects = ", ".join(f"`lore.{space}.{row.kind}.<id>.{row.event}`" for space in row.spaces)
    lines = [
        f"### {row.name}\n",
        f"{inspect.getdoc(row.payload)}\n",
        f"- Subject: {subjects}, version {row.version}",
    ]
    if fields:
        lines.append(f"- Public: {_fields(fields, schema)}")
    if sealed:
        lines.append(f"- Sealed: {_fields(_resolve(sealed, schema).get('properties', {}), schema)}")
    return "\n".join(lines) + "\n"


def _fields(properties: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    return "; ".join(f"`{name}` {_words_for(shape, schema)}" for name, shape in properties.items())


def _words_for(shape: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What a property holds, in the words of the glossary."""
    shape = _resolve(shape, schema)
    if "anyOf" in shape:
        return " or ".join(_words_for(part, schema) for part in shape["anyOf"])
    if "enum" in shape:
        return "one of " + ", ".join(str(choice) for choice in shape["enum"])
    if shape.get("type") == "array":
        return f"list of {_words_for(shape.get('items', {}), schema)}"
    if isinstance(values := shape.get("additionalProperties"), dict):
        keys = _words_for(shape.get("propertyNames", {"type": "string"}), schema)
        return f"map of {keys} to {_words_for(values, schema)}"
    if shape.get("type") == "object" and "properties" in shape:
        return "(" + ", ".join(shape["properties"]) + ")"
    if "pattern" in shape:
        return _pattern_words(shape["pattern"])
    return _WORDS.get(shape.get("format", ""), _WORDS.get(shape.get("type", ""), "anything"))


def _pattern_words(pattern: str) -> str:
    if pattern.startswith("^[0-9a-f]"):
        return "hex"
    return "owner" if pattern.startswith(f"^({APP_OWNER}|") else "word"


def _resolve(shape: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = shape.get("$ref")
    if reference is None:
        return shape
    found: Mapping[str, Any] = schema["$defs"][reference.rsplit("/", 1)[-1]]
    return found


def settings_page(knobs: Iterable[Knob]) -> str:
    """SETTINGS.md: the knobs grouped as the settings page groups them, in table order."""
    sections = [_MADE_BY.format(source="schemas/settings.py") + _SETTINGS_HEAD]
    for group, members in groupby(knobs, key=lambda knob: knob.group):
        sections.append(f"## {group}\n\n| setting | values | default | meaning |\n|---|---|---|---|")
        sections.append("\n".join(_knob_row(knob) for knob in members) + "\n")
    return "\n".join(sections)


def _knob_row(knob: Knob) -> str:
    if knob.kind == "choice":
        values = ", ".join(knob.choices)
    elif knob.kind in {"int", "float"}:
        values = f"{knob.low:g} to {knob.high:g}"
    else:
        values = {"bool": "true, false", "list": "comma-separated"}[knob.kind]
    meaning = knob.meaning + (" *re-ingest*" if knob.reingest else "")
    return f"| `{knob.name}` | {values} | `{knob.default}` | {meaning} |"


def drifted(made: Mapping[str, str], root: Path) -> list[str]:
    """Paths whose file under `root` is missing or differs, in the order of `made`."""
    return [
        path
        for path, text in made.items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what differs, or with `--check` only name it. Returns 1 when a check finds differences."""
    parser = argparse.ArgumentParser(prog="python -m loreline.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's root (default: here)")
    options = parser.parse_args(arguments)
    made = pages()
    changed = drifted(made, options.root)
    for path in changed:
        if options.check:
            sys.stderr.write(f"{path} is out of date; run `make gen` and commit it\n")
            continue
        (options.root / path).parent.mkdir(parents=True, exist_ok=True)
        (options.root / path).write_text(made[path], encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
