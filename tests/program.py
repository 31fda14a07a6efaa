"""The program as a user runs it: `python -m loreline` in a process of its own, and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from loreline.embedded.placement import SHELTERS

PATIENCE_S = 60.0
MARK = "LORELINE_TEST_MARK"


@dataclass
class Place:
    """A data directory and a corpus of a test, and the processes that belong to them."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid4().hex)

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def docs(self) -> Path:
        return self.root / "docs"

    def command(self, *arguments: str) -> list[str]:
        return [
            *(sys.executable, "-m", "loreline", "--data", str(self.data)),
            *("--docs", str(self.docs), "--graph-docs", str(self.root / "graph-docs"), *arguments),
        ]

    def variables(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        return {**kept, "EMBEDDER": "hash", MARK: self.mark, "LC_ALL": "C.UTF-8", **self.environment}

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """One command to its end."""
        return subprocess.run(
            self.command(*arguments), env=self.variables(), input=given, text=True,
            capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    @contextmanager
    def up(self, *arguments: str) -> Iterator[Up]:
        """`up` in a process group of its own, as a shell starts it; what is left at the end is killed."""
        output = self.root / f"up-{uuid4().hex[:8]}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                self.command("up", *arguments), env=self.variables(), stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield Up(process, output)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def processes(self, words: str = "") -> list[int]:
        """Process ids of everything that runs for this place, whoever its parent is now."""
        named = sha256(os.fsencode(self.data.absolute() / "postgres")).hexdigest()[:16]
        homes = [str(self.root), *(str(shelter / f"cluster-{named}") for shelter in SHELTERS)]
        return [pid for pid in _pids() if self._is_ours(pid, homes) and words in _command_line(pid)]

    def _is_ours(self, pid: int, homes: list[str]) -> bool:
        try:
            folder = os.readlink(f"/proc/{pid}/cwd")
            marked = f"{MARK}={self.mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return marked or any(folder == home or folder.startswith(home + "/") for home in homes)


@dataclass
class Up:
    """A running `up`."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text(encoding="utf-8")

    @property
    def pid(self) -> int:
        return self.process.pid

    def url(self) -> str:
        """Its address, once it has printed it."""
        self.says("answers at")
        (url,) = re.findall(r"http://\S+", self.text)
        return str(url)

    def says(self, words: str) -> None:
        """Wait until it has said this."""
        until(lambda: words in self.text or self.process.poll() is not None, f"`{words}`")
        assert words in self.text, self.text

    def interrupt(self) -> None:
        """Ctrl-C in a terminal: SIGINT to the whole foreground group."""
        os.killpg(self.pid, signal.SIGINT)

    def ends(self) -> int:
        """Its exit code, which has to come within ten seconds."""
        return self.process.wait(10.0)


def until(condition: Callable[[], bool], what: str, *, timeout_s: float = PATIENCE_S) -> None:
    """Look every few milliseconds until it is so."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        time.sleep(0.01)


def gone(place: Place) -> None:
    """Wait until nothing runs for a place any more; killed servers are given a moment to notice."""
    until(
        lambda: not place.processes(),
        f"the end of {[_command_line(pid) for pid in place.processes()]}",
        timeout_s=20.0,
    )


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
