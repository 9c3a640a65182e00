"""CreateTopics through librdkafka while the broker that it takes for the controller is dead.

    python -m benchmarks.dead_controller [--json] [--kafka] [--kafka-brokers] [--rounds 5]

A client with default settings creates topics one after the other; only its time-out of a request
is given. In each round the broker that Metadata told it is the controller is killed with SIGKILL
and started again after `--down` seconds. librdkafka keeps to the controller it was told of: it asks
for another one when it connects to a broker anew, not when a connection is lost, so a client that
is connected to two brokers waits until the dead one is back.

- slowest: the longest create that succeeded, from the kill on
- waited in vain: creates that ended with "Timed out waiting for controller"
- lost: creates that were on their way to the broker when it died
- hidden: from the kill until Metadata of another broker leaves the dead one out (its session ends)
- back: from the start of its process until Metadata of all brokers names it again

`--kafka-brokers`: three brokers of Kafka that follow three dedicated controllers, ours and then
Kafka's. Otherwise three combined nodes, ours and with `--kafka` Kafka's.
"""

import argparse
import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from typing_extensions import override

from benchmarks import report
from benchmarks.clusters.kafka_peer import KafkaCluster
from benchmarks.clusters.our_quorum import OurCluster
from benchmarks.clusters.protocol import ProtocolError
from benchmarks.clusters.split_cluster import SplitCluster
from benchmarks.clusters.typed_client import METADATA, TypedClient, metadata_request

BEFORE_S: Final = 2.0
AFTER_S: Final = 5.0
PAUSE_S: Final = 0.05
READY_S: Final = 180.0


class Target(Protocol):
    """A cluster whose brokers can be killed and started by id."""

    addresses: dict[int, str]

    def kill(self, node_id: int) -> None:
        """Send SIGKILL and return when the process is gone."""
        ...

    def start(self, node_id: int) -> None:
        """Start the node again."""


class OurTarget:
    """Combined kraftline nodes."""

    def __init__(self, cluster: OurCluster) -> None:
        self.addresses = dict(enumerate(cluster.brokers, 1))
        self._cluster = cluster

    def kill(self, node_id: int) -> None:
        """Kill the node with the script."""
        self._cluster.run("kill", str(node_id))

    def start(self, node_id: int) -> None:
        """Restart the node with the script, which waits until it serves."""
        self._cluster.run("restart", str(node_id))


class KafkaTarget:
    """Combined nodes of Kafka."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.addresses = dict(enumerate(cluster.brokers, 1))
        self._cluster = cluster

    def kill(self, node_id: int) -> None:
        """Send SIGKILL to its process."""
        self._cluster.stop(node_id)

    def start(self, node_id: int) -> None:
        """Start the node without waiting for it."""
        self._cluster.start(node_id)


class Creator(threading.Thread):
    """Client that creates topics in sequence until it is stopped."""

    def __init__(self, addresses: dict[int, str], prefix: str, timeout_s: float) -> None:
        super().__init__(daemon=True)
        bootstrap = ",".join(addresses.values())
        self.client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.ended: list[tuple[float, float, KafkaError | None]] = []
        """End of each create (monotonic), its duration in seconds, and its error."""
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._stop_asked = threading.Event()

    @override
    def run(self) -> None:
        """Create topics until stopped."""
        while not self._stop_asked.wait(PAUSE_S):
            name, begin, error = f"{self._prefix}-{len(self.ended)}", time.monotonic(), None
            wanted = self.client.create_topics(
                [NewTopic(name, 1, 1)], request_timeout=self._timeout_s
            )
            try:
                wanted[name].result()
            except KafkaException as failure:
                error = failure.args[0]
            now = time.monotonic()
            self.ended.append((now, now - begin, error))

    def stop(self) -> None:
        """Stop after the pending create."""
        self._stop_asked.set()
        self.join()


def brokers_in_metadata(address: str) -> set[int]:
    """Ids of the brokers in a broker's Metadata; empty if it does not answer."""
    with (
        contextlib.suppress(OSError, ProtocolError),
        contextlib.closing(TypedClient(address, timeout_s=2.0)) as client,
    ):
        answer = client.ask(METADATA, metadata_request([]))
        return {broker.node_id for broker in answer.brokers}
    return set()


def wait_for_brokers(target: Target, asked: set[int], wanted: set[int]) -> float:
    """Seconds until Metadata of each asked broker has exactly the wanted ones."""
    begin = time.monotonic()
    while any(brokers_in_metadata(target.addresses[id_]) != wanted for id_ in asked):
        if time.monotonic() > begin + READY_S:
            raise TimeoutError(f"not {wanted} within {READY_S} s")
        time.sleep(0.05)
    return time.monotonic() - begin


def play(target: Target, number: int, down_s: float, timeout_s: float) -> dict[str, Any]:
    """Run one round; returns the results of the creates from the kill on, and the two waits."""
    everybody = set(target.addresses)
    wait_for_brokers(target, everybody, everybody)
    creator = Creator(target.addresses, f"round{number}", timeout_s)
    creator.start()
    time.sleep(BEFORE_S)
    victim = creator.client.list_topics(timeout=timeout_s).controller_id
    killed = time.monotonic()
    target.kill(victim)
    hidden_s = wait_for_brokers(target, everybody - {victim}, everybody - {victim})
    time.sleep(max(0.0, killed + down_s - time.monotonic()))
    begin = time.monotonic()
    target.start(victim)
    wait_for_brokers(target, everybody, everybody)
    back_s = time.monotonic() - begin
    time.sleep(AFTER_S)
    creator.stop()
    ended = [row for row in creator.ended if row[0] >= killed]
    texts = [error.str() for _, _, error in ended if error is not None]
    return {
        "creates": len(ended),
        "slowest_s": max((took for _, took, error in ended if error is None), default=0.0),
        "waited in vain": sum("controller" in text for text in texts),
        "lost": sum("controller" not in text for text in texts),
        "hidden_s": hidden_s,
        "back_s": back_s,
    }


def measure(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """Run all rounds of one system."""
    rounds = [play(target, i, args.down, args.timeout) for i in range(args.rounds)]
    slowest = [row["slowest_s"] for row in rounds]
    return {
        "rounds": len(rounds),
        "slowest create of a round p50, s": round(statistics.median(slowest), 1),
        "slowest create, s": round(max(slowest), 1),
        "rounds with one that waited in vain": sum(row["waited in vain"] > 0 for row in rounds),
        "waited in vain": sum(row["waited in vain"] for row in rounds),
        "lost": sum(row["lost"] for row in rounds),
        "creates": sum(row["creates"] for row in rounds),
        "hidden p50, s": round(statistics.median(row["hidden_s"] for row in rounds), 1),
        "back p50, s": round(statistics.median(row["back_s"] for row in rounds), 1),
    }


@contextlib.contextmanager
def running(cluster: OurCluster | KafkaCluster | SplitCluster) -> Iterator[None]:
    """Start the cluster, and stop it at the end."""
    try:
        cluster.up()
        yield
    finally:
        cluster.down()


def systems(args: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Target]]:
    """Yield each system while it runs."""
    if args.kafka_brokers:
        for name, is_ours in (("kraftline", True), ("kafka", False)):
            split = SplitCluster(folder / name, args.base_port, is_ours=is_ours)
            with running(split):
                yield f"{name} quorum", split
        return
    ours = OurCluster(folder / "ours", args.base_port)
    with running(ours):
        yield "kraftline", OurTarget(ours)
    if args.kafka:
        kafka = KafkaCluster(folder / "kafka", args.base_port + 10)
        with running(kafka):
            yield "kafka", KafkaTarget(kafka)


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="combined nodes of Kafka after ours")
    flags.add_argument("--kafka-brokers", action="store_true", help="brokers of Kafka, see above")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--down", type=float, default=15.0, help="seconds a broker stays dead")
    flags.add_argument("--timeout", type=float, default=30.0, help="seconds a create may take")
    flags.add_argument("--base-port", type=int, default=27400)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = {system: measure(target, args) for system, target in systems(args, Path(name))}
    report.show("dead_controller", rows, as_json=args.json)


if __name__ == "__main__":
    main()
