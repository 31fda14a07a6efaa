"""Loreline: answers from your documents and messages, with an event log as the system of record."""
