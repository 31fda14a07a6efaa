"""Retrievers by name. To add one, write its module and add a line to RETRIEVERS."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from loreline.processors.retrieval.bm25 import bm25
from loreline.processors.retrieval.hybrid import hybrid
from loreline.processors.retrieval.search import Retriever
from loreline.processors.retrieval.semantic import semantic

RETRIEVERS: Mapping[str, Retriever] = MappingProxyType({"semantic": semantic, "bm25": bm25, "hybrid": hybrid})
"""Every method RETRIEVAL_METHOD can name."""
