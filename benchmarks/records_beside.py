"""The controller beside full produce load: CreateTopics and its failover, idle and then loaded.

    python -m benchmarks.records_beside [--json] [--kafka] [--count 500] [--rounds 8]
        [--mb-per-s 30]

Three combined nodes. A process of its own fills batches of 1 MB in eight partitions with three
replicas and acks=all, as much as is taken, as in benchmarks.records; with --mb-per-s no more than
that, so that two systems can be compared beside one load. Topics are created one after
the other at the active controller, and the controller is killed with SIGKILL as in
benchmarks.failover, first without and then beside that load. `x` is a figure beside the load, in
those of the idle cluster.
"""

import signal
import time
from contextlib import AbstractContextManager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks import records_load as load
from benchmarks import report
from benchmarks.clusters.processes import cpu_seconds, waited_seconds
from benchmarks.clusters.protocol import wait_until_writable
from benchmarks.clusters.systems import started_systems
from benchmarks.clusters.typed_client import wait_until
from benchmarks.create_topics import WARM_COUNT, sequential
from benchmarks.failover import KafkaTarget, OurTarget, target_of, window
from benchmarks.records_failover import wait_in_sync

PARTITIONS: Final = 8
LARGE_BYTES: Final = 1024
WARM_S: Final = 3.0
READY_S: Final = 60.0


class Appended:
    """The records that a topic holds, by its high watermarks."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._name = name
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "measure", "log_level": load.LOG_LEVEL}
        )

    def records(self) -> int:
        """Sum over the partitions."""
        return sum(map(self._end_of, range(PARTITIONS)))

    def _end_of(self, partition: int) -> int:
        """The high watermark; a leader that has just moved is asked again."""
        place, deadline = TopicPartition(self._name, partition), time.monotonic() + READY_S
        while True:
            try:
                return int(self._consumer.get_watermark_offsets(place, load.TIMEOUT_S)[1])
            except KafkaException:
                assert time.monotonic() < deadline, f"partition {partition} has no leader"
                time.sleep(0.05)

    def wait_for_more(self) -> None:
        """Wait until the load has come, and let it go on for a while."""
        begin = self.records()
        wait_until(lambda: self.records() > begin, READY_S, "records of the load")
        time.sleep(WARM_S)

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def creates(controllers: list[str], count: int) -> dict[str, float]:
    """Latency of creates in sequence at the active controller, and the client's waits for a core.

    The client shares the cores with the load: what it waits there is no part of the node's time.
    """
    address, waited = wait_until_writable(controllers), waited_seconds()
    found = sequential(address, f"create-{time.time_ns()}-", count)
    return found | {
        "client_wait_ms": round(1000 * (waited_seconds() - waited) / (WARM_COUNT + count), 3)
    }


def failovers(target: OurTarget | KafkaTarget, rounds: int) -> list[float]:
    """Windows without creates around SIGKILL of the controller, in seconds."""
    return [window(target, f"failover-{time.time_ns()}-", signal.SIGKILL) for _ in range(rounds)]


def failovers_beside(
    target: OurTarget | KafkaTarget, bootstrap: str, name: str, rounds: int, mb_per_s: float
) -> list[float]:
    """The same, each beside a load that begins when all replicas are in sync."""
    found: list[float] = []
    appended = Appended(bootstrap, name)
    for _ in range(rounds):
        wait_in_sync(bootstrap, name, len(target.controllers))
        with producing(bootstrap, name, mb_per_s):
            appended.wait_for_more()
            found += failovers(target, 1)
    appended.close()
    return found


def creates_beside(
    target: OurTarget | KafkaTarget, bootstrap: str, name: str, count: int, mb_per_s: float
) -> dict[str, float]:
    """Latency of creates beside the load, and the load's MB per second meanwhile."""
    nodes = [target.pid(number + 1) for number in range(len(target.controllers))]
    appended = Appended(bootstrap, name)
    with producing(bootstrap, name, mb_per_s):
        appended.wait_for_more()
        used, before, begin = sum(map(cpu_seconds, nodes)), appended.records(), time.perf_counter()
        found = creates(target.controllers, count)
        wall = time.perf_counter() - begin
        megabytes = (appended.records() - before) * LARGE_BYTES / 1e6
        used = sum(map(cpu_seconds, nodes)) - used
    appended.close()
    return found | {"mb_s": round(megabytes / wall, 1), "cores": round(used / wall, 2)}


def producing(bootstrap: str, name: str, mb_per_s: float) -> AbstractContextManager[None]:
    """The load, within a block."""
    return load.producing(
        bootstrap, name, partitions=PARTITIONS, size=LARGE_BYTES, mb_per_s=mb_per_s
    )


def measure(
    target: OurTarget | KafkaTarget, brokers: list[str], count: int, rounds: int, mb_per_s: float
) -> dict[str, Any]:
    """All figures of one running cluster."""
    bootstrap, figures = ",".join(brokers), dict[str, Any]()
    creates(target.controllers, count)
    idle = creates(target.controllers, count)
    with load.topic(bootstrap, PARTITIONS, len(brokers)) as name:
        wait_in_sync(bootstrap, name, len(brokers))
        beside = creates_beside(target, bootstrap, name, count, mb_per_s)
    figures |= {f"create_idle_{key}": value for key, value in idle.items()}
    figures |= {f"create_beside_{key}": value for key, value in beside.items()}
    figures["create_p99_x"] = round(beside["p99_ms"] / idle["p99_ms"], 2)
    if rounds:
        idle = report.summary_ms(failovers(target, rounds))
        with load.topic(bootstrap, PARTITIONS, len(brokers)) as name:
            found = failovers_beside(target, bootstrap, name, rounds, mb_per_s)
        beside = report.summary_ms(found)
        for key in ("p50_ms", "max_ms"):
            figures |= {f"failover_idle_{key}": idle[key], f"failover_beside_{key}": beside[key]}
        figures["failover_p50_x"] = round(beside["p50_ms"] / idle["p50_ms"], 2)
    return figures


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--count", type=int, default=500, help="of topics")
    flags.add_argument("--rounds", type=int, default=8, help="of the failover; 0 for none")
    flags.add_argument("--mb-per-s", type=float, default=float("inf"), help="of the load at most")
    flags.add_argument("--base-port", type=int, default=25800)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    settings = {"controller.quorum.append.linger.ms": "0"}  # Kafka waits otherwise
    with started_systems(args.base_port, with_kafka=args.kafka, kafka_settings=settings) as systems:
        for system, cluster in systems:
            rows[system] = measure(
                target_of(cluster), cluster.brokers, args.count, args.rounds, args.mb_per_s
            )
            report.measured(system, rows[system])
        report.show("records_beside", rows, as_json=args.json)


if __name__ == "__main__":
    main()
