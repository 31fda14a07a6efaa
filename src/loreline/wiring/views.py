"""The views of the embedded stack: PostgreSQL for all but the word index, which is SQLite files."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from loreline.embedded.directory import DataDirectory
from loreline.projectors.database import ViewDatabase
from loreline.projectors.materialize import materializer
from loreline.projectors.store import PostgresStore, ViewStore
from loreline.projectors.views.conversations_postgres import ConversationsReader, conversations
from loreline.projectors.views.documents_postgres import DOCUMENTS_VIEW, DocumentsReader
from loreline.projectors.views.lexical_sqlite import LexicalFiles, LexicalReader
from loreline.projectors.views.operations_postgres import OPERATIONS_VIEW, OperationsReader
from loreline.projectors.views.passages_postgres import PassagesReader, passages
from loreline.projectors.views.settings_postgres import SETTINGS_VIEW, SettingsReader
from loreline.wiring.core import Core
from loreline.wiring.hooks import Hooks


@dataclass(frozen=True)
class Views:
    """The views' stores, and a reader of each."""

    database: ViewDatabase
    stores: tuple[ViewStore, ...]
    passages: PassagesReader
    lexical: LexicalReader
    documents: DocumentsReader
    conversations: ConversationsReader
    settings: SettingsReader
    operations: OperationsReader


async def open_views(
    stack: AsyncExitStack,
    core: Core,
    conninfo: str,
    directory: DataDirectory,
    *,
    corpus_root: Path,
    hooks: Hooks,
) -> Views:
    """Open the views' stores; feeding them is the host's."""
    database = ViewDatabase(conninfo)
    await database.open()
    stack.push_async_callback(database.close)
    chunks_of = materializer(core.blobs)
    tables = (
        passages(chunks_of),
        DOCUMENTS_VIEW,
        conversations(core.blobs.get),
        SETTINGS_VIEW,
        OPERATIONS_VIEW,
    )
    lexical = LexicalReader(directory.lexical)
    stack.callback(lexical.close)
    return Views(
        database=database,
        stores=(
            *(PostgresStore(database, each, inside=hooks.in_projection) for each in tables),
            LexicalFiles(directory.lexical, chunks_of, inside=hooks.in_projection),
        ),
        passages=PassagesReader(database, corpus_root=corpus_root),
        lexical=lexical,
        documents=DocumentsReader(database),
        conversations=ConversationsReader(database),
        settings=SettingsReader(database),
        operations=OperationsReader(database),
    )
