"""Reading documents in child processes, so that no document can hang, crash or bloat the program."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Literal

from pebble import ProcessExpired, ProcessPool

from loreline.processors.parsers import read
from loreline.schemas.errors import DependencyDown, DocumentError
from loreline.schemas.records import ParsedDocument

_PR_SET_PDEATHSIG = 1
_NICENESS = 10

Outcome = tuple[Literal["parsed"], ParsedDocument] | tuple[Literal["failed"], str, str]


class Reader:
    """Reads documents in worker processes with limits on time and memory; for use from asyncio.

    Workers start with the first document and are replaced after `max_tasks` documents, after a crash and
    after a time-out. On Linux they die with this process, even if it is killed.
    """

    def __init__(
        self,
        workers: int,
        *,
        timeout_s: float = 120.0,
        memory_bytes: int = 4 * 1024**3,
        max_tasks: int = 50,
    ) -> None:
        self._workers = workers
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._max_tasks = max_tasks
        self._pool: Any = None
        self._pending: set[asyncio.Future[Outcome]] = set()
        self._closed = False

    async def read(self, data: bytes, *, suffix: str) -> ParsedDocument:
        """Read one document. Cancelling the call kills the worker that is at it.

        Raises:
            DocumentError: what the reader found wrong, or `parse_timeout`, `parse_memory`, `parse_crashed`.
            DependencyDown: the reader is closed; the document is not at fault.
        """
        try:
            try:
                outcome = await self._once(data, suffix)
            except BrokenProcessPool:  # an idle worker was killed from outside, and the pool with it
                outcome = await self._once(data, suffix)
        except FutureTimeout as error:
            raise DocumentError(
                "parse_timeout",
                f"Reading took longer than {self._timeout_s:g} s; split the document or simplify it.",
            ) from error
        except (ProcessExpired, BrokenProcessPool, EOFError, OSError) as error:
            raise DocumentError(
                "parse_crashed", "The reader crashed on this document; save it anew from its program."
            ) from error
        except asyncio.CancelledError:
            if self._closed and not _being_cancelled():
                raise _closed() from None
            raise
        if outcome[0] == "failed":
            raise DocumentError(outcome[1], outcome[2])
        return outcome[1]

    async def _once(self, data: bytes, suffix: str) -> Outcome:
        if self._pool is not None and not self._pool.active:
            broken, self._pool = self._pool, None
            await asyncio.to_thread(_stop, broken)
        future: asyncio.Future[Outcome] = asyncio.wrap_future(self._schedule(data, suffix))
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return await future

    async def close(self) -> None:
        """Stop the workers at once; documents being read raise DependencyDown. May be called twice."""
        self._closed = True
        pool, self._pool = self._pool, None
        # A stopped pool never resolves what was running.
        for future in list(self._pending):
            future.cancel()
        if pool is not None:
            await asyncio.to_thread(_stop, pool)

    def _schedule(self, data: bytes, suffix: str) -> Any:
        if self._closed:
            raise _closed()
        if self._pool is None:
            self._pool = ProcessPool(
                max_workers=self._workers,
                max_tasks=self._max_tasks,
                initializer=_prepare_worker,
                initargs=(os.getpid(), self._memory_bytes),
                context=multiprocessing.get_context("spawn"),
            )
        with _interrupts_kept_from_children():
            return self._pool.schedule(_outcome, args=(data, suffix), timeout=self._timeout_s)


@contextmanager
def _interrupts_kept_from_children() -> Iterator[None]:
    """Threads and processes started meanwhile inherit a blocked SIGINT: the first task starts the pool.

    A terminal's Ctrl-C reaches every process; a worker that is still loading would answer it with a
    traceback before `_prepare_worker` runs. When work stops is the parent's decision.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _closed() -> DependencyDown:
    return DependencyDown("parsers", "The document readers are shut down; it is read at the next start.")


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _stop(pool: Any) -> None:
    pool.stop()
    pool.join()


def _outcome(data: bytes, suffix: str) -> Outcome:
    """Read in the worker. Errors travel as words: what a library raises need not survive pickling."""
    try:
        return "parsed", read(data, suffix=suffix)
    except DocumentError as error:
        return "failed", error.code, str(error)
    except MemoryError:
        return "failed", "parse_memory", "Reading needs more memory than one document may take; split it."
    except RecursionError:
        return "failed", "too_deep", "The document is nested too deeply; simplify it."
    except Exception as error:
        return "failed", "parse_failed", f"The reader could not read this document: {type(error).__name__}."


def _prepare_worker(parent_pid: int, memory_bytes: int) -> None:
    """Run first in each worker: die with the parent, yield to it, keep the memory limit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have gone before the call above.
        if os.getppid() != parent_pid:
            os._exit(1)
    if sys.platform != "win32":
        import resource

        os.nice(_NICENESS)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
