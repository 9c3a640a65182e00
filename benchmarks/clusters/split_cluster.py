"""Dedicated controllers, kraftline's or Kafka's, and brokers of Kafka, on loopback."""

import signal
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.clusters.kafka_peer import CLUSTER_ID, format_node, start_node
from benchmarks.clusters.our_quorum import OurCluster
from benchmarks.clusters.protocol import wait_for_leader

CONTROLLERS: Final = (1, 2, 3)
BROKERS: Final = (101, 102, 103)
RELEASE: Final = "3.9-IV0"
"""Metadata version of Kafka's controllers: the same as ours, so that the brokers behave alike."""
START_S: Final = 120.0


class SplitCluster:
    """Three controllers and three brokers of Kafka in a folder; the brokers can be killed."""

    def __init__(self, folder: Path, base_port: int, *, is_ours: bool) -> None:
        self.folder = folder
        self.addresses = {id_: f"127.0.0.1:{base_port + i}" for i, id_ in enumerate(BROKERS)}
        self.brokers = list(self.addresses.values())
        self.controllers = [f"127.0.0.1:{base_port + 1000 + i}" for i in range(3)]
        self._ours = OurCluster(folder / "ours", base_port) if is_ours else None
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def up(self) -> None:
        """Format and start all; returns when a controller leads, brokers may still register."""
        self.folder.mkdir(parents=True)
        cluster_id = CLUSTER_ID
        if self._ours is not None:
            self._ours.up("--nodes", "3", "--brokers", "0")
            cluster_id = self._ours.status()["cluster_id"]
        for node_id in BROKERS if self._ours else (*CONTROLLERS, *BROKERS):
            format_node(self._properties(node_id), cluster_id, "--release-version", RELEASE)
            self.start(node_id)
        wait_for_leader(self.controllers, START_S)

    def start(self, node_id: int) -> None:
        """Start a node of Kafka without waiting for it."""
        home = self._home(node_id)
        self._processes[node_id] = start_node(home / "server.properties", home / "node.log")

    def kill(self, node_id: int) -> None:
        """SIGKILL a node of Kafka and wait for its end."""
        self._processes[node_id].send_signal(signal.SIGKILL)
        self._processes[node_id].wait(60)

    def down(self) -> None:
        """End every node."""
        for process in self._processes.values():
            process.kill()
            process.wait(60)
        if self._ours is not None:
            self._ours.down()

    def _home(self, node_id: int) -> Path:
        return self.folder / f"node{node_id}"

    def _properties(self, node_id: int) -> Path:
        home = self._home(node_id)
        home.mkdir()
        is_controller = node_id in CONTROLLERS
        voters = ",".join(f"{i}@{a}" for i, a in zip(CONTROLLERS, self.controllers, strict=True))
        address = self.controllers[node_id - 1] if is_controller else self.addresses[node_id]
        lines = {
            "process.roles": "controller" if is_controller else "broker",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://{address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(home / "data"),
        }
        properties = home / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return properties
