"""The servers that `loreline up` starts as its children, and the data directory they live in."""
