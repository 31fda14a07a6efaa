"""Event payloads by family. Public fields hold ids, digests, counts, codes and times; words are private."""
