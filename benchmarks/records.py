"""Records through confluent-kafka: produce, fetch, latency, small records, memory of a node.

    python -m benchmarks.records [--json] [--kafka] [--seconds 2] [--only one_node,three_nodes]
    python -m benchmarks.records --bootstrap HOST:PORT,... [--replicas 3]

One node, then three with three replicas and acks=all: 8 partitions, values of 1 KiB in batches of
1 MB, then of 100 B; one record after the other with acks=1 (one node) or acks=all (three), of
1 KiB in one partition. Each is done once before it is measured, so that a JVM has compiled what it
runs. Server CPU is that of all nodes (of this machine) together.
"""

import time
from functools import partial
from typing import Any, Final

from benchmarks import records_load as load
from benchmarks import report
from benchmarks.clusters.processes import cpu_seconds, listener_pid, resident_mb
from benchmarks.clusters.protocol import wait_until_writable
from benchmarks.clusters.systems import started_systems

PARTITIONS: Final = 8
LARGE_BYTES: Final = 1024
SMALL_BYTES: Final = 100
SETTLE_S: Final = 3.0
"""Pause before the memory of an idle node is read."""
SHAPES: Final = {"one_node": 1, "three_nodes": 3}


class Servers:
    """The local processes behind addresses; none for a cluster elsewhere."""

    def __init__(self, addresses: list[str]) -> None:
        self._pids: set[int] = set()
        for address in addresses:
            try:
                self._pids.add(listener_pid(address))
            except ProcessLookupError:
                self._pids.clear()
                break

    @property
    def cpu_s(self) -> float | None:
        """CPU that all of them have used, in seconds."""
        return sum(map(cpu_seconds, self._pids)) if self._pids else None

    @property
    def rss_mb(self) -> float | None:
        """Memory of the largest, in MB."""
        return round(max(map(resident_mb, self._pids)), 1) if self._pids else None


def cpu_ms(servers: Servers, before: float | None, units: float) -> float | None:
    """CPU since `before`, in ms for each unit; None if it cannot be read."""
    now = servers.cpu_s
    return None if before is None or now is None else round(1000 * (now - before) / units, 3)


def measure(addresses: list[str], replicas: int, seconds: float) -> dict[str, Any]:
    """All figures of a running cluster; acks is 1 with one replica, else all."""
    bootstrap, acks = ",".join(addresses), 1 if replicas == 1 else -1
    servers = Servers(addresses)
    figures: dict[str, Any] = {"rss_idle_mb": servers.rss_mb}
    for size in (LARGE_BYTES, SMALL_BYTES):
        _bulk(servers, bootstrap, replicas, acks=acks, size=size, seconds=seconds)
        figures |= _bulk(servers, bootstrap, replicas, acks=acks, size=size, seconds=seconds)
    with load.topic(bootstrap, 1, replicas) as name:
        each = partial(load.one_by_one, bootstrap, name, acks=acks, size=LARGE_BYTES)
        each(seconds=seconds)
        before = servers.cpu_s
        took = each(seconds=seconds)
        figures |= _latency("ack", took)
        figures["ack_cpu_ms"] = cpu_ms(servers, before, len(took))
        took = load.end_to_end(bootstrap, name, acks=acks, size=LARGE_BYTES, seconds=seconds)
        figures |= _latency("consumed", took)
    return figures | {"rss_loaded_mb": servers.rss_mb}


def _bulk(
    servers: Servers, bootstrap: str, replicas: int, *, acks: int, size: int, seconds: float
) -> dict[str, Any]:
    """Figures of many records of a size, produced and then read."""
    with load.topic(bootstrap, PARTITIONS, replicas) as name:
        before = servers.cpu_s
        made = load.produce(
            bootstrap, name, partitions=PARTITIONS, size=size, acks=acks, seconds=seconds
        )
        made_cpu, before = cpu_ms(servers, before, made.megabytes), servers.cpu_s
        read = load.fetch(bootstrap, name, partitions=PARTITIONS, expected=made)
        read_cpu = cpu_ms(servers, before, read.megabytes)
    return {
        f"produce_{size}b_mb_s": made.mb_per_s,
        f"produce_{size}b_per_s": made.per_s,
        f"produce_{size}b_cpu_ms_mb": made_cpu,
        f"fetch_{size}b_mb_s": read.mb_per_s,
        f"fetch_{size}b_cpu_ms_mb": read_cpu,
    }


def _latency(name: str, took: list[float]) -> dict[str, float]:
    summary = report.summary_ms(took)
    return {f"{name}_p50_ms": summary["p50_ms"], f"{name}_p99_ms": summary["p99_ms"]}


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--bootstrap", help="measure the cluster of these brokers: host:port,...")
    flags.add_argument("--replicas", type=int, default=1, help="of its topics")
    flags.add_argument("--only", default=",".join(SHAPES), help="which clusters to start")
    flags.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    flags.add_argument("--base-port", type=int, default=25700)
    args = flags.parse_args()
    if args.bootstrap:
        figures = measure(args.bootstrap.split(","), args.replicas, args.seconds)
        report.show("records", {"given": figures}, as_json=args.json)
        return
    for shape in args.only.split(","):
        nodes = SHAPES[shape]
        rows: dict[str, dict[str, Any]] = {}
        factor = {"offsets.topic.replication.factor": str(nodes)}
        with started_systems(
            args.base_port, with_kafka=args.kafka, nodes=nodes, kafka_settings=factor
        ) as systems:
            for system, cluster in systems:
                wait_until_writable(cluster.controllers)
                time.sleep(SETTLE_S)
                rows[system] = measure(cluster.brokers, nodes, args.seconds)
            report.show(f"records {shape}", rows, as_json=args.json)


if __name__ == "__main__":
    main()
