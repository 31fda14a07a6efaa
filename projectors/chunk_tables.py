"""The table of a profile's chunks in PostgreSQL: its shape, its vector index, and the distance in it."""

from __future__ import annotations

from psycopg import sql

from loreline.projectors.database import Connection

CHUNKS = """
CREATE TABLE IF NOT EXISTS {schema}.{table} (
    chunk_id               text NOT NULL,
    from_seq               bigint NOT NULL,
    to_seq                 bigint,
    file_id                text NOT NULL,
    version                text NOT NULL,
    original_index         bigint NOT NULL,
    content                text NOT NULL,
    context                text,
    metadata               jsonb NOT NULL,
    embedding              vector({dim}) NOT NULL,
    PRIMARY KEY (chunk_id, from_seq)
);
-- Inline, or each distance would fetch the vector from the TOAST table.
ALTER TABLE {schema}.{table} ALTER COLUMN embedding SET STORAGE MAIN;
CREATE INDEX IF NOT EXISTS {by_file} ON {schema}.{table} (file_id) WHERE to_seq IS NULL;
CREATE INDEX IF NOT EXISTS {by_number} ON {schema}.{table} (original_index);
"""


def table_of(profile: str) -> str:
    """The table that holds a profile's chunks."""
    return f"chunks_{profile[:32]}"


def index_expression(dim: int) -> str | None:
    """What the HNSW index is over: vectors to 2,000 dimensions, half precision to 4,000, else none."""
    if dim <= 2000:
        return "embedding vector_cosine_ops"
    return f"(embedding::halfvec({dim})) halfvec_cosine_ops" if dim <= 4000 else None


async def index_vectors(connection: Connection, schema: str, profile: str, dim: int) -> None:
    """Build the HNSW index over live rows, if this many dimensions can have one."""
    expression = index_expression(dim)
    if expression is not None:
        text = (
            "CREATE INDEX IF NOT EXISTS {by_vector} ON {schema}.{table}"
            f" USING hnsw ({expression}) WHERE to_seq IS NULL"
        )
        await connection.execute(ddl(text, schema, profile, dim))


def ddl(text: str, schema: str, profile: str, dim: int) -> sql.Composed:
    """A statement about a profile's table, with its names filled in."""
    return sql.SQL(text).format(
        schema=sql.Identifier(schema),
        table=sql.Identifier(table_of(profile)),
        by_file=sql.Identifier(f"{table_of(profile)}_file"),
        by_number=sql.Identifier(f"{table_of(profile)}_number"),
        by_vector=sql.Identifier(f"{table_of(profile)}_hnsw"),
        dim=sql.Literal(dim),
    )


def distance(dim: int, *, exact: bool) -> sql.Composable:
    """The cosine distance to `%(vector)s` as the index knows it, or so that no index is used."""
    if exact:
        return sql.SQL("(embedding <=> %(vector)s) + 0")  # no index is over a sum
    if dim <= 2000 or dim > 4000:
        return sql.SQL("embedding <=> %(vector)s")
    half = sql.SQL("halfvec({})").format(sql.Literal(dim))
    return sql.SQL("embedding::{half} <=> %(vector)s::{half}").format(half=half)
