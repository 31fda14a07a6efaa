"""Shapes without I/O: ids, event payloads, records, settings, ports and errors."""
