"""The row hash: one digest of everything a view holds, equal for a live view and its rebuild."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np

from loreline.projectors.view import Row
from loreline.schemas.ids import canonical_json


def plain(value: Any) -> Any:
    """A column as JSON: vectors as base64 of little-endian float32, ids and times as text."""
    if isinstance(value, np.ndarray):
        return base64.b64encode(np.ascontiguousarray(value, dtype="<f4").tobytes()).decode()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


async def row_hash(rows: AsyncIterator[Row]) -> tuple[str, int]:
    """(SHA-256 over the rows in key order, hex; number of rows). Raises ValueError if a key repeats."""
    digest, count, last = hashlib.sha256(), 0, None
    async for row in rows:
        if (row.table, row.key) == last:
            raise ValueError(f"{row.table} holds the key {row.key} twice")
        last = (row.table, row.key)
        digest.update(canonical_json([row.table, plain(row.key), plain(row.values)]) + b"\n")
        count += 1
    return digest.hexdigest(), count
