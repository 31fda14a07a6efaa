"""Projectors: the log in, views out. A view is disposable; its checkpoint says what it contains."""
