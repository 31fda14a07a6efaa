"""Make a PostgreSQL cluster whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
from pathlib import Path

from loreline.embedded.child import Child, RunAs
from loreline.embedded.files import last_lines, sync_directory
from loreline.schemas.errors import ServerEnded, ServerFailed

MARK = "loreline.identity"


async def make_cluster(
    home: Path, *, binaries: Path, run_as: RunAs | None, password: str, log: Path, timeout_s: float
) -> None:
    """Have a cluster of this password and major version at `home/cluster`.

    One that stands there with another password (the data directory was made anew) or of another version
    cannot be opened and is replaced: it holds views only. A new one is made beside and renamed, so a killed
    initdb leaves nothing that counts.

    Args:
        home: private directory of the server's user; no server may run in it.
        binaries: PostgreSQL's installation directory.
        run_as: the server's user, None for ourselves.
        password: of superuser `postgres`.
        log: file for what initdb says.
        timeout_s: how long initdb may take.

    Raises:
        ServerEnded: initdb failed; the last lines of its output are in the message.
        ServerFailed: it took too long.
    """
    cluster, fresh, secret = home / "cluster", home / "cluster.new", home / "password"
    wanted = _identity(binaries, password)
    if _read(cluster / MARK) == wanted:
        return
    await asyncio.to_thread(_remove, cluster, fresh)
    try:
        _write_secret(secret, password, run_as)
        await _initdb(binaries, run_as, fresh=fresh, secret=secret, log=log, timeout_s=timeout_s)
    finally:
        secret.unlink(missing_ok=True)
    (fresh / MARK).write_text(wanted, encoding="utf-8")
    sync_directory(fresh)
    fresh.rename(cluster)
    sync_directory(home)


async def _initdb(
    binaries: Path, run_as: RunAs | None, *, fresh: Path, secret: Path, log: Path, timeout_s: float
) -> None:
    child = await Child.launch(
        "initdb",
        [
            *(binaries / "bin" / "initdb", "-D", fresh, "-U", "postgres", "-E", "UTF8"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", f"--pwfile={secret}"),
            *("--auth-local=scram-sha-256", "--auth-host=scram-sha-256", "--sync-method=syncfs"),
        ],
        death_signal=signal.SIGKILL,
        lock=fresh.parent / "server.lock",
        output=log,
        cwd=fresh.parent,
        run_as=run_as,
    )
    try:
        async with asyncio.timeout(timeout_s):
            code = await child.wait()
    except BaseException as error:
        await child.stop()
        if isinstance(error, TimeoutError):
            raise ServerFailed(f"initdb was not done after {timeout_s:.0f} s; see {log}.") from None
        raise
    if code != 0:
        raise ServerEnded(f"initdb ended with code {code}. {log} says:\n{last_lines(log)}")


def _identity(binaries: Path, password: str) -> str:
    with (binaries / "share" / "postgres.bki").open(encoding="utf-8") as file:
        version = file.readline().strip()
    return hashlib.sha256(f"{version}\n{password}".encode()).hexdigest()


def _write_secret(path: Path, password: str, run_as: RunAs | None) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(password)
        if run_as is not None:
            os.fchown(file.fileno(), run_as.uid, run_as.gid)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            shutil.rmtree(path)
