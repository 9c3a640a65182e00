"""CreateTopics: latency one after the other, rate with 64 in flight, and large requests.

    python -m benchmarks.create_topics [--json] [--kafka] [--controllers HOST:PORT,...]

Without `--controllers` it starts a quorum of three of ours (and with `--kafka` one of Apache Kafka
with its linger at 0, after ours is down again) in a temporary folder. `--via broker` measures the
path through a broker that forwards.
"""

import os
import selectors
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks import report
from benchmarks.clusters import protocol
from benchmarks.clusters.kafka_peer import KafkaCluster
from benchmarks.clusters.our_quorum import OurCluster

WARM_COUNT: Final = 50
"""Creates before those that are measured: they warm both sides up."""


def flush_probe_ms(folder: Path, rounds: int = 200) -> float:
    """p50 of an appending fdatasync of 200 bytes in `folder`, in milliseconds."""
    took = []
    descriptor = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in range(rounds):
        os.write(descriptor, bytes(200))
        begin = time.perf_counter()
        os.fdatasync(descriptor)
        took.append(time.perf_counter() - begin)
    os.close(descriptor)
    return report.summary_ms(took)["p50_ms"]


def sequential(address: str, prefix: str, count: int) -> dict[str, float]:
    """Latency of creates in sequence over one connection."""
    connection, took = protocol.Connection(address), []
    for number in range(WARM_COUNT + count):
        body = protocol.create_topics_frame([f"{prefix}{number}"])
        begin = time.perf_counter()
        answer = connection.call(protocol.CREATE_TOPICS, 7, body)
        if number >= WARM_COUNT:
            took.append(time.perf_counter() - begin)
        protocol.check_created(answer)
    connection.close()
    return report.summary_ms(took)


def in_flight(address: str, prefix: str, depth: int, seconds: float) -> float:
    """Creates per second over `depth` connections with one request in flight each."""
    selector = selectors.DefaultSelector()
    number = 0
    for _ in range(depth):
        connection = protocol.Connection(address)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        _create_next(connection, f"{prefix}{number}")
        number += 1
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for key, _ in selector.select(1.0):
            connection = key.data
            protocol.check_created(connection.receive())
            done += 1
            _create_next(connection, f"{prefix}{number}")
            number += 1
    wall = time.perf_counter() - begin
    for key in list(selector.get_map().values()):
        key.data.close()
    return round(done / wall, 1)


def _create_next(connection: protocol.Connection, name: str) -> None:
    body = protocol.create_topics_frame([name])
    connection.socket.sendall(connection.frame(protocol.CREATE_TOPICS, 7, body))


def large(address: str, names: list[str], partitions: int) -> float:
    """Time of one request in milliseconds."""
    connection = protocol.Connection(address, timeout_s=60)
    begin = time.perf_counter()
    answer = connection.call(
        protocol.CREATE_TOPICS, 7, protocol.create_topics_frame(names, partitions=partitions)
    )
    took = time.perf_counter() - begin
    protocol.check_created(answer)
    connection.close()
    return round(1000 * took, 1)


def measure(
    controllers: list[str], broker: str | None, count: int, seconds: float
) -> dict[str, Any]:
    """All figures of one running cluster."""
    where = protocol.wait_until_writable(controllers)
    where = broker or where
    tag = f"bench-{int(time.monotonic() * 1000)}"
    figures: dict[str, Any] = sequential(where, f"{tag}-one-", count)
    figures["in_flight_1_per_s"] = in_flight(where, f"{tag}-f1-", 1, seconds)
    figures["in_flight_64_per_s"] = in_flight(where, f"{tag}-f64-", 64, seconds)
    names = [f"{tag}-many-{i}" for i in range(1000)]
    figures["1000_topics_ms"] = large(where, names, 1)
    figures["9999_partitions_ms"] = large(where, [f"{tag}-wide"], 9999)
    return figures


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--controllers", help="measure this cluster: host:port,...")
    flags.add_argument("--broker", help="send through this broker (host:port) instead")
    flags.add_argument("--via", choices=("controller", "broker"), default="controller")
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--count", type=int, default=300)
    flags.add_argument("--seconds", type=float, default=4.0)
    flags.add_argument("--base-port", type=int, default=25100)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    if args.controllers:
        rows["given"] = measure(args.controllers.split(","), args.broker, args.count, args.seconds)
        report.show("create_topics", rows, as_json=args.json)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        probe = flush_probe_ms(folder)
        clusters: dict[str, OurCluster | KafkaCluster] = {
            "kraftline": OurCluster(folder / "ours", args.base_port)
        }
        if args.kafka:
            settings = {"controller.quorum.append.linger.ms": "0"}
            clusters["kafka linger 0"] = KafkaCluster(folder / "k", args.base_port + 10, settings)
        for system, cluster in clusters.items():
            try:
                cluster.up()
                broker = cluster.brokers[0] if args.via == "broker" else None
                rows[system] = measure(cluster.controllers, broker, args.count, args.seconds)
                rows[system]["fdatasync_p50_ms"] = probe
            finally:
                cluster.down()
    report.show("create_topics", rows, as_json=args.json)


if __name__ == "__main__":
    main()
