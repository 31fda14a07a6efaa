"""Promises about the repository itself. Each test names what it keeps; none needs a server."""

from __future__ import annotations

import ast
import gc
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Literal
from zipfile import ZipFile

import grimp
import pytest
from pydantic import create_model

from loreline.events.catalogue import BY_PAYLOAD, CATALOGUE, EventType
from loreline.generate import drifted, pages
from loreline.schemas.events.payload import Payload, Private
from loreline.schemas.ids import Aggregate, Code, Hex, OwnerName
from loreline.schemas.settings import KNOBS

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("events", "projectors", "processors", "dagster_defs", "http_edge", "schemas", "src/loreline")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ROWS = tuple(CATALOGUE.values())
PARTS_OF = {"docling-core": "docling-slim", "psycopg-pool": "psycopg"}
EXCUSED_NAMES = {"NatsService", "Service"}  # NATS's own word for a subject that one account lends to another
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60

Function = ast.FunctionDef | ast.AsyncFunctionDef


def product_modules() -> list[Path]:
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return sorted({path.resolve() for path in found if "__pycache__" not in path.parts})


def syntax_of(path: Path) -> ast.Module:
    # A collection in the middle of parsing runs other tests' finalizers, which Python 3.11 mistakes for
    # recursion of the parser ("AST constructor recursion depth mismatch").
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        gc.enable()


def where(path: Path, node: ast.AST | None = None) -> str:
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in product_modules():
        for node in ast.walk(syntax_of(path)):
            yield path, node


def in_wiring(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith("src/loreline/wiring")


def in_cli(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith("src/loreline/cli")


# --- the log -----------------------------------------------------------------------------------


def free_text(shape: dict[str, Any], defs: dict[str, Any], at: str = "") -> list[str]:
    """Places in a JSON schema that accept a sentence."""
    if "$ref" in shape:
        return free_text(defs[shape["$ref"].rsplit("/", 1)[-1]], defs, at)
    if "anyOf" in shape:
        return [found for part in shape["anyOf"] for found in free_text(part, defs, at)]
    if "enum" in shape or "const" in shape or shape.get("type") in {"integer", "number", "boolean", "null"}:
        return []
    if shape.get("type") == "array":
        parts = shape.get("prefixItems", []) + ([shape["items"]] if "items" in shape else [])
        return [found for part in parts for found in free_text(part, defs, f"{at}[]")] if parts else [at]
    if shape.get("type") == "object" and "properties" in shape:
        inner = shape["properties"].items()
        return [found for name, part in inner for found in free_text(part, defs, f"{at}.{name}")]
    if shape.get("type") == "object" and "propertyNames" in shape:
        parts = [shape["propertyNames"], shape.get("additionalProperties", {})]
        return [found for part in parts for found in free_text(part, defs, at)]
    if shape.get("type") == "string" and shape.get("format") in {"uuid", "date-time", "date"}:
        return []
    takes_sentences = re.search(shape.get("pattern", ""), "Ada wrote to Bob, twice.") is not None
    return [at] if shape.get("type") != "string" or takes_sentences else []


def public_free_text(payload: type[Payload]) -> list[str]:
    schema = payload.model_json_schema()
    public = {name: shape for name, shape in schema.get("properties", {}).items() if name != "private"}
    return free_text({"type": "object", "properties": public}, schema.get("$defs", {}))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_event_has_free_text_outside_its_sealed_part(row: EventType) -> None:
    assert public_free_text(row.payload) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_sealed_part_is_one(row: EventType) -> None:
    private = row.payload.model_fields.get("private")
    assert private is None or (
        isinstance(private.annotation, type) and issubclass(private.annotation, Private)
    )


@pytest.mark.parametrize(
    "hint", [str, str | None, tuple[str, ...], dict[str, int], dict[Literal["a"], str], Any, bytes, list[Any]]
)
def test_the_check_for_free_text_sees_it(hint: Any) -> None:
    leaking = create_model("Leaking", __base__=Payload, field=(hint, ...))
    assert [place.rstrip("[]") for place in public_free_text(leaking)] == [".field"]


@pytest.mark.parametrize(
    "hint", [Hex, Code, OwnerName, tuple[Hex, ...], Code | None, dict[Literal["a"], int], int]
)
def test_the_check_for_free_text_lets_ids_and_counts_pass(hint: Any) -> None:
    tight = create_model("Tight", __base__=Payload, field=(hint, ...))
    assert public_free_text(tight) == []


def test_every_event_type_has_its_own_name_and_payload() -> None:
    assert len(CATALOGUE) == len(BY_PAYLOAD) == len({row.name for row in ROWS})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_subject_has_five_tokens(row: EventType) -> None:
    for space in row.spaces:
        subject = Aggregate(space, row.kind, "0" * 32).subject(row.event)
        assert re.fullmatch(r"lore\.(rag|graph|app)\.[a-z]+\.[0-9a-f]+\.[a-z_]+", subject)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_event_says_what_happened(row: EventType) -> None:
    assert len((row.payload.__doc__ or "").strip()) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_version_of_an_event_has_a_schema(row: EventType) -> None:
    for version in range(1, row.version + 1):
        assert (ROOT / "schemas/json" / f"{row.name}.{version}.json").is_file()


def test_generated_files_are_up_to_date() -> None:
    assert drifted(pages(), ROOT) == [], "run `make gen` and commit"


def test_every_setting_is_documented() -> None:
    page = (ROOT / "SETTINGS.md").read_text(encoding="utf-8")
    assert [name for name in KNOBS if f"`{name}`" not in page] == []


# --- the code ----------------------------------------------------------------------------------


def test_every_module_says_what_it_is() -> None:
    assert [where(path) for path in product_modules() if not ast.get_docstring(syntax_of(path))] == []


def test_modules_are_short() -> None:
    lengths = {where(path): len(path.read_text("utf-8").splitlines()) for path in product_modules()}
    assert {path: n for path, n in lengths.items() if n >= MAX_MODULE_LINES} == {}


def test_functions_are_short() -> None:
    found = [(path, node) for path, node in nodes() if isinstance(node, Function)]
    lengths = {
        f"{where(path, node)} {node.name}": (node.end_lineno or 0) - node.lineno for path, node in found
    }
    assert {name: n for name, n in lengths.items() if n >= MAX_FUNCTION_LINES} == {}


def test_nothing_is_named_for_being_nothing_in_particular() -> None:
    shrugs = re.compile(r"(?i)^(utils?|helpers?|managers?|services?|common|misc)$")
    files = [where(path) for path in product_modules() if shrugs.match(path.stem)]
    shrugging = re.compile(r"(Manager|Helper|Utils?|Service)$|^(Base|Abstract)[A-Z]")
    classes = [
        f"{where(path, node)} {node.name}"
        for path, node in nodes()
        if isinstance(node, ast.ClassDef) and shrugging.search(node.name) and node.name not in EXCUSED_NAMES
    ]
    assert files + classes == []


def test_only_wiring_reads_the_environment() -> None:
    """A process of ours may set a variable for itself (`os.environ[x] = y`): that reads nothing."""
    readers = []
    for path in product_modules():
        tree = syntax_of(path)
        written = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        }
        for node in ast.walk(tree):
            names = {alias.name for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
            attribute = node.attr if isinstance(node, ast.Attribute) and id(node) not in written else ""
            if {attribute, *names} & {"environ", "environb", "getenv"} and not in_wiring(path):
                readers.append(where(path, node))
    assert readers == []


def test_only_the_command_line_prints() -> None:
    printing = [
        where(path, node)
        for path, node in nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert [place for place in printing if not in_cli(ROOT / place.rsplit(":", 1)[0])] == []


def test_only_wiring_picks_stores_and_brokers() -> None:
    adapter = re.compile(r"^(Memory|Sqlite|File|JetStream|Nats|Postgres)(Keys|Refs|Blobs|Log|Live)$")
    picked = [
        f"{where(path, node)} {alias.name}"
        for path, node in nodes()
        if isinstance(node, ast.ImportFrom) and not in_wiring(path)
        for alias in node.names
        if adapter.match(alias.name)
    ]
    assert picked == []


def test_no_global_is_rebound() -> None:
    assert [where(path, node) for path, node in nodes() if isinstance(node, ast.Global)] == []


def test_errors_share_one_root() -> None:
    """But for those that never leave their module, which is what the underscore says."""
    roots = {"Exception", "BaseException", "RuntimeError", "ValueError", "OSError"}
    strays = [
        f"{where(path, node)} {node.name}"
        for path, node in nodes()
        if isinstance(node, ast.ClassDef)
        and roots & {base.id for base in node.bases if isinstance(base, ast.Name)}
        and path != ROOT / "schemas/errors.py"
        and not node.name.startswith("_")
    ]
    assert strays == []


def test_import_contracts_hold() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    result = subprocess.run(
        [*command, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_import_contract_speaks_of_modules_that_exist() -> None:
    graph = grimp.build_graph("loreline", cache_dir=None)
    named = [
        name
        for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
        for part in ("modules", "source_modules", "protected_modules", "allowed_importers")
        for name in contract.get(part, [])
        if name.startswith(("loreline", "*"))
    ]
    missing = [name for name in named if not (graph.find_matching_modules(name) or name in graph.modules)]
    assert missing == []


def test_every_package_that_is_imported_is_declared() -> None:
    declared = {package_name(line) for lines in requirements().values() for line in lines}
    owners = packages_distributions()
    undeclared = Counter(
        f"{where(path)} imports {name}"
        for path, node in nodes()
        for name in imported(node)
        if name not in sys.stdlib_module_names | {"loreline"}
        and not declared & {package_name(owner) for owner in owners.get(name, [name])}
    )
    assert sorted(undeclared) == []


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.split(".")[0]]
    return []


# --- packaging and pages -------------------------------------------------------------------------


def requirements() -> dict[str, list[str]]:
    project = PYPROJECT["project"]
    return {"base": project["dependencies"], **project["optional-dependencies"]}


def package_name(requirement: str) -> str:
    """The normalised name; parts that only come with another package go by that package's name."""
    name = re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]
    name = re.sub(r"[-_.]+", "-", name).lower()
    return PARTS_OF.get(name, name)


def pins(extra: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in (ROOT / f"requirements/{extra}.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([a-z0-9-]+)(?:\[[^]]*\])?==([^ ;\\]+)", line):
            found.setdefault(match[1], set()).add(match[2])
    return found


def test_the_packages_the_house_is_built_on_are_declared() -> None:
    fixed = """faststream nats-py pydantic psycopg pgvector elasticsearch httpx tenacity docling-slim easyocr
        tiktoken lightrag-hku dagster starlette prometheus-client pytest testcontainers"""
    declared = {package_name(line) for lines in requirements().values() for line in lines}
    assert set(fixed.split()) - declared == set()


@pytest.mark.parametrize("extra", sorted(set(requirements()) - {"build"}))
def test_every_extra_has_a_hashed_lock_that_agrees_with_base(extra: str) -> None:
    text = (ROOT / f"requirements/{extra}.txt").read_text(encoding="utf-8")
    packages = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert [package.splitlines()[0] for package in packages if "--hash=sha256:" not in package] == []
    locked, base = pins(extra), pins("base")
    assert {name: versions for name, versions in base.items() if locked.get(name) != versions} == {}
    declared = {package_name(line) for line in requirements()[extra]} - {"loreline"}
    assert declared - set(locked) == set()


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git working copy")
    paths = (ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name)
    return [path for path in paths if path.is_file()]


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    hosts = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))]
    hosts += [".".join(parts) for parts in (("npmjs", "com"), ("crates", "io"), ("huggingface", "co"))]
    paths = [
        "/".join(parts) for parts in (("", "work", ""), ("", "tmp", "bash_jobs"), ("", "root", ".pyenv"))
    ]
    forbidden = re.compile(b"|".join(rf"(?<![\w.]){re.escape(word)}".encode() for word in hosts + paths))
    found = {where(path): forbidden.findall(path.read_bytes())[:3] for path in tracked_files()}
    assert {path: words for path, words in found.items() if words} == {}


def test_the_root_holds_what_the_design_says() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in tracked_files() if path.parent != ROOT}
    roots = {folder for folder in FOLDERS if "/" not in folder}
    allowed = roots | {
        "src",
        "tests",
        "docs",
        "graph-docs",
        "benchmarks",
        "adr",
        "requirements",
        "images",
        ".ci",
    }
    assert folders - allowed == set()


def test_the_wheel_holds_every_module_once_and_no_corpus(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = Counter(name for name in ZipFile(wheel).namelist() if name.endswith(".py"))
    expected = {"loreline/" + where(path).removeprefix("src/loreline/") for path in product_modules()}
    assert set(packed) == expected
    assert set(packed.values()) == {1}


def test_links_between_pages_lead_somewhere() -> None:
    links = [
        (page, target)
        for page in [*ROOT.glob("*.md"), *ROOT.glob("adr/*.md")]
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not target.startswith("mailto:")
    ]
    assert [
        f"{where(page)} -> {target}" for page, target in links if not (page.parent / target).exists()
    ] == []


def test_decision_records_have_one_form() -> None:
    for record in sorted((ROOT / "adr").glob("*.md")):
        assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", record.name)
        text = record.read_text(encoding="utf-8")
        assert [part for part in ("Context", "Decision", "Consequences") if f"## {part}" not in text] == []
    numbers = Counter(record.name[:4] for record in (ROOT / "adr").glob("*.md"))
    assert [number for number, count in numbers.items() if count > 1] == []


def test_every_make_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    assert {"up", "test", "check", "gen", "bench", "campaign", "install", "help"} <= targets
    assert set(re.findall(r"^([a-z]+):.*## .+", makefile, flags=re.MULTILINE)) == targets


def test_the_strict_settings_stay() -> None:
    tool = PYPROJECT["tool"]
    assert tool["mypy"]["strict"] is True
    assert tool["pytest"]["ini_options"]["filterwarnings"] == ["error"]
    assert tool["pytest"]["ini_options"]["timeout"] <= 120
    assert {"E", "F", "D", "B", "S", "ASYNC"} <= set(tool["ruff"]["lint"]["select"])
    assert os.access(ROOT / ".ci/run", os.X_OK)
