"""Become a server that dies with the process that started it.

Run as a plain script, never imported by the program, so that nothing runs between fork and exec:

    python -I -S leash.py PARENT_PID SIGNAL [UID GID] -- /path/to/server ARGUMENT...

Drops privileges if a user is named, asks the kernel for SIGNAL when the launching *thread* ends (Linux),
makes sure that the parent still lives, and replaces itself by the server under the same pid. Elsewhere than
on Linux the kernel has no such call: there the next start finds the leftover by the lock it holds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Do the steps above; returns only by an exception.

    Args:
        arguments: what follows the script's name.

    Raises:
        OSError: the user cannot be changed, or the server cannot be executed.
        SystemExit: the parent died meanwhile.
    """
    cut = arguments.index("--")
    head, argv = [int(word) for word in arguments[:cut]], arguments[cut + 1 :]
    parent_pid, death_signal = head[0], head[1]
    # Loaded while we may still read it: the standard library can lie where the new user cannot go.
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    os.umask(0o077)
    if len(head) == 4:
        os.setgroups([])
        os.setgid(head[3])
        os.setuid(head[2])
    # Only now: a change of credentials clears the death signal.
    if libc is not None and libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    # A parent that died before the line above sends no signal any more.
    if os.getppid() != parent_pid:
        sys.exit("the parent process is gone")
    # The interpreter ignores these two, and what is ignored stays ignored over exec.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    os.execv(argv[0], argv)  # noqa: S606 - becoming the server is the point


if __name__ == "__main__":
    main(sys.argv[1:])
