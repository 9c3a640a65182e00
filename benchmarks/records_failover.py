"""The leader of many partitions dies under load: the time in which they take no write.

    python -m benchmarks.records_failover [--json] [--kafka] [--partitions 1000] [--rounds 3]

Three nodes; one that is not the active controller leads every partition of a topic with three
replicas. Twenty producers with acks=all have a record on its way in each partition at any time; the
leader is killed with SIGKILL.

- window: from the kill until a record of the partition is acknowledged again
- decided: the same from the decision, which is the append time of the first change of a leader
- detect: from the kill until the decision; the session of the dead broker, 9 s after its heartbeat
- load: acknowledged per second before the kill
"""

import os
import signal
import sys
import time
from typing import Any, Final

from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks import report
from benchmarks.clusters.fake_brokers import Tail
from benchmarks.clusters.protocol import wait_until_writable
from benchmarks.clusters.systems import started_systems
from benchmarks.clusters.typed_client import TypedClient, create_assigned, delete_topics, wait_until
from benchmarks.failover import KafkaTarget, OurTarget, target_of
from benchmarks.records_load import LOG_LEVEL, TIMEOUT_S
from metadata.loader import committed_batches
from metadata.records import PartitionChangeRecord

WARM_S: Final = 5.0
AFTER_S: Final = 180.0
HOME_TRIES: Final = 5
"""Elections of the preferred leader, where a broker was fenced while its machine was overloaded."""
PRODUCERS: Final = 20
"""A broker answers one Produce of a connection after the other, and librdkafka's have one partition
each: the partitions of one producer wait for each other."""
NO_CHANGE: Final = -2
"""Leader of a change that leaves it."""
VALUE: Final = os.urandom(100)


class Writer:
    """Producers that have one record on its way in each partition; they know when each got through.

    Args:
        bootstrap: addresses of the brokers.
        name: of the topic.
        partitions: of the topic.
    """

    def __init__(self, bootstrap: str, name: str, partitions: int) -> None:
        self.acknowledged: list[list[float]] = [[] for _ in range(partitions)]
        """Instants (`_now()`) at which records were acknowledged, by partition."""
        self._name = name
        self._errors: list[object] = []
        config = {
            "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0,
            "message.timeout.ms": int(1000 * (WARM_S + AFTER_S)),
            "retry.backoff.ms": 10, "retry.backoff.max.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 20, "log_level": LOG_LEVEL,
        }  # fmt: skip
        self._producers = [Producer(config) for _ in range(PRODUCERS)]
        for partition in range(partitions):
            self._send(partition)

    def _send(self, partition: int) -> None:
        producer = self._producers[partition % PRODUCERS]
        producer.produce(self._name, VALUE, partition=partition, on_delivery=self._on_delivery)

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is not None:
            self._errors.append(error)
            return
        partition = message.partition()
        self.acknowledged[partition].append(_now())
        self._send(partition)

    def run(self, seconds: float) -> None:
        """Write for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for producer in self._producers:
                producer.poll(0.002)
        assert not self._errors, self._errors[0]

    def run_until_all(self, after: float, seconds: float) -> None:
        """Write until each partition had an acknowledgement later than an instant."""
        end = time.monotonic() + seconds
        while silent := sum(not each or each[-1] <= after for each in self.acknowledged):
            assert time.monotonic() < end, f"{silent} partitions take no writes"
            self.run(0.2)

    def close(self) -> None:
        """Give up what is on its way."""
        for producer in self._producers:
            producer.purge()


def _now() -> float:
    """Wall clock, with which the controller stamps its batches; in seconds."""
    return time.time_ns() / 1e9


def resumed(instants: list[float], killed_at: float) -> float:
    """Instant of the acknowledgement that ended the longest silence after a kill.

    Responses that the leader had sent before it died still arrive for a moment.
    """
    later = [killed_at, *(each for each in instants if each > killed_at)]
    assert len(later) > 1, "no acknowledgement after the kill"
    gap = max(range(1, len(later)), key=lambda index: later[index] - later[index - 1])
    return later[gap]


def decision(tail: Tail, killed_at: float) -> float | None:
    """Append time of the first change of a leader after a kill, as the controller stamped it."""
    for _, content in list(tail.arrivals):
        for batch in committed_batches(content):
            at = batch.timestamp_ms / 1000
            if at > killed_at and any(
                isinstance(record, PartitionChangeRecord) and record.leader != NO_CHANGE
                for record in batch.records
            ):
                return at
    return None


def wait_in_sync(bootstrap: str, name: str, replicas: int) -> None:
    """Wait until every partition of a topic has a leader and that many replicas in sync."""
    admin = _admin(bootstrap)

    def is_in_sync() -> bool:
        found = _partitions(admin, name)
        return all(len(each.isrs) == replicas and each.leader >= 0 for each in found)

    wait_until(is_in_sync, AFTER_S, f"replicas of {name} in sync")


def bring_home(writer: Writer, bootstrap: str, name: str, leader: int) -> None:
    """Write for some time, and again after an election as long as another node leads something."""
    admin = _admin(bootstrap)
    for _ in range(HOME_TRIES):
        writer.run(WARM_S)
        away = [each.id for each in _partitions(admin, name) if each.leader != leader]
        if not away:
            return
        print(f"{len(away)} partitions left node {leader}: elected back", file=sys.stderr)
        moved = [TopicPartition(name, partition) for partition in away]
        admin.elect_leaders(ElectionType.PREFERRED, moved).result()
    raise RuntimeError(f"node {leader} does not keep its partitions: the machine is overloaded")


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL})


def _partitions(admin: AdminClient, name: str) -> list[Any]:
    return list(admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions.values())


def one_round(
    target: OurTarget | KafkaTarget, brokers: list[str], partitions: int
) -> dict[str, Any]:
    """Windows of all partitions around one kill, in seconds, and the figures beside them."""
    active = wait_until_writable(target.controllers)
    nodes = range(1, len(brokers) + 1)
    leader = next(node for node in nodes if target.controllers[node - 1] != active)
    others = [node for node in nodes if node != leader]
    name, client, tail = f"failover-{time.time_ns()}", TypedClient(active), Tail(active)
    tail.start()
    rows = [(leader, *(others if index % 2 else others[::-1])) for index in range(partitions)]
    create_assigned(client, {name: rows})
    bootstrap = ",".join(brokers)
    wait_in_sync(bootstrap, name, len(brokers))
    writer = Writer(bootstrap, name, partitions)
    writer.run_until_all(0, AFTER_S)
    bring_home(writer, bootstrap, name, leader)
    pid = target.pid(leader)
    killed_at = _now()
    os.kill(pid, signal.SIGKILL)
    writer.run_until_all(killed_at + 1, AFTER_S)
    writer.run(1.0)
    decided_at = decision(tail, killed_at)
    assert decided_at is not None, f"no leader moved: had they before the kill? {tail.error}"
    tail.stop()
    writer.close()
    ends = [resumed(each, killed_at) for each in writer.acknowledged]
    before = sum(killed_at - WARM_S < at < killed_at for each in writer.acknowledged for at in each)
    target.start(leader)
    wait_in_sync(bootstrap, name, len(brokers))
    delete_topics(client, [name])
    client.close()
    return {
        "window": [each - killed_at for each in ends],
        "decided": [each - decided_at for each in ends],
        "detect": decided_at - killed_at,
        "load": before / WARM_S,
    }


def measure(
    target: OurTarget | KafkaTarget, brokers: list[str], partitions: int, rounds: int
) -> dict[str, Any]:
    """Windows over all rounds, in ms."""
    found = [one_round(target, brokers, partitions) for _ in range(rounds)]
    figures: dict[str, Any] = {}
    for name in ("window", "decided"):
        summary = report.summary_ms([each for one in found for each in one[name]])
        figures |= {f"{name}_{figure}": value for figure, value in summary.items()}
    figures["detect_max_ms"] = round(1000 * max(one["detect"] for one in found), 1)
    figures["load_per_s"] = round(min(one["load"] for one in found))
    return figures


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--partitions", type=int, default=1_000)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--base-port", type=int, default=25300)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with started_systems(args.base_port, with_kafka=args.kafka) as systems:
        for system, cluster in systems:
            rows[system] = measure(
                target_of(cluster), cluster.brokers, args.partitions, args.rounds
            )
            report.measured(system, rows[system])
        report.show("records_failover", rows, as_json=args.json)


if __name__ == "__main__":
    main()
