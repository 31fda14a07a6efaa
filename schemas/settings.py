"""Settings: frozen sections, and the table of knobs that change at run time by events.

A knob's value comes from the environment at start and from `settings.changed` events after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from loreline.schemas.errors import InputError

KnobType = Literal["int", "float", "bool", "choice", "list"]


@dataclass(frozen=True)
class Knob:
    """A setting that can change while the system runs.

    Attributes:
        name: as the environment spells it.
        default: the value as text.
        meaning: what it does, its unit, and why this default.
        reingest: whether chunks made before a change are stale after it.
        low, high: inclusive bounds of numbers.
    """

    name: str
    kind: KnobType
    default: str
    group: str
    meaning: str
    reingest: bool = False
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> int | float | bool | str | tuple[str, ...]:
        """The typed value. Raises InputError `invalid_settings` saying what would be accepted."""
        text = text.strip()
        try:
            return self._parse(text)
        except ValueError:
            raise InputError(
                "invalid_settings", f"{self.name}={text!r} will not do: {self._accepts()}"
            ) from None

    def _parse(self, text: str) -> int | float | bool | str | tuple[str, ...]:
        if self.kind == "bool":
            return _BOOLEANS[text.lower()] if text.lower() in _BOOLEANS else _refuse()
        if self.kind == "choice":
            return text if text in self.choices else _refuse()
        if self.kind == "list":
            return tuple(part.strip().lower() for part in text.split(",") if part.strip()) or _refuse()
        number = int(text) if self.kind == "int" else float(text)
        inside = (self.low is None or number >= self.low) and (self.high is None or number <= self.high)
        return number if inside else _refuse()

    def _accepts(self) -> str:
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind in {"int", "float"}:
            return f"a number from {self.low:g} to {self.high:g}"
        return "true or false" if self.kind == "bool" else "a comma-separated list"


_BOOLEANS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def _refuse() -> str:
    raise ValueError


_ROWS = (
    Knob(
        "RETRIEVAL_METHOD",
        "choice",
        "hybrid",
        "retrieval",
        "How passages are found; hybrid joins meaning and words.",
        choices=("semantic", "bm25", "hybrid"),
    ),
    Knob(
        "TOP_K",
        "int",
        "10",
        "retrieval",
        "Passages a question is answered from; 10 fits a small model's context.",
        low=1,
        high=100,
    ),
    Knob(
        "SEMANTIC_WEIGHT",
        "float",
        "0.5",
        "retrieval",
        "Weight of the semantic arm in fusion; with BM25_WEIGHT it sums to 1.",
        low=0,
        high=1,
    ),
    Knob(
        "BM25_WEIGHT",
        "float",
        "0.5",
        "retrieval",
        "Weight of the word arm in fusion; equal weights found most on our evaluation sets.",
        low=0,
        high=1,
    ),
    Knob(
        "CHUNKING_STRATEGY",
        "choice",
        "recursive_character",
        "ingest",
        "How text is cut into chunks.",
        reingest=True,
        choices=("recursive_character",),
    ),
    Knob(
        "CHUNK_SIZE",
        "int",
        "1200",
        "ingest",
        "Longest chunk, in characters; fits the embedder's 512 tokens in most scripts.",
        reingest=True,
        low=100,
        high=20000,
    ),
    Knob(
        "CHUNK_OVERLAP",
        "int",
        "150",
        "ingest",
        "Characters a chunk repeats of the one before it; below CHUNK_SIZE.",
        reingest=True,
        low=0,
        high=10000,
    ),
    Knob(
        "CONTEXTUALIZE",
        "bool",
        "true",
        "ingest",
        "Whether each chunk is indexed with a blurb that situates it.",
        reingest=True,
    ),
    Knob(
        "CHAT_ENGINE",
        "choice",
        "simple",
        "chat",
        "How a follow-up becomes a search query; simple searches for the question as asked.",
        choices=("simple",),
    ),
    Knob(
        "CHAT_DEADLINE_S",
        "int",
        "300",
        "chat",
        "Seconds a turn may take before it is given up.",
        low=5,
        high=3600,
    ),
    Knob(
        "CHAT_ABANDON_S",
        "int",
        "15",
        "chat",
        "Seconds without a reader after which a turn is stopped; 0 stops at once on disconnect.",
        low=0,
        high=3600,
    ),
    Knob(
        "ALLOWED_EXTENSIONS",
        "list",
        "txt,md,rst,html,htm,xhtml,docx,pdf",
        "upload",
        "File types that may be uploaded and are taken in from the corpus folder.",
    ),
    Knob(
        "UPLOAD_MAX_MB",
        "int",
        "100",
        "upload",
        "Largest uploaded file, in MB (10^6 bytes).",
        low=1,
        high=10000,
    ),
    Knob("UPLOAD_MAX_FILES", "int", "1000", "upload", "Most files in one upload.", low=1, high=100000),
    Knob(
        "UPLOAD_MAX_TOTAL_MB",
        "int",
        "1000",
        "upload",
        "Largest upload as a whole, in MB (10^6 bytes).",
        low=1,
        high=100000,
    ),
)

KNOBS: Mapping[str, Knob] = MappingProxyType({knob.name: knob for knob in _ROWS})
"""Every knob by name."""


@dataclass(frozen=True)
class RetrievalSettings:
    """How passages are found."""

    method: str
    top_k: int
    semantic_weight: float
    bm25_weight: float


@dataclass(frozen=True)
class IngestSettings:
    """What shapes chunks; part of the ingest profile."""

    strategy: str
    chunk_size: int
    chunk_overlap: int
    contextualize: bool


@dataclass(frozen=True)
class ChatSettings:
    """How turns run."""

    engine: str
    deadline_s: int
    abandon_s: int


@dataclass(frozen=True)
class UploadSettings:
    """What may be uploaded."""

    extensions: tuple[str, ...]
    max_bytes: int
    max_files: int
    max_total_bytes: int


@dataclass(frozen=True)
class Settings:
    """All knobs, typed and validated together, in the sections functions ask for."""

    retrieval: RetrievalSettings
    ingest: IngestSettings
    chat: ChatSettings
    upload: UploadSettings


def resolve(environment: Mapping[str, str], overrides: Mapping[str, str]) -> Settings:
    """Defaults, then the environment, then overrides from events; validated as a whole.

    Raises InputError: `unknown_setting` for an override no knob has, `invalid_settings` otherwise.
    """
    for name in overrides:
        if name not in KNOBS:
            raise InputError("unknown_setting", f"there is no setting {name}; see GET /api/settings")
    values = {
        name: knob.parse(overrides.get(name, environment.get(name, knob.default)))
        for name, knob in KNOBS.items()
    }
    _validate_links(values)
    megabyte = 1_000_000
    return Settings(
        RetrievalSettings(
            str(values["RETRIEVAL_METHOD"]),
            _int(values, "TOP_K"),
            _float(values, "SEMANTIC_WEIGHT"),
            _float(values, "BM25_WEIGHT"),
        ),
        IngestSettings(
            str(values["CHUNKING_STRATEGY"]),
            _int(values, "CHUNK_SIZE"),
            _int(values, "CHUNK_OVERLAP"),
            bool(values["CONTEXTUALIZE"]),
        ),
        ChatSettings(
            str(values["CHAT_ENGINE"]), _int(values, "CHAT_DEADLINE_S"), _int(values, "CHAT_ABANDON_S")
        ),
        UploadSettings(
            _names(values["ALLOWED_EXTENSIONS"]),
            _int(values, "UPLOAD_MAX_MB") * megabyte,
            _int(values, "UPLOAD_MAX_FILES"),
            _int(values, "UPLOAD_MAX_TOTAL_MB") * megabyte,
        ),
    )


Value = int | float | bool | str | tuple[str, ...]


def _int(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


def _float(values: Mapping[str, Value], name: str) -> float:
    value = values[name]
    assert isinstance(value, int | float)
    return float(value)


def _names(value: Value) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _validate_links(values: Mapping[str, Value]) -> None:
    """Settings that only make sense together."""
    if abs(_float(values, "SEMANTIC_WEIGHT") + _float(values, "BM25_WEIGHT") - 1) > 1e-6:
        raise InputError(
            "invalid_settings", "SEMANTIC_WEIGHT and BM25_WEIGHT must sum to 1; change both together"
        )
    if _int(values, "CHUNK_OVERLAP") >= _int(values, "CHUNK_SIZE"):
        raise InputError("invalid_settings", "CHUNK_OVERLAP must be below CHUNK_SIZE; change both together")
