"""What bootstrap reads from the server's answers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.aio.client import Client

from loreline.events.bootstrap import check_floor
from loreline.events.topology import StageConsumer
from loreline.schemas.errors import LogRolledBack

STAGE = StageConsumer("parse", ("lore.rag.>",), 1, 60.0)


def answering(answer: dict[str, Any]) -> Client:
    """A connection whose server gives this answer to everything."""

    async def request(_subject: str, _body: bytes, *, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(data=json.dumps(answer).encode())

    return cast("Client", SimpleNamespace(request=request))


async def test_a_stage_that_acknowledged_more_than_there_is_does_not_run() -> None:
    """A server of today sets such a floor back by itself; one that does not is not believed."""
    standing = answering({"ack_floor": {"consumer_seq": 9, "stream_seq": 9}})
    await check_floor(standing, STAGE, last_seq=9)
    with pytest.raises(
        LogRolledBack, match="ends at 8, but the stage parse is at 9; keep this data directory"
    ):
        await check_floor(standing, STAGE, last_seq=8)
    await check_floor(answering({"error": {"err_code": 10014}}), STAGE, last_seq=0)
