"""The ingest pipeline: discover, parse, chunk, situate, embed, and the reactor that closes runs."""
