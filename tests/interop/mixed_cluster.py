"""Clusters whose nodes are ours or Apache Kafka's, each on a folder that both can open."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.clusters import kafka_peer
from tests.interop.quorum import CONTROLLER_PORT_DISTANCE, free_base_port, wait_until

ROOT: Final = Path(__file__).parents[2]
CLUSTER_ID: Final = "Z29sZGVuLXNoYXJlZC0wMQ"
START_SECONDS: Final = 180.0
"""Until a node is back in sync: a JVM on a machine that is busy with others takes a minute."""

Software = Literal["ours", "kafka"]
NOTHING: Final[Mapping[str, str]] = {}


class MixedCluster:
    """Combined nodes 1..n; formatted by ours, at the feature levels that ours serves."""

    def __init__(
        self, folder: Path, count: int, log_dirs: int = 1, properties: Mapping[str, str] = NOTHING
    ) -> None:
        self.folder = folder
        self._log_dirs = log_dirs
        self._properties = properties
        base = free_base_port(count)
        self._ports = {node_id: base + node_id - 1 for node_id in range(1, count + 1)}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        for node_id in self._ports:
            self._format(node_id)

    def _format(self, node_id: int) -> None:
        voters = ",".join(
            f"{i}@127.0.0.1:{port + CONTROLLER_PORT_DISTANCE}" for i, port in self._ports.items()
        )
        port = self._ports[node_id]
        lines = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},"
            f"CONTROLLER://127.0.0.1:{port + CONTROLLER_PORT_DISTANCE}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": ",".join(map(str, self.log_dirs(node_id))),
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **self._properties,
        }
        home = self.folder / f"node{node_id}"
        home.mkdir(parents=True)
        properties = home / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        words = "storage", "format", "-t", CLUSTER_ID, "-c", str(properties)
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *words],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"

    def log_dirs(self, node_id: int) -> list[Path]:
        """The log directories of a node; its metadata are in the first."""
        return [self.folder / f"node{node_id}" / f"data{n or ''}" for n in range(self._log_dirs)]

    def data(self, node_id: int) -> Path:
        """The first log directory of a node."""
        return self.log_dirs(node_id)[0]

    def output(self, node_id: int) -> str:
        """The output of a node since its last start."""
        return (self.folder / f"node{node_id}" / "node.log").read_text(errors="replace")

    def outputs(self) -> str:
        """The last lines of every node, for a failure message."""
        return "".join(
            f"\n--- {node_id}\n{self.output(node_id)[-3000:]}" for node_id in self._ports
        )

    def start(self, node_id: int, software: Software) -> None:
        """Start a node without waiting for it."""
        home = self.folder / f"node{node_id}"
        properties, log = home / "server.properties", home / "node.log"
        log.unlink(missing_ok=True)
        if software == "kafka":
            self._running[node_id] = kafka_peer.start_node(properties, log)
            return
        command = [sys.executable, "-m", "cli.main", "server", "start", str(properties)]
        with log.open("wb") as out:
            self._running[node_id] = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out)

    def stop(self, node_id: int, sent: signal.Signals) -> None:
        """Signal a node and wait for its end."""
        self._running[node_id].send_signal(sent)
        self._running[node_id].wait(60)
        del self._running[node_id]

    def create(self, topic: str, replicas: Mapping[int, list[int]], **configs: str) -> None:
        """Create a topic, its replicas placed by partition."""
        wait_until(lambda: self._are_live(replicas), START_SECONDS, self.outputs)
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        assignment = [replicas[partition] for partition in sorted(replicas)]
        new = NewTopic(topic, len(replicas), replica_assignment=assignment, config=settings)
        self.admin.create_topics([new])[topic].result(timeout=30)

    def _are_live(self, replicas: Mapping[int, list[int]]) -> bool:
        wanted = {node_id for each in replicas.values() for node_id in each}
        try:
            return wanted <= set(self.admin.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def wait_in_sync(self, topic: str, count: int) -> None:
        """Wait until every partition has a leader and `count` replicas in sync."""
        seen: dict[int, tuple[int, list[int]]] = {}

        def is_in_sync() -> bool:
            nonlocal seen
            try:
                found = self.admin.list_topics(topic, timeout=1).topics[topic]
            except KafkaException:
                return False
            seen = {number: (each.leader, each.isrs) for number, each in found.partitions.items()}
            return bool(seen) and all(
                leader > 0 and len(isr) == count for leader, isr in seen.values()
            )

        wait_until(is_in_sync, START_SECONDS, lambda: f"leaders and ISRs {seen}{self.outputs()}")

    def wait_fenced(self, topic: str, victim: int) -> None:
        """Wait until a dead node leads nothing and is in no ISR."""

        def is_fenced() -> bool:
            try:
                found = self.admin.list_topics(topic, timeout=1).topics[topic]
            except KafkaException:
                return False
            partitions = found.partitions.values()
            return bool(partitions) and all(
                each.leader not in (-1, victim) and victim not in each.isrs for each in partitions
            )

        wait_until(is_fenced, START_SECONDS, self.outputs)

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition."""
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions
        return {partition: each.leader for partition, each in found.items()}

    def log_bytes(self, node_id: int, topic: str, partition: int) -> bytes:
        """All segments of a replica, one after the other."""
        folders = [path / f"{topic}-{partition}" for path in self.log_dirs(node_id)]
        segments = [segment for folder in folders for segment in sorted(folder.glob("*.log"))]
        return b"".join(segment.read_bytes() for segment in segments)

    def down(self) -> None:
        """End every node."""
        for process in self._running.values():
            process.kill()
            process.wait(30)


@contextlib.contextmanager
def mixed_cluster(
    folder: Path,
    softwares: Mapping[int, Software],
    *,
    log_dirs: int = 1,
    properties: Mapping[str, str] = NOTHING,
) -> Iterator[MixedCluster]:
    """A cluster with these nodes started; they end whatever happens."""
    cluster = MixedCluster(folder, len(softwares), log_dirs, properties)
    try:
        for node_id, software in softwares.items():
            cluster.start(node_id, software)
        yield cluster
    finally:
        cluster.down()


def complaints(output: str) -> list[str]:
    """Lines of a node of ours at WARN or above.

    A killed broker's registration is refused while its old session lasts: no damage.
    """
    found = []
    for line in output.splitlines():
        entry = json.loads(line) if line.startswith("{") else {"level": "ERROR", "event": line}
        if entry["level"] in ("WARN", "ERROR") and "duplicate_broker_registration" not in line:
            found.append(line)
    return found
