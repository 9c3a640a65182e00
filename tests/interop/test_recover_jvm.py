"""Kafka's controllers on folders that `kraftline recover` made the only voter's.

The folders are recorded ones of Kafka, of three voters: dynamic ones and static ones.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.clusters import kafka_peer
from benchmarks.clusters.protocol import ProtocolError, leader_of
from tests.interop.quorum import free_base_port, wait_until
from tests.interop.test_dynamic_voters_jvm import TOOL, ours, status

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "storage"
OTHER = "MTIzNDU2Nzg5MDEyMzQ1Ng"


class Recovered:
    """Folders of nodes, and Kafka's processes on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        base = free_base_port(4)
        self.ports = {node_id: base + node_id for node_id in (1, 2, 3)}
        self.address = f"127.0.0.1:{self.ports[1]}"
        self.running: list[subprocess.Popen[bytes]] = []

    def put(self, recorded: str, node_id: int) -> None:
        shutil.copytree(GOLDEN / recorded, self.folder / f"n{node_id}")
        for each in (self.folder / f"n{node_id}").rglob("*"):
            each.chmod(0o755 if each.is_dir() else 0o644)

    def configure(self, node_id: int, quorum: str) -> Path:
        path = self.folder / f"node{node_id}.properties"
        path.write_text(
            f"process.roles=controller\nnode.id={node_id}\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={self.folder}/n{node_id}\n"
            f"listeners=CONTROLLER://127.0.0.1:{self.ports[node_id]}\n"
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT\n{quorum}\n"
        )
        return path

    def start(self, node_id: int) -> None:
        properties = self.folder / f"node{node_id}.properties"
        log = self.folder / f"node{node_id}.out"
        self.running.append(kafka_peer.start_node(properties, log, heap="256m"))

    def is_led(self) -> bool:
        try:
            return leader_of(self.address, timeout_s=1.0)[0] == 1
        except (OSError, ProtocolError):
            return False

    def status(self) -> dict[str, object]:
        at = ("--bootstrap-controller", self.address)
        return status(kafka_peer.tool(TOOL, *at, "describe", "--status"))

    def output(self, node_id: int) -> str:
        return (self.folder / f"node{node_id}.out").read_text(errors="replace")


def ids(told: dict[str, object], name: str) -> list[int]:
    rows = told[name]
    assert isinstance(rows, list)
    return [row["id"] for row in rows]


@pytest.fixture
def recovered(tmp_path: Path) -> Iterator[Recovered]:
    found = Recovered(tmp_path)
    try:
        yield found
    finally:
        for process in found.running:
            process.kill()
            process.wait(30)


@pytest.mark.jvm
@pytest.mark.parametrize("recorded", ["kraft-upgrade/n1", "static"])
def test_a_controller_of_kafka_starts_on_a_recovered_folder(
    recorded: str, recovered: Recovered
) -> None:
    is_static = recorded == "static"
    voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in recovered.ports.items())
    bootstrap = f"controller.quorum.bootstrap.servers={recovered.address}"
    recovered.put(recorded, 1)
    config = recovered.configure(1, f"controller.quorum.voters={voters}")
    words = ("recover", "apply", "-c", str(config), "--accept-data-loss")
    done = ours(*words, *(("--cluster-id", OTHER) if is_static else ()))
    assert done.returncode == 0, done.stderr
    alone = f"controller.quorum.voters=1@{recovered.address}"
    recovered.configure(1, alone if is_static else bootstrap)
    recovered.start(1)
    wait_until(recovered.is_led, 120, lambda: recovered.output(1)[-3000:])
    told = recovered.status()
    assert (told["ClusterId"] == OTHER) is is_static
    assert int(str(told["LeaderEpoch"])) > 1000
    assert ids(told, "CurrentVoters") == [1]
    if is_static:
        return
    recovered.put("kraft-upgrade/n2", 2)  # it comes back as it was, a voter of three
    recovered.configure(2, bootstrap)
    recovered.start(2)
    wait_until(lambda: ids(recovered.status(), "CurrentObservers") == [2], 120,
               lambda: recovered.output(2)[-3000:])  # fmt: skip
    assert ids(recovered.status(), "CurrentVoters") == [1]
