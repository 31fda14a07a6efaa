"""Bootstrap: makes the streams and the stages' durables what topology says, by the admin's connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import nats.errors
from nats.aio.client import Client

from loreline.events.highwater import REPAIR
from loreline.events.topology import STREAM, StageConsumer
from loreline.schemas.errors import DependencyDown, LogError, LogRolledBack

_STREAM_NOT_FOUND, _CONSUMER_NOT_FOUND = 10059, 10014
_LOOKS_AGAIN_S = 0.15
"""The server looks at what is out 0.1 s after a change of `ack_wait`."""


async def request(connection: Client, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """One JetStream API call; errors come back in the answer. Raises DependencyDown without one."""
    try:
        reply = await connection.request(f"$JS.API.{subject}", json.dumps(body).encode(), timeout=10)
    except (nats.errors.Error, TimeoutError, OSError) as error:
        raise DependencyDown("nats", f"nats does not answer: {error or type(error).__name__}") from error
    answer: dict[str, Any] = json.loads(reply.data)
    return answer


async def ensure_stream(connection: Client, config: Mapping[str, Any]) -> None:
    """Create the stream, or bring its settings up to date. Raises LogError if the server refuses."""
    name = config["name"]
    answer = await request(connection, f"STREAM.INFO.{name}", {})
    missing = answer.get("error", {}).get("err_code") == _STREAM_NOT_FOUND
    if not missing and _covers(answer.get("config", {}), config):
        return
    answer = await request(connection, f"STREAM.{'CREATE' if missing else 'UPDATE'}.{name}", config)
    if failure := answer.get("error"):
        raise LogError(f"nats refuses the stream {name}: {failure['description']}")


async def ensure_stage(connection: Client, stage: StageConsumer) -> bool:
    """Create the stage's durable if it is missing; True if it was made.

    A standing durable keeps its position; its limits are brought up to date.
    """
    answer = await request(connection, f"CONSUMER.INFO.{STREAM}.{stage.durable}", {})
    missing: bool = answer.get("error", {}).get("err_code") == _CONSUMER_NOT_FOUND
    config = stage.config()
    if not missing and "config" in answer:
        standing = answer["config"]
        config |= {key: standing[key] for key in ("deliver_policy", "opt_start_seq") if key in standing}
        if _covers(standing, config):
            return False
    body = {"stream_name": STREAM, "config": config, "action": "create" if missing else "update"}
    answer = await request(connection, f"CONSUMER.DURABLE.CREATE.{STREAM}.{stage.durable}", body)
    if failure := answer.get("error"):
        raise LogError(f"nats refuses the consumer {stage.durable}: {failure['description']}")
    return missing


async def hand_back(connection: Client, stage: StageConsumer) -> int:
    """Have delivered at once what a process that is gone had in work; how many events that were.

    For a stage that nobody serves at the moment. The server would wait for the rest of `ack_wait`; it looks
    again at what is out when that changes, so it is shortened for an instant. Delayed naks keep their delay.
    """
    answer = await request(connection, f"CONSUMER.INFO.{STREAM}.{stage.durable}", {})
    in_work = int(answer.get("num_ack_pending", 0))
    if in_work == 0:
        return 0
    for ack_wait_ns in (1_000_000, answer["config"]["ack_wait"]):
        config = answer["config"] | {"ack_wait": ack_wait_ns}
        body = {"stream_name": STREAM, "config": config, "action": "update"}
        await request(connection, f"CONSUMER.DURABLE.CREATE.{STREAM}.{stage.durable}", body)
        await asyncio.sleep(_LOOKS_AGAIN_S)
    return in_work


async def check_floor(connection: Client, stage: StageConsumer, *, last_seq: int) -> None:
    """Check that the log reaches what the stage acknowledged. Raises LogRolledBack."""
    answer = await request(connection, f"CONSUMER.INFO.{STREAM}.{stage.durable}", {})
    floor = int(answer.get("ack_floor", {}).get("stream_seq", 0))
    if floor > last_seq:
        raise LogRolledBack(
            f"the log ends at {last_seq}, but the stage {stage.stage} is at {floor}; {REPAIR}"
        )


def _covers(standing: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the standing configuration says all that is wanted (servers leave defaults out)."""
    return all(
        bool(standing.get(key, value if not value else None) == value) for key, value in wanted.items()
    )
