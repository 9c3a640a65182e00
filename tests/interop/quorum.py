"""Clusters for the interop tests, started by the script that users start theirs with."""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "scripts" / "quorum"
CONTROLLER_PORT_DISTANCE = 1000
PORTS_PER_CLUSTER = 10
PORT_BLOCKS = (20000, 23000, 26000, 29000)
"""Each of three thousands: of Kafka, controller and HTTP listeners; below the ephemeral ports."""


def free_base_port(count: int = 3) -> int:
    """A base port at which `count` Kafka, controller and HTTP listeners can be opened.

    It stays reserved for this process by a lock on a file, so that test runs side by side do not
    take each other's ports while a node is down.
    """
    assert count <= PORTS_PER_CLUSTER
    folder = Path(tempfile.gettempdir()) / f"kraftline-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for block in PORT_BLOCKS:
        for base in range(block, block + CONTROLLER_PORT_DISTANCE, PORTS_PER_CLUSTER):
            reservation = os.open(folder / str(base), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(reservation, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(reservation)
                continue
            ports = [base + kind * CONTROLLER_PORT_DISTANCE + i
                     for kind in range(3) for i in range(count)]  # fmt: skip
            if all(_is_free(port) for port in ports):
                return base  # the file stays open, hence locked, until this process ends
            os.close(reservation)
    raise AssertionError("no free ports for a test cluster")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Quorum:
    """A cluster in a folder, worked by `scripts/quorum`."""

    def __init__(self, folder: Path, *, base_port: int | None = None) -> None:
        self.folder = folder
        self.base_port = base_port or free_base_port()

    def run(self, *words: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run the script; `expect` is the exit code wanted, None for any."""
        command = [sys.executable, str(SCRIPT), words[0], "--dir", str(self.folder), *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if expect is not None:
            assert done.returncode == expect, (
                f"{words}: {done.returncode} {done.stdout}{done.stderr}{self.logs()}"
            )
        return done

    def logs(self) -> str:
        """The last lines of every node's log, for a failure message."""
        return "".join(
            f"\n--- {log}\n{log.read_text(errors='replace')[-1500:]}"
            for log in sorted(self.folder.rglob("*.log"))
            if not log.name.startswith("0")
        )

    def up(self, *words: str) -> dict[str, Any]:
        """Start (or restart) everything."""
        self.run("up", "--base-port", str(self.base_port), *words)
        return self.status()

    def status(self) -> dict[str, Any]:
        """The object of `status --json`, healthy or not."""
        done = self.run("status", "--json", expect=None)
        assert done.returncode in (0, 3), done.stderr
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def node(self, node_id: int) -> dict[str, Any]:
        """One row of the status."""
        return next(node for node in self.status()["nodes"] if node["id"] == node_id)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return ",".join(f"127.0.0.1:{self.base_port + i}" for i in range(3))

    def wait_healthy(self, seconds: float = 20) -> dict[str, Any]:
        """Wait until there is a leader, all nodes live and no voter lags."""
        status: dict[str, Any] = {}

        def healthy() -> bool:
            nonlocal status
            done = self.run("status", "--json", expect=None)
            if done.returncode != 0:
                return False
            status = json.loads(done.stdout)
            return all(node["lag"] == 0 for node in status["nodes"])

        wait_until(healthy, seconds, lambda: f"not healthy: {status}{self.logs()}")
        return status

    def metadata_log(self, node_id: int) -> Path:
        """The folder of a node's metadata log."""
        (folder,) = [
            p
            for p in self.folder.rglob("__cluster_metadata-0")
            if json.loads(json.dumps(_node_id_of(p))) == node_id
        ]
        return folder


def _node_id_of(log_folder: Path) -> int:
    text = (log_folder.parent / "meta.properties").read_text()
    return int(
        next(line for line in text.splitlines() if line.startswith("node.id=")).split("=")[1]
    )


def wait_until(condition: Callable[[], bool], seconds: float, message: Callable[[], str]) -> None:
    """Poll a condition of other processes."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message()
        time.sleep(0.05)


@contextlib.contextmanager
def running(folder: Path, *words: str) -> Iterator[Quorum]:
    """A cluster that is down again at the end, whatever happens."""
    quorum = Quorum(folder)
    try:
        quorum.up(*words)
        yield quorum
    finally:
        quorum.run("down", expect=None)
