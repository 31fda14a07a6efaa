"""The variables of the environment that are read besides the knobs, in words."""

from __future__ import annotations

from collections.abc import Mapping

SETTINGS_HELP: Mapping[str, str] = {
    "LORELINE_DATA": "Data directory (log, blobs, keys, views); default .loreline.",
    "LORELINE_DOCS": "Folder of the document corpus; default docs.",
    "LORELINE_GRAPH_DOCS": "Folder of the message corpus; default graph-docs.",
    "LORELINE_PORT": "Port of the web page and the API on 127.0.0.1; default a free one.",
    "EMBEDDER": "Which embedder: bundled (default), http or hash (no model, for tests).",
    "EMBEDDER_URL": "Base address of an OpenAI-compatible embedding server, for EMBEDDER=http.",
    "EMBEDDER_MODEL": "The embedding model's name at that server.",
    "EMBEDDER_API_KEY": "Key sent to the embedding server as a bearer token.",
    "LLM_API_URL": "Base address of an OpenAI-compatible chat server; empty (default): answers are quotes.",
    "LLM_MODEL": "The chat model's name at that server; empty: the first it lists.",
    "LLM_API_KEY": "Key sent to the chat server as a bearer token.",
    "LLM_CONTEXT_TOKENS": "The chat model's context, in tokens; passages are cut to fit; default 4096.",
    "LLM_MAX_TOKENS": "Longest answer of the chat model, in tokens; default 768.",
    "LOG_MAX_BYTES": "Size at which the log refuses new events, in bytes; default 64 GiB.",
    "PARSE_WORKERS": "Processes that read documents; default 1.",
}
"""Apart from the code that reads them, so that `--help` loads no library."""
