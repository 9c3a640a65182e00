"""The window without writes when the leader goes: SIGKILL and SIGTERM.

    python -m benchmarks.failover [--json] [--kafka] [--rounds 20]
    python -m benchmarks.failover --controllers HOST:PORT,... --restart 'command with {id}'

From the answer of the last create that succeeded to the answer of the first one after. The writer
asks all controllers in turn, as soon as one refuses or closes; the killed node is restarted and has
caught up before the next round.
"""

import os
import shlex
import signal
import subprocess
import time
from typing import Any, Protocol

from benchmarks import report
from benchmarks.clusters import protocol
from benchmarks.clusters.kafka_peer import KafkaCluster
from benchmarks.clusters.our_quorum import OurCluster
from benchmarks.clusters.processes import listener_pid
from benchmarks.clusters.systems import Cluster, started_systems


class Target(Protocol):
    """A cluster whose nodes can be stopped and started by id."""

    controllers: list[str]

    def pid(self, node_id: int) -> int:
        """Return the process id of a running node; called before the window begins."""
        ...

    def start(self, node_id: int) -> None:
        """Start the node again."""


class OurTarget:
    """A kraftline cluster, controlled by the script."""

    def __init__(self, cluster: OurCluster) -> None:
        self.controllers = cluster.controllers
        self._cluster = cluster

    def pid(self, node_id: int) -> int:
        """Return the process id in the script's status."""
        nodes = self._cluster.status()["nodes"]
        return int(next(node["pid"] for node in nodes if node["id"] == node_id))

    def start(self, node_id: int) -> None:
        """Restart the node."""
        self._cluster.run("restart", str(node_id))


class KafkaTarget:
    """A Kafka cluster started by this benchmark."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.controllers = cluster.controllers
        self._cluster = cluster

    def pid(self, node_id: int) -> int:
        """Return the process id of the started node."""
        return self._cluster.pid(node_id)

    def start(self, node_id: int) -> None:
        """Wait for the end of the old process, then start the node."""
        self._cluster.stop(node_id)
        self._cluster.start(node_id)


def target_of(cluster: Cluster) -> OurTarget | KafkaTarget:
    """The target that a started cluster is."""
    return OurTarget(cluster) if isinstance(cluster, OurCluster) else KafkaTarget(cluster)


class GivenTarget:
    """Local processes behind addresses; a command of the user starts one again."""

    def __init__(self, controllers: list[str], restart: str) -> None:
        self.controllers = controllers
        self._restart = restart

    def pid(self, node_id: int) -> int:
        """Return the process that listens at the leader's address."""
        del node_id
        return listener_pid(protocol.find_leader(self.controllers))

    def start(self, node_id: int) -> None:
        """Run the command, which itself waits for the end of the old process."""
        subprocess.run(shlex.split(self._restart.format(id=node_id)), check=True)


class Writer:
    """Client that creates topics in sequence at the controller that leads."""

    def __init__(self, controllers: list[str], prefix: str) -> None:
        self._controllers = controllers
        self._prefix = prefix
        self._number = 0
        self._connection: protocol.Connection | None = None

    def create(self) -> bool:
        """Try to create one topic; False if the controller does not lead or is gone."""
        self._number += 1
        try:
            if self._connection is None:
                address = self._controllers[self._number % len(self._controllers)]
                self._connection = protocol.Connection(address, timeout_s=1.0)
            body = protocol.create_topics_frame([f"{self._prefix}{self._number}"])
            protocol.check_created(self._connection.call(protocol.CREATE_TOPICS, 7, body))
        except (OSError, protocol.ProtocolError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return False
        return True

    def until_created(self, seconds: float = 30.0) -> float:
        """Retry until one succeeds; returns the instant of its answer (perf_counter, seconds)."""
        deadline = time.perf_counter() + seconds
        while not self.create():
            assert time.perf_counter() < deadline, "no create succeeded"
            time.sleep(0.001)
        return time.perf_counter()


def window(target: Target, prefix: str, sent: signal.Signals) -> float:
    """Seconds without a successful create around one signal to the leader."""
    leader_address = protocol.wait_until_writable(target.controllers)
    leader_id, _, _ = protocol.leader_of(leader_address)
    pid = target.pid(leader_id)
    writer = Writer(target.controllers, prefix)
    last = writer.until_created()
    for _ in range(20):
        last = writer.until_created()
    os.kill(pid, sent)
    worst, end = 0.0, time.perf_counter() + 1.0
    while (now := writer.until_created()) < end:
        worst, last = max(worst, now - last), now
    worst = max(worst, now - last)
    target.start(leader_id)
    protocol.wait_for_leader(target.controllers)
    time.sleep(1.0)  # the restarted node catches up
    return worst


def measure(target: Target, rounds: int) -> dict[str, Any]:
    """Medians and maxima of the windows for both signals."""
    figures: dict[str, Any] = {}
    for name, sent in (("sigkill", signal.SIGKILL), ("sigterm", signal.SIGTERM)):
        windows = [window(target, f"{name}-{i}-", sent) for i in range(rounds)]
        summary = report.summary_ms(windows)
        figures[f"{name}_p50_ms"] = summary["p50_ms"]
        figures[f"{name}_max_ms"] = summary["max_ms"]
    return figures


def main() -> None:
    """Measure kraftline, and Kafka if the flags ask for it."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--controllers", help="measure these local nodes: host:port,...")
    flags.add_argument("--restart", help="command that starts node {id} of them again")
    flags.add_argument("--rounds", type=int, default=20)
    flags.add_argument("--base-port", type=int, default=25200)
    args = flags.parse_args()
    if (args.controllers is None) != (args.restart is None):
        flags.error("--controllers and --restart belong together")
    rows: dict[str, dict[str, Any]] = {}
    if args.controllers:
        given = GivenTarget(args.controllers.split(","), args.restart)
        rows["given"] = measure(given, args.rounds)
        report.show("failover", rows, as_json=args.json)
        return
    with started_systems(args.base_port, with_kafka=args.kafka) as systems:
        for system, cluster in systems:
            rows[system] = measure(target_of(cluster), args.rounds)
        report.show("failover", rows, as_json=args.json)


if __name__ == "__main__":
    main()
