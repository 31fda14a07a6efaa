"""The embedded servers as processes: they start, come back, die with us, and live where they must."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import psycopg
import pytest

from loreline.embedded.child import LEASH
from loreline.embedded.directory import DataDirectory
from loreline.embedded.nats import EmbeddedNats
from loreline.embedded.nats_config import NatsUser
from loreline.embedded.placement import NOBODY, is_reachable, place_binaries
from loreline.embedded.postgres import EmbeddedPostgres
from loreline.embedded.supervise import Backoff, Supervisor
from loreline.schemas.errors import DataDirectoryBusy, ServerFailed

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hide PostgreSQL's files elsewhere")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's death signal is Linux's")


@pytest.fixture
def shelter() -> Iterator[Path]:
    """A shelter that `nobody` can reach; pytest's own directories are private. In memory, to be quick."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    path = Path(tempfile.mkdtemp(prefix="loreline-shelter-", dir=memory))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    with DataDirectory.open(tmp_path / "home" / ".loreline") as directory:
        yield directory


def make_nats(data: DataDirectory, *, port: int | None = None) -> EmbeddedNats:
    user = NatsUser("admin", data.secrets().nats["admin"])
    return EmbeddedNats(data.nats, users=[user], logs=data.logs, port=port)


def make_postgres(data: DataDirectory, shelter: Path, *, port: int | None = None) -> EmbeddedPostgres:
    return EmbeddedPostgres(
        data.postgres, password=data.secrets().postgres, logs=data.logs, port=port, shelters=(shelter,)
    )


@pytest.fixture
async def nats_server(data: DataDirectory) -> AsyncIterator[EmbeddedNats]:
    server = make_nats(data)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def postgres(data: DataDirectory, shelter: Path) -> AsyncIterator[EmbeddedPostgres]:
    server = make_postgres(data, shelter)
    await server.start()
    yield server
    await server.stop()


def is_running(pid: int) -> bool:
    """Whether the process lives; a zombie waits for its parent only."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def living(pids: list[int], *, within_s: float) -> list[int]:
    deadline = time.monotonic() + within_s
    while (left := [pid for pid in pids if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def query(server: EmbeddedPostgres, text: str) -> list[tuple[object, ...]]:
    async with await psycopg.AsyncConnection.connect(server.conninfo, autocommit=True) as connection:
        cursor = await connection.execute(text.encode())
        return await cursor.fetchall() if cursor.description else []


async def test_nats_keeps_its_streams_and_its_port_over_a_restart(nats_server: EmbeddedNats) -> None:
    port = nats_server.port
    client = await nats.connect(nats_server.url("admin"))
    await client.jetstream().add_stream(name="KEPT", subjects=["kept.>"])
    await client.jetstream().publish("kept.one", b"1")
    await client.close()

    await nats_server.restart()

    assert nats_server.port == port
    client = await nats.connect(nats_server.url("admin"))
    assert (await client.jetstream().get_msg("KEPT", seq=1)).data == b"1"
    await client.close()


async def test_nats_refuses_whoever_has_no_password(nats_server: EmbeddedNats) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
    writer.write(b"CONNECT {}\r\nPING\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b"Authorization Violation" in answer
    assert b"PONG" not in answer


async def test_nats_on_a_taken_port_says_so(
    data: DataDirectory, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = EmbeddedNats(tmp_path / "other", users=[], logs=tmp_path / "other", port=nats_server.port)
    with pytest.raises(ServerFailed, match="address already in use"):
        await other.start()


async def test_postgres_keeps_its_rows_and_its_port_over_a_restart(postgres: EmbeddedPostgres) -> None:
    port = postgres.port
    await query(postgres, "CREATE TABLE kept (v vector(3)); INSERT INTO kept VALUES ('[1,2,3]')")

    await postgres.restart()

    assert postgres.port == port
    assert await query(postgres, "SELECT v::text FROM kept") == [("[1,2,3]",)]


async def test_postgres_heals_from_a_stale_pid_file_that_names_a_living_process(
    postgres: EmbeddedPostgres,
) -> None:
    pid = postgres.pid
    assert pid is not None
    stale = (postgres.directory / "cluster" / "postmaster.pid").read_text().splitlines()
    os.kill(pid, signal.SIGKILL)
    await postgres.wait_exit()
    # After a reboot the number may belong to anybody.
    text = "\n".join([str(os.getpid()), *stale[1:]]) + "\n"
    (postgres.directory / "cluster" / "postmaster.pid").write_text(text)

    await postgres.start()

    assert await query(postgres, "SELECT 1") == [(1,)]


async def test_a_killed_initdb_does_not_wedge_the_next_start(data: DataDirectory, shelter: Path) -> None:
    server = make_postgres(data, shelter)
    first = asyncio.create_task(server.start())
    while not (server.directory / "cluster.new" / "base").exists():
        await asyncio.sleep(0.002)
    for pid in children_of(os.getpid()):
        if b"initdb" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(ServerFailed, match="initdb"):
        await first

    await server.start()

    assert await query(server, "SELECT 1") == [(1,)]
    await server.stop()


async def test_a_cluster_of_another_data_directory_is_made_anew(data: DataDirectory, shelter: Path) -> None:
    first = make_postgres(data, shelter)
    await first.start()
    await query(first, "CREATE TABLE old (n int)")
    await first.stop()
    (data.path / "secrets.json").unlink()

    second = make_postgres(data, shelter)
    await second.start()

    assert await query(second, "SELECT to_regclass('old')::text") == [(None,)]
    await second.stop()


@as_root
async def test_under_a_private_home_postgres_lives_elsewhere_and_no_parent_is_changed(
    tmp_path: Path, shelter: Path
) -> None:
    home = tmp_path / "root"
    home.mkdir(mode=0o700)
    with DataDirectory.open(home / "clone" / ".loreline") as data:
        modes = [parent.stat().st_mode for parent in data.path.parents]
        server = make_postgres(data, shelter)
        await server.start()

        assert server.elsewhere is not None
        assert server.elsewhere.parent == shelter
        assert server.elsewhere.stat().st_mode & 0o777 == 0o700
        assert server.elsewhere.stat().st_uid == NOBODY.uid
        assert await query(server, "SELECT 1") == [(1,)]
        await server.stop()
        assert [parent.stat().st_mode for parent in data.path.parents] == modes


@as_root
def test_binaries_under_a_private_home_are_copied_once(tmp_path: Path, shelter: Path) -> None:
    installed = place_binaries(None, shelters=()).parent
    hidden = tmp_path / "site-packages"
    shutil.copytree(installed, hidden / installed.name)
    libraries = installed.with_name(f"{installed.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, hidden / libraries.name)

    copy = place_binaries(NOBODY, shelters=(shelter,), source=hidden / installed.name)

    assert copy.is_relative_to(shelter)
    assert is_reachable(copy / "bin" / "postgres", NOBODY)
    ran = subprocess.run(
        [copy / "bin" / "initdb", "--version"],
        **{"user": NOBODY.uid, "group": NOBODY.gid, "extra_groups": []},  # type: ignore[call-overload]
        capture_output=True,
        cwd="/",
    )
    assert ran.returncode == 0, ran.stderr
    born = (copy / "bin" / "postgres").stat().st_ino
    (copy / "share" / "postgres.bki").write_text("cut short")
    again = place_binaries(NOBODY, shelters=(shelter,), source=hidden / installed.name)
    assert (again / "bin" / "postgres").stat().st_ino != born
    once = (again / "bin" / "postgres").stat().st_ino
    third = place_binaries(NOBODY, shelters=(shelter,), source=hidden / installed.name)
    assert (third / "bin" / "postgres").stat().st_ino == once


async def test_killed_servers_come_back_on_their_ports(data: DataDirectory, shelter: Path) -> None:
    log, views = make_nats(data), make_postgres(data, shelter)
    supervisor = Supervisor([views, log], backoff=Backoff(first_s=0.05))
    await supervisor.start()
    before = (log.port, views.port, log.monitor_url)
    for _ in range(2):
        counts = supervisor.restarts
        assert log.pid is not None
        assert views.pid is not None
        os.kill(log.pid, signal.SIGKILL)
        os.kill(views.pid, signal.SIGKILL)
        async with asyncio.timeout(5):
            while any(supervisor.restarts[name] == counts[name] for name in counts):
                await asyncio.sleep(0.01)
        assert (log.port, views.port, log.monitor_url) == before
        assert await query(views, "SELECT 1") == [(1,)]
        await (await nats.connect(log.url("admin"))).close()
    await supervisor.stop()
    assert (log.pid, views.pid) == (None, None)


PARENT = """
    import asyncio, json, sys
    from pathlib import Path
    from loreline.embedded.directory import DataDirectory
    from loreline.embedded.nats import EmbeddedNats
    from loreline.embedded.nats_config import NatsUser
    from loreline.embedded.postgres import EmbeddedPostgres
    from loreline.embedded.runtime import Runtime

    async def main():
        data = DataDirectory.open(Path(sys.argv[1]))
        secrets = data.secrets()
        log = EmbeddedNats(data.nats, users=[NatsUser("admin", secrets.nats["admin"])], logs=data.logs)
        views = EmbeddedPostgres(
            data.postgres, password=secrets.postgres, logs=data.logs, shelters=(Path(sys.argv[2]),)
        )
        await asyncio.gather(log.start(), views.start())
        data.write_runtime(Runtime(pid=int(sys.argv[3]) or __import__("os").getpid(), url="http://127.0.0.1:9"))
        print(json.dumps([log.pid, views.pid]), flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
"""


def start_parent(path: Path, shelter: Path) -> tuple[subprocess.Popen[str], list[int]]:
    argv = [sys.executable, "-c", textwrap.dedent(PARENT), str(path), str(shelter), "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    return parent, json.loads(parent.stdout.readline())


@on_linux
async def test_a_killed_parent_leaves_no_orphan_and_the_next_start_carries_on(
    tmp_path: Path, shelter: Path
) -> None:
    path = tmp_path / ".loreline"
    parent, pids = start_parent(path, shelter)
    pids += children_of(pids[1])
    assert len(pids) > 3
    with pytest.raises(DataDirectoryBusy, match=rf"process {parent.pid} at http://127\.0\.0\.1:9\."):
        DataDirectory.open(path)
    parent.kill()
    parent.communicate()

    # At once: the servers of the killed parent may still be on their way out.
    with DataDirectory.open(path) as data:
        log, views = make_nats(data), make_postgres(data, shelter)
        await asyncio.gather(log.start(), views.start())
        assert living(pids, within_s=2.0) == []
        assert await query(views, "SELECT 1") == [(1,)]
        await views.stop()
        await log.stop()


@on_linux
def test_the_leash_refuses_a_parent_that_is_gone() -> None:
    leash = [sys.executable, "-I", "-S", str(LEASH)]
    ran = subprocess.run([*leash, "1", "15", "--", "/bin/echo", "never"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "parent process is gone" in ran.stderr


async def test_a_server_is_not_started_from_another_thread(data: DataDirectory) -> None:
    server = make_nats(data)
    with pytest.raises(ServerFailed, match="main thread"):
        await asyncio.to_thread(asyncio.run, server.start())


async def test_a_set_whose_server_is_killed_while_it_starts_comes_up(
    data: DataDirectory, shelter: Path
) -> None:
    server = make_postgres(data, shelter)
    supervisor = Supervisor([server])
    starting = asyncio.create_task(supervisor.start())
    while not (server.directory / "cluster.new" / "base").exists():
        await asyncio.sleep(0.002)
    for pid in children_of(os.getpid()):
        if b"initdb" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    await starting
    assert await query(server, "SELECT 1") == [(1,)]
    await supervisor.stop()
