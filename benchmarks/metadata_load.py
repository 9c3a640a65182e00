"""100,000 partitions: making them, what they take, and what they do to restarts.

    python -m benchmarks.metadata_load [--json] [--kafka] [--topics 1000] [--partitions 100]

Three real nodes; the replicas are on five brokers that only register. In this order:

- create: partitions per second, 5000 in a request; log: bytes of the leader's metadata folder
- rss: of the largest node
- restart: SIGTERM of a node that does not lead, from its start until it shows the newest topic
- failover: SIGKILL of the leader, until a topic can be created
- cold: SIGKILL of all, from the start until a topic can be created
"""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from benchmarks import report
from benchmarks.clusters import protocol
from benchmarks.clusters.fake_brokers import start_brokers
from benchmarks.clusters.kafka_peer import KafkaCluster
from benchmarks.clusters.our_quorum import OurCluster
from benchmarks.clusters.processes import listener_pid, resident_mb
from benchmarks.clusters.systems import started_systems
from benchmarks.clusters.typed_client import METADATA, TypedClient, metadata_request, wait_until
from benchmarks.failover import Target, Writer, target_of
from benchmarks.reads import BROKERS, FIRST_ID, build

METADATA_FOLDER = "**/__cluster_metadata-0/*"
PATIENCE_S = 120


def shows(address: str, topic: str) -> bool:
    """Return True if a node answers and its metadata has the topic."""
    try:
        client = TypedClient(address, timeout_s=5)
        answer = client.ask(METADATA, metadata_request([topic]))
        client.close()
    except OSError:
        return False
    return all(row.error_code.value == 0 for row in answer.topics)


def restart(target: Target, brokers: list[str]) -> float:
    """Seconds until a restarted node that does not lead has caught up."""
    leader = protocol.wait_until_writable(target.controllers)
    index = next(i for i, address in enumerate(target.controllers) if address != leader)
    os.kill(target.pid(index + 1), signal.SIGTERM)
    topic = f"newest-{time.time_ns()}"
    connection = protocol.Connection(leader)
    body = protocol.create_topics_frame([topic])
    protocol.check_created(connection.call(protocol.CREATE_TOPICS, 7, body))
    connection.close()
    wait_until(lambda: not shows(brokers[index], topic), PATIENCE_S, "the node is gone")
    begin = time.monotonic()
    target.start(index + 1)
    wait_until(lambda: shows(brokers[index], topic), PATIENCE_S, "the node is back")
    return time.monotonic() - begin


def failover(target: Target, prefix: str) -> float:
    """Seconds until a topic can be created after the leader was killed."""
    leader_id, _, _ = protocol.leader_of(protocol.wait_until_writable(target.controllers))
    pid = target.pid(leader_id)
    begin = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    took = Writer(target.controllers, prefix).until_created(PATIENCE_S) - begin
    target.start(leader_id)
    return took


def cold(target: Target, launch: Callable[[], None], prefix: str) -> float:
    """Seconds until a topic can be created after all nodes were killed and started."""
    protocol.wait_until_writable(target.controllers)
    for pid in [target.pid(number + 1) for number in range(len(target.controllers))]:
        os.kill(pid, signal.SIGKILL)
    begin = time.perf_counter()
    launch()
    return Writer(target.controllers, prefix).until_created(PATIENCE_S) - begin


def measure(
    cluster: OurCluster | KafkaCluster, target: Target, topics: int, partitions: int
) -> dict[str, Any]:
    """All figures, in the order of the description."""
    folder, brokers = cluster.folder, cluster.brokers
    launch = cluster.up if isinstance(cluster, OurCluster) else cluster.launch
    protocol.wait_until_writable(target.controllers)
    active, tail, fakes = start_brokers(target.controllers, BROKERS, FIRST_ID)
    made, begin = 0, time.monotonic()
    for count in build(active, topics, partitions, [fake.node_id for fake in fakes]):
        made = count
    took = time.monotonic() - begin
    time.sleep(3)
    for fake in fakes:
        fake.vanish()
    tail.stop()
    home = sorted(folder.glob(METADATA_FOLDER))
    node = {path.relative_to(folder).parts[0] for path in home}
    size = sum(path.stat().st_size for path in home if path.suffix == ".log")
    pids = [listener_pid(address) for address in target.controllers]
    return {
        "partitions": made,
        "create_per_s": round(made / took),
        "log_mb": round(size / max(1, len(node)) / 1e6, 1),
        "rss_mb": round(max(map(resident_mb, pids)), 1),
        "restart_s": round(restart(target, brokers), 2),
        "failover_s": round(failover(target, f"after-{time.time_ns()}-"), 2),
        "cold_s": round(cold(target, launch, f"cold-{time.time_ns()}-"), 2),
    }


def main() -> None:
    """Measure kraftline, and Kafka if the flags ask for it."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--topics", type=int, default=1_000)
    flags.add_argument("--partitions", type=int, default=100, help="of each topic")
    flags.add_argument("--base-port", type=int, default=25700)
    args = flags.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with started_systems(args.base_port, with_kafka=args.kafka) as systems:
        for system, cluster in systems:
            rows[system] = measure(cluster, target_of(cluster), args.topics, args.partitions)
        report.show("metadata_load", rows, as_json=args.json)


if __name__ == "__main__":
    main()
