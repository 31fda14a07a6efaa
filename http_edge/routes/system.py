"""Health, configuration, views, and the events themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from loreline.events.envelope import Stored
from loreline.http_edge.ports import Edge, Probe
from loreline.http_edge.preflight import ask
from loreline.http_edge.requests import answer, edge_of, flag_of, number_of
from loreline.http_edge.sse import EventStream, frame
from loreline.projectors.host import Comparison
from loreline.schemas.errors import InputError
from loreline.schemas.events.payload import Payload
from loreline.schemas.settings import KNOBS
from loreline.schemas.wire import (
    ComparisonOut,
    ConfigResponse,
    HealthResponse,
    NumericRange,
    ServiceHealth,
    ViewOut,
)


async def health(request: Request) -> Response:
    """`GET /api/health`: always 200 while the edge lives; the truth is in the body."""
    edge = edge_of(request)
    services = dict(
        zip(edge.probes, await asyncio.gather(*(_probe(each) for each in edge.probes.values())), strict=True)
    )
    damage = edge.damage()
    services["log"] = ServiceHealth(ok=damage is None, detail=None if damage is None else str(damage))
    halted = [f"{name}: {each.reason}" for name, each in edge.host.runners.items() if each.state == "halted"]
    waits = edge.waits()
    services["stages"] = ServiceHealth(ok=not waits, detail="; ".join(waits.values()) or None)
    services["views"] = ServiceHealth(ok=not halted, detail="; ".join(halted) or None)
    return answer(HealthResponse(ok=all(each.ok for each in services.values()), services=services))


async def _probe(probe: Probe) -> ServiceHealth:
    trouble = await ask(probe)
    return ServiceHealth(ok=trouble is None, detail=trouble)


async def config(request: Request) -> Response:
    """`GET /api/config`: what this stack can do, and the bounds of its numbers."""
    edge = edge_of(request)
    upload, can = (await edge.settings()).upload, edge.capabilities
    numbers = {name: knob for name, knob in KNOBS.items() if knob.kind in {"int", "float"}}
    return answer(
        ConfigResponse(
            retrievers=list(can.retrievers),
            chunkers=list(can.chunkers),
            chat_engines=list(can.chat_engines),
            ocr_engines=[],
            model_types=list(can.embedders),
            llm_model_types=["http"],
            ranges={
                name.lower(): NumericRange(min=knob.low, max=knob.high) for name, knob in numbers.items()
            },
            upload_max_mb=upload.max_bytes // 1_000_000,
            allowed_extensions=sorted(f".{name}" for name in upload.extensions),
            preview_enabled=False,
            answered_by=can.answered_by,
        )
    )


async def views(request: Request) -> Response:
    """`GET /api/views`: every view, its version, and how far behind the log it is."""
    edge = edge_of(request)
    last_seq = (await edge.log.info()).last_seq
    return answer(
        [
            ViewOut(
                name=name,
                version=runner.view.version,
                state=runner.state,
                seq=runner.at.seq,
                lag=max(0, last_seq - runner.at.seq),
                reason=runner.reason,
            )
            for name, runner in edge.host.runners.items()
        ]
    )


async def rebuild_view(request: Request) -> Response:
    """`POST /api/views/{name}/rebuild`: build from the beginning, compare, switch."""
    return _comparison(await edge_of(request).host.rebuild(request.path_params["name"]))


async def verify_view(request: Request) -> Response:
    """`POST /api/views/{name}/verify`: build beside the live one, compare, drop."""
    return _comparison(await edge_of(request).host.verify(request.path_params["name"]))


def _comparison(found: Comparison) -> Response:
    return answer(
        ComparisonOut(
            view=found.view,
            seq=found.seq,
            live_hash=found.live_hash,
            fresh_hash=found.fresh_hash,
            equal=found.is_equal,
            rows=found.n_rows,
            seconds=round(found.seconds, 3),
        )
    )


async def events(request: Request) -> Response:
    """`GET /api/events`: opened events from after a sequence, live with `follow=true`."""
    edge = edge_of(request)
    after_seq, last_seq = number_of(request, "after_seq") or 0, (await edge.log.info()).last_seq
    if after_seq > last_seq:
        raise InputError("validation_error", f"after_seq={after_seq} lies beyond the log's end at {last_seq}")
    following = flag_of(request, "follow", default=True)
    return EventStream(_events(edge, after_seq, None if following else last_seq))


async def _events(edge: Edge, after_seq: int, until_seq: int | None) -> AsyncGenerator[bytes, None]:
    if until_seq is not None and after_seq >= until_seq:
        return
    async with aclosing(edge.log.follow(after_seq=after_seq)) as batches:
        async for batch in batches:
            for sealed in batch:
                stored = edge.codec.decode(sealed)
                yield frame("event", _opened(stored), id_=str(stored.seq))
                if until_seq is not None and stored.seq >= until_seq:
                    return


def _opened(stored: Stored[Payload]) -> dict[str, object]:
    event = stored.event
    return {
        "seq": stored.seq,
        "id": str(event.id),
        "type": event.type,
        "aggregate": str(event.aggregate),
        "time": event.time.isoformat(),
        "actor": event.actor,
        "correlation": str(event.correlation),
        "causation": str(event.causation) if event.causation else None,
        "payload": event.payload.model_dump(mode="json"),
    }
