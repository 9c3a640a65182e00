"""The log cleaner: megabytes of a log that are compacted in a second.

    python -m benchmarks.cleaner [--json] [--kafka] [--megabytes 256] [--sizes 100,1024]

One node, one partition in segments of 32 MiB: records with keys of 16 bytes, each key written ten
times, values of each size. All is written while no ratio is high enough; then the topic asks for a
round, and what is measured is the time from there until the cleaner's checkpoint has the partition.
Kafka's JVM has cleaned a smaller log before, ours another one too. `left` is the part of the bytes
that stay; `x` is the rate in that of Kafka.
"""

import os
import random
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from benchmarks import report
from benchmarks.clusters.protocol import wait_until_writable
from benchmarks.clusters.systems import Cluster, started_systems
from benchmarks.clusters.typed_client import wait_until
from benchmarks.records_load import LOG_LEVEL, TIMEOUT_S

SEGMENT_BYTES: Final = 32 << 20
WRITES_PER_KEY: Final = 10
WARM_MEGABYTES: Final = 48
BACKOFF_MS: Final = 50
CLEAN_S: Final = 600.0


def create(admin: AdminClient, name: str) -> None:
    """Make a compacted topic of which nothing is cleaned yet."""
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1.0",
        "segment.bytes": str(SEGMENT_BYTES),
        "file.delete.delay.ms": "1000",
    }
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(TIMEOUT_S)


def fill(bootstrap: str, name: str, megabytes: int, size: int) -> None:
    """Write so much, in batches of the client, keys in no order."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 20, "batch.size": 65536,
            "queue.buffering.max.messages": 1_000_000, "log_level": LOG_LEVEL,
        }
    )  # fmt: skip
    count = megabytes * 1_000_000 // (size + 24)
    keys, rng, value = max(1, count // WRITES_PER_KEY), random.Random(1), os.urandom(size)
    for number in range(count):
        while True:
            try:
                producer.produce(name, value, key=b"key-%012d" % rng.randrange(keys))
            except BufferError:
                producer.poll(0.05)
            else:
                break
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0, "records are not acknowledged"


def alter(admin: AdminClient, kind: ResourceType, name: str, key: str, value: str) -> None:
    """Set one dynamic config."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def look_often(admin: AdminClient) -> None:
    """Let the broker's cleaner look at its logs again and again."""
    (broker,) = admin.list_topics(timeout=TIMEOUT_S).brokers
    alter(admin, ConfigResource.Type.BROKER, str(broker), "log.cleaner.backoff.ms", str(BACKOFF_MS))


def log_folder(cluster: Cluster, name: str) -> Path:
    """The folder of the partition."""
    (found,) = [path for path in cluster.folder.rglob(f"{name}-0") if path.is_dir()]
    return found


def closed_bytes(folder: Path) -> int:
    """Bytes of all segments but the active one."""
    return sum(path.stat().st_size for path in sorted(folder.glob("*.log"))[:-1])


def is_cleaned(folder: Path, name: str) -> bool:
    """True once the cleaner's checkpoint has the partition."""
    checkpoint = folder.parent / "cleaner-offset-checkpoint"
    try:
        rows = checkpoint.read_text().splitlines()
    except FileNotFoundError:
        return False
    return any(row.startswith(f"{name} 0 ") and not row.endswith(" 0") for row in rows)


def cleaning(cluster: Cluster, megabytes: int, size: int) -> dict[str, Any]:
    """One round of a log of so many megabytes."""
    (bootstrap,) = cluster.brokers
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL})
    name = f"compacted-{time.time_ns()}"
    create(admin, name)
    fill(bootstrap, name, megabytes, size)
    folder = log_folder(cluster, name)
    before = closed_bytes(folder)
    begin = time.perf_counter()
    alter(admin, ConfigResource.Type.TOPIC, name, "min.cleanable.dirty.ratio", "0.01")
    wait_until(lambda: is_cleaned(folder, name), CLEAN_S, f"{name} is cleaned")
    wall = time.perf_counter() - begin
    figures = {
        "mb_s": round(before / 1e6 / wall, 1),
        "wall_s": round(wall, 2),
        "left": round(closed_bytes(folder) / before, 3),
    }
    admin.delete_topics([name])[name].result(TIMEOUT_S)
    return figures


def measure(cluster: Cluster, megabytes: int, sizes: list[int]) -> dict[str, Any]:
    """All figures of one running node."""
    wait_until_writable(cluster.controllers)
    (bootstrap,) = cluster.brokers
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": LOG_LEVEL})
    look_often(admin)
    cleaning(cluster, WARM_MEGABYTES, sizes[-1])
    figures: dict[str, Any] = {}
    for size in sizes:
        found = cleaning(cluster, megabytes, size)
        figures |= {f"{size}_{key}": value for key, value in found.items()}
    return figures


def main() -> None:
    """Measure the systems that the flags name."""
    flags = report.parser(__doc__)
    flags.add_argument("--kafka", action="store_true", help="measure Apache Kafka in the same run")
    flags.add_argument("--megabytes", type=int, default=256, help="of each log")
    flags.add_argument("--sizes", default="100,1024", help="bytes of the values")
    flags.add_argument("--base-port", type=int, default=25900)
    args = flags.parse_args()
    sizes = [int(each) for each in args.sizes.split(",")]
    rows: dict[str, dict[str, Any]] = {}
    settings = {"offsets.topic.replication.factor": "1"}
    with started_systems(
        args.base_port, with_kafka=args.kafka, nodes=1, kafka_settings=settings
    ) as systems:
        for system, cluster in systems:
            rows[system] = measure(cluster, args.megabytes, sizes)
        if "kafka" in rows:
            for size in sizes:
                ratio = rows["kraftline"][f"{size}_mb_s"] / rows["kafka"][f"{size}_mb_s"]
                rows["kraftline"][f"{size}_x"] = round(ratio, 2)
        report.show("cleaner", rows, as_json=args.json)


if __name__ == "__main__":
    main()
