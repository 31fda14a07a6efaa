"""The route table, and the application it makes."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from loreline.http_edge.errors import on_error
from loreline.http_edge.ports import Edge
from loreline.http_edge.routes import chat, conversations, documents, ingest, system, uploads
from loreline.http_edge.security import Guard
from loreline.schemas.errors import LorelineError

WEB = Path(__file__).parent / "web"

ROUTES = (
    Route("/api/chat", chat.ask, methods=["POST"]),
    Route("/api/chat/{turn_id}/stream", chat.read_on, methods=["GET"]),
    Route("/api/chat/{turn_id}/abort", chat.abort, methods=["POST"]),
    Route("/api/conversations", conversations.list_conversations, methods=["GET"]),
    Route("/api/conversations", conversations.create_conversation, methods=["POST"]),
    Route("/api/conversations/{conversation_id}", conversations.get_conversation, methods=["GET"]),
    Route("/api/conversations/{conversation_id}", conversations.delete_conversation, methods=["DELETE"]),
    Route("/api/documents", documents.list_documents, methods=["GET"]),
    Route("/api/documents", uploads.upload_documents, methods=["POST"]),
    Route("/api/documents/delete", documents.delete_documents, methods=["POST"]),
    Route("/api/documents/{doc_id}", documents.delete_document, methods=["DELETE"]),
    Route("/api/ingest", ingest.start_ingest, methods=["POST"]),
    Route("/api/ingest/status", ingest.ingest_status, methods=["GET"]),
    Route("/api/health", system.health, methods=["GET"]),
    Route("/api/config", system.config, methods=["GET"]),
    Route("/api/views", system.views, methods=["GET"]),
    Route("/api/views/{name}/rebuild", system.rebuild_view, methods=["POST"]),
    Route("/api/views/{name}/verify", system.verify_view, methods=["POST"]),
    Route("/api/events", system.events, methods=["GET"]),
)
"""Every route of the API."""


async def page(request: Request) -> Response:
    """`GET /`: the web page."""
    return FileResponse(WEB / "index.html", headers={"Cache-Control": "no-cache"})


def create_app(edge: Edge) -> Starlette:
    """The application: the API, the page and its files."""
    handlers = {LorelineError: on_error, ValidationError: on_error, HTTPException: on_error}
    app = Starlette(
        routes=[
            *ROUTES,
            Route("/", page, methods=["GET"]),
            Mount("/static", StaticFiles(directory=WEB), name="static"),
        ],
        middleware=[Middleware(Guard, edge=edge)],
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False  # an address has one spelling, and another one is an error like any
    app.state.edge = edge
    return app
