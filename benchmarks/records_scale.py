"""Many partitions on one broker: start after a clean stop and after SIGKILL, stop, memory.

    python -m benchmarks.records_scale [--json] [--kafka] [--partitions 10000]

One node, one topic with one replica, a record in every hundredth partition. A start lasts from the
start of the process until a record is acknowledged in each of those; a stop from SIGTERM to the end
of the process. Memory is read behind the last start.
"""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import report
from benchmarks.clusters.our_quorum import OurCluster
from benchmarks.clusters.processes import listener_pid, resident_mb
from benchmarks.clusters.systems import started_systems
from benchmarks.records_load import LOG_LEVEL, TIMEOUT_S

TOPIC: Final = "scale"
SAMPLE: Final = 100
"""Partitions for each that gets a record."""
CREATED_MAX: Final = 2_000
"""Partitions that one request creates."""
START_S_MAX: Final = 600.0


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL})


def create(bootstrap: str, partitions: int) -> float:
    """Create the topics; seconds until the last is created."""
    admin, begin = _admin(bootstrap), time.perf_counter()
    for first in range(0, partitions, CREATED_MAX):
        name, count = f"{TOPIC}-{first}", min(CREATED_MAX, partitions - first)
        created = admin.create_topics([NewTopic(name, count, 1)], operation_timeout=TIMEOUT_S)
        created[name].result(TIMEOUT_S)
    return time.perf_counter() - begin


def write_sample(bootstrap: str, partitions: int) -> None:
    """Write a record to every hundredth partition; returns when all are acknowledged."""
    config = {
        "bootstrap.servers": bootstrap,
        "acks": 1,
        "message.timeout.ms": int(1000 * START_S_MAX),
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.max.ms": 100,
        "topic.metadata.refresh.fast.interval.ms": 100,
        "topic.metadata.propagation.max.ms": int(1000 * START_S_MAX),
        "log_level": LOG_LEVEL,
    }
    errors: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer(config)
    for number in range(0, partitions, SAMPLE):
        first = number - number % CREATED_MAX
        partition = number - first
        producer.produce(f"{TOPIC}-{first}", b"x", partition=partition, on_delivery=delivered)
    left = producer.flush(START_S_MAX)
    assert left == 0, f"{left} partitions have no leader"
    assert not errors, f"{errors[0]}"


def end(pid: int, sent: signal.Signals) -> float:
    """Signal a process; seconds until it has ended."""
    begin = time.perf_counter()
    os.kill(pid, sent)
    while _runs(pid):
        assert time.perf_counter() - begin < START_S_MAX, f"{pid} does not end"
        time.sleep(0.005)
    return time.perf_counter() - begin


def _runs(pid: int) -> bool:
    """True unless a process is gone, or only not waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def measure(address: str, start: Callable[[], object], partitions: int) -> dict[str, Any]:
    """All figures of one node that runs, and that `start` starts again."""
    _admin(address).list_topics(timeout=TIMEOUT_S)  # it serves
    figures: dict[str, float] = {"rss_empty_mb": resident_mb(listener_pid(address))}
    figures["create_s"] = create(address, partitions)
    write_sample(address, partitions)
    figures["stop_s"] = end(listener_pid(address), signal.SIGTERM)
    figures["start_clean_s"] = _started(address, start, partitions)
    figures["stop_again_s"] = end(listener_pid(address), signal.SIGTERM)
    _started(address, start, partitions)
    end(listener_pid(address), signal.SIGKILL)
    figures["start_killed_s"] = _started(address, start, partitions)
    figures["rss_mb"] = resident_mb(listener_pid(address))
    return {name: round(value, 2) for name, value in figures.items()}


def _started(address: str, start: Callable[[], object], partitions: int) -> float:
    begin = time.perf_counter()
    start()
    write_sample(address, partitions)
    return time.perf_counter() - begin


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--partitions", type=int, default=10_000)
    flags.add_argument("--base-port", type=int, default=25900)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with started_systems(args.base_port, with_kafka=args.kafka, nodes=1) as systems:
        for system, cluster in systems:
            start = cluster.up if isinstance(cluster, OurCluster) else partial(cluster.start, 1)
            rows[system] = measure(cluster.brokers[0], start, args.partitions)
        report.show("records_scale", rows, as_json=args.json)


if __name__ == "__main__":
    main()
