"""One file a view and store: its tables, how an event changes them, and its reads."""
