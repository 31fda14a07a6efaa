"""Processors: events in, events out. A stage reads, works, and decides; the wrapper does the rest."""
