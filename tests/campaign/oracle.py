"""The oracle's embedding server: OpenAI's route, word-hash vectors, and a log of every request.

    python -m tests.campaign.oracle CALLS.jsonl DELAY_S

prints its address and serves until its standard input ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.campaign.records import Record

DIM = 64


def vector_of(text: str) -> list[float]:
    """`DIM` numbers, the same for the same text on every machine; texts that share words are close."""
    vector = [0.0] * DIM
    vector[0] = 0.125
    for word in re.findall(r"\w+", text.casefold()):
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0] % DIM] += 1.0 if digest[1] & 1 else -1.0
        vector[digest[2] % DIM] += 0.5 if digest[3] & 1 else -0.5
    return vector


def handler_of(calls: Record, delay_s: float) -> type[BaseHTTPRequestHandler]:
    """The request handler: writes the call down durably, then answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            calls.add(at=time.time(), texts=body["input"])
            time.sleep(delay_s)
            rows = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(body["input"])]
            answer = json.dumps({"object": "list", "model": body["model"], "data": rows}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


class Server(ThreadingHTTPServer):
    """Says nothing of clients that were killed in the middle of a call."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


def main() -> None:
    """Serve until the parent is gone."""
    path, delay_s = Path(sys.argv[1]), float(sys.argv[2])
    server = Server(("127.0.0.1", 0), handler_of(Record(path), delay_s))
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
