"""Servers in containers, where a Docker engine answers; tests that need one skip aloud elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NATS_IMAGE = "nats:2.12-alpine"


def require_docker() -> None:
    """Skip the test, saying why, unless a Docker engine answers."""
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("there is no docker here: the container lane needs a Docker engine")
    done = subprocess.run([docker, "info"], capture_output=True, timeout=20, check=False)
    if done.returncode != 0:
        pytest.skip("no Docker engine answers here: the container lane needs one")


@contextmanager
def nats_container() -> Iterator[str]:
    """The address of a JetStream server in a container of its own."""
    require_docker()
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.waiting_utils import wait_for_logs

    container = DockerContainer(NATS_IMAGE).with_command("-js -sd /data").with_exposed_ports(4222)
    with container as running:
        wait_for_logs(running, "Server is ready", timeout=30)
        yield f"nats://{running.get_container_host_ip()}:{running.get_exposed_port(4222)}"
