"""Reads of clients: DescribeQuorum, DescribeCluster and Metadata, one by one and 64 in flight.

    python -m benchmarks.reads [--json] [--kafka] [--topics 1000] [--partitions 100] [--seconds 3]
    python -m benchmarks.reads --controllers HOST:PORT,... --broker HOST:PORT

Against 100,000 partitions with three replicas each on brokers that only register. Metadata of all
topics is asked of a node that does not lead: first while topics come and go (half a second apart),
which is what keeps answers from being kept, then with nothing changing. CPU is the server's
process while it is asked one by one (steadier than time on a busy machine).
"""

import selectors
import statistics
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

from benchmarks import report
from benchmarks.clusters.fake_brokers import start_brokers
from benchmarks.clusters.processes import cpu_seconds, listener_pid
from benchmarks.clusters.protocol import (
    CREATE_TOPICS,
    Connection,
    create_topics_frame,
    find_leader,
    wait_until_writable,
)
from benchmarks.clusters.systems import started_systems
from benchmarks.clusters.typed_client import (
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    METADATA,
    VERSIONS,
    TypedClient,
    create_assigned,
    describe_cluster_request,
    describe_quorum_request,
    metadata_request,
)
from wire.messages import codec

BROKERS: Final = 5
FIRST_ID: Final = 501
REPLICAS: Final = 3
IN_FLIGHT: Final = 64
CLIENT_ID: Final = "measure"


def frame_of(api_key: int, body: Any) -> bytes:
    """A request frame with its length, always with the same correlation id."""
    frame = codec.encode_request(api_key, VERSIONS[api_key], 1, CLIENT_ID, body)
    return struct.pack(">i", len(frame)) + frame


def one_by_one(address: str, frame: bytes, seconds: float) -> list[float]:
    """Seconds of each request over one connection."""
    connection = Connection(address)
    took: list[float] = []
    deadline = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < deadline or len(took) < 5:
        connection.socket.sendall(frame)
        connection.receive_frame()
        took.append(time.perf_counter() - begin)
    connection.close()
    return took


def latency(address: str, frame: bytes, seconds: float) -> tuple[float, float]:
    """Milliseconds per request in sequence: median latency, and CPU of the server."""
    pid = listener_pid(address)
    one_by_one(address, frame, seconds / 4)  # warm
    used = cpu_seconds(pid)
    took = one_by_one(address, frame, seconds)
    cpu = (cpu_seconds(pid) - used) / len(took)
    return round(1000 * statistics.median(took), 3), round(1000 * cpu, 3)


def in_flight(address: str, frame: bytes, seconds: float) -> float:
    """Requests per second over 64 connections with one request in flight each."""
    selector = selectors.DefaultSelector()
    for _ in range(IN_FLIGHT):
        connection = Connection(address)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.socket.sendall(frame)
    done, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for key, _ in selector.select(1.0):
            key.data.receive_frame()
            key.data.socket.sendall(frame)
            done += 1
    wall = time.perf_counter() - begin
    for key in list(selector.get_map().values()):
        key.data.close()
    return round(done / wall)


def build(active: str, topics: int, partitions: int, nodes: list[int]) -> Iterator[int]:
    """Create the topics, 5000 partitions in a request; yields the number of partitions so far."""
    client = TypedClient(active)
    tag, step = f"load-{time.time_ns()}-", max(1, 5000 // partitions)
    for start in range(0, topics, step):
        names = range(start, min(start + step, topics))
        replicas = {
            f"{tag}{name}": [
                tuple(nodes[(name + number + k) % len(nodes)] for k in range(REPLICAS))
                for number in range(partitions)
            ]
            for name in names
        }
        create_assigned(client, replicas)
        yield names[-1] * partitions + partitions
    client.close()


def while_changing(active: str, address: str, frame: bytes) -> list[float]:
    """Seconds of Metadata requests, each after a topic was created."""
    creator, reader, took = Connection(active), Connection(address), []
    for number in range(10):
        body = create_topics_frame([f"change-{time.time_ns()}-{number}"])
        creator.call(CREATE_TOPICS, 7, body)
        time.sleep(0.5)
        begin = time.perf_counter()
        reader.socket.sendall(frame)
        reader.receive_frame()
        took.append(time.perf_counter() - begin)
    creator.close()
    reader.close()
    return took[1:]


def measure(
    controllers: list[str], broker: str, topics: int, partitions: int, seconds: float
) -> dict[str, Any]:
    """All figures of a running cluster; the broker should not lead."""
    wait_until_writable(controllers)
    active, tail, fakes = start_brokers(controllers, BROKERS, FIRST_ID)
    for _ in build(active, topics, partitions, [fake.node_id for fake in fakes]):
        pass
    time.sleep(3)
    quorum = frame_of(DESCRIBE_QUORUM, describe_quorum_request())
    everything = frame_of(METADATA, metadata_request(None))
    few = frame_of(METADATA, metadata_request([]))
    calls = {
        "quorum": (active, quorum),
        "quorum_by_broker": (broker, quorum),
        "cluster": (broker, frame_of(DESCRIBE_CLUSTER, describe_cluster_request(1))),
        "metadata_none": (broker, few),
    }
    figures: dict[str, Any] = {}
    for name, (address, frame) in calls.items():
        p50, cpu = latency(address, frame, seconds)
        figures[f"{name}_p50_ms"] = p50
        figures[f"{name}_cpu_ms"] = cpu
        figures[f"{name}_64_per_s"] = in_flight(address, frame, seconds)
    changing = while_changing(find_leader(controllers), broker, everything)
    figures["metadata_all_changing_p50_ms"] = round(1000 * statistics.median(changing), 1)
    p50, cpu = latency(broker, everything, seconds)
    figures["metadata_all_p50_ms"] = p50
    figures["metadata_all_cpu_ms"] = cpu
    for fake in fakes:
        fake.vanish()
    tail.stop()
    return figures


def other_than(active: str, controllers: list[str], brokers: list[str]) -> str:
    """The broker of a node that does not lead."""
    return next(b for b, c in zip(brokers, controllers, strict=True) if c != active)


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--controllers", help="measure this cluster: host:port,...")
    flags.add_argument("--broker", help="its node (host:port) that answers Metadata")
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--topics", type=int, default=1_000)
    flags.add_argument("--partitions", type=int, default=100, help="of each topic")
    flags.add_argument("--seconds", type=float, default=2.0, help="for each figure")
    flags.add_argument("--base-port", type=int, default=25600)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    shape = (args.topics, args.partitions, args.seconds)
    if args.controllers:
        rows["given"] = measure(args.controllers.split(","), args.broker, *shape)
        report.show("reads", rows, as_json=args.json)
        return
    with started_systems(args.base_port, with_kafka=args.kafka) as systems:
        for system, cluster in systems:
            active = wait_until_writable(cluster.controllers)
            broker = other_than(active, cluster.controllers, cluster.brokers)
            rows[system] = measure(cluster.controllers, broker, *shape)
        report.show("reads", rows, as_json=args.json)


if __name__ == "__main__":
    main()
