"""The desk at which outside subscribers ask for their consumers.

Whoever creates a consumer may name a subject that the server then publishes to, inside the log's account
and with the server's own rights: the log's API, a stage's acknowledgements, a live frame. A NATS permission
cannot look into the request, so it comes here, and only consumers that are pulled from are made.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from loreline.events.topology import SUBSCRIBER_DESK

_log = logging.getLogger(__name__)

ALLOWED = frozenset(
    {
        *("name", "durable_name", "description", "metadata", "filter_subject", "filter_subjects"),
        *("deliver_policy", "opt_start_seq", "opt_start_time", "replay_policy", "headers_only"),
        *("ack_policy", "ack_wait", "max_deliver", "backoff", "max_ack_pending", "inactive_threshold"),
        *("max_waiting", "max_batch", "max_expires", "max_bytes", "num_replicas", "mem_storage"),
    }
)
"""What a subscriber may say of its consumer; above all no subject to deliver to."""

_TYPE = "io.nats.jetstream.api.v1.consumer_create_response"
_TIMEOUT_S = 5.0


def refusal(body: bytes) -> str | None:
    """Why a request to create a consumer is refused; None when it may go to the server."""
    try:
        request = json.loads(body)
        config: Mapping[str, Any] = dict(request["config"])
    except (ValueError, KeyError, TypeError):
        return "the request is not that of a consumer"
    asked = sorted(name for name, value in config.items() if value and name not in ALLOWED)
    if asked:
        return f"a subscriber's consumer is pulled from, and has no {', '.join(asked)}"
    return None


class ConsumerDesk:
    """Hands subscribers' requests for consumers on to the server, once they are looked at.

    The subjects on which it is asked name the subscribers' own consumers, see `topology`; the server
    checks that the request names the same one.
    """

    def __init__(self, connection: Client) -> None:
        self._nats = connection
        self._subscription: Subscription | None = None

    async def open(self) -> None:
        """Begin to answer."""
        self._subscription = await self._nats.subscribe(f"{SUBSCRIBER_DESK}.>", queue="desk", cb=self._answer)
        await self._nats.flush()

    async def _answer(self, message: Msg) -> None:
        reason = refusal(message.data)
        subject = message.subject.removeprefix(f"{SUBSCRIBER_DESK}.")
        try:
            if reason is None:
                reply = await self._nats.request(f"$JS.API.{subject}", message.data, timeout=_TIMEOUT_S)
                await message.respond(reply.data)
            else:
                await message.respond(_refused(reason))
        except (nats.errors.Error, TimeoutError, OSError) as error:
            _log.warning("a subscriber's request for a consumer got no answer: %s", error)


def _refused(reason: str) -> bytes:
    error = {"code": 400, "err_code": 10000, "description": reason}
    return json.dumps({"type": _TYPE, "error": error}).encode()
