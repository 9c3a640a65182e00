"""Metadata records applied to an image: CPU rates, and what the image takes.

    python -m benchmarks.metadata_apply [--json] [--kafka] [--topics 10000] [--partitions 10]

The records are encoded, decoded in batches of 1000 and applied, as when a node loads its log:
every partition has three of six brokers, each broker one directory. Rates are per second of CPU
of one process, best of three, because the machine may be shared.

With --kafka the same by Kafka's MetadataRecordSerde, MetadataDelta and MetadataImage, a delta for
1000 records or for all; its bytes per partition are those of the heap after a collection.

- load: decode and apply; apply: apply alone; changes: scattered PartitionChangeRecords
- bytes_per_partition: growth of the resident set by the load, over the partitions; the first thing
  the process does, in a process of its own
"""

import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final

from benchmarks.clusters.processes import resident_mb
from benchmarks.kafka_codecs import kafkas_figures
from benchmarks.report import parser, show
from metadata import record_codec
from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.features import METADATA_VERSION_DEFAULT, record_version
from metadata.image import EMPTY, Image
from metadata.records import PartitionChangeRecord, PartitionRecord, Record, TopicRecord
from metadata.snapshot import snapshot_records
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicId

SEED: Final = 1
BROKERS: Final = 6
BATCH: Final = 1000
ROUNDS: Final = 3


def creation(topics: int, partitions: int) -> Iterator[Record]:
    """Records that create topics with three replicas each."""
    rng = random.Random(SEED)
    for number in range(topics):
        topic_id = TopicId(rng.randbytes(16))
        yield TopicRecord(name=f"topic-{number}", topic_id=topic_id)
        for partition_id in range(partitions):
            replicas = tuple(map(NodeId, rng.sample(range(1, BROKERS + 1), 3)))
            yield PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                directories=tuple(DirectoryId(bytes((node,)) * 16) for node in replicas),
            )


def encoded(records: Iterable[Record]) -> Iterator[list[bytes]]:
    """Yield lists of 1000 framed values."""
    values: list[bytes] = []
    for record in records:
        version = record_version(record, METADATA_VERSION_DEFAULT)
        values.append(record_codec.encode(record, version))
        if len(values) == BATCH:
            yield values
            values = []
    if values:
        yield values


def load(batches: Iterable[list[bytes]]) -> Image:
    """Decode and apply records; returns their image."""
    image, base = EMPTY, 0
    for values in batches:
        records = map(record_codec.decode, values)
        image = apply_all(image, records, Offset(base), MetadataDelta())
        base += len(values)
    return image


def rate(records: list[Record], image: Image) -> tuple[Image, int]:
    """Image after the records, and the best of some rates of applying them."""
    best, after = float("inf"), image
    for _ in range(ROUNDS):
        begin = time.process_time()
        after = apply_all(image, records, Offset(0), MetadataDelta())
        best = min(best, time.process_time() - begin)
    return after, round(len(records) / best)


def measure(topics: int, partitions: int) -> dict[str, int]:
    """Rates of loading, of scattered changes, and of walking the image for a snapshot."""
    gc.set_threshold(100_000, 20, 50)  # as in a node
    records = list(creation(topics, partitions))
    batches = list(encoded(records))
    best, image = float("inf"), EMPTY
    for _ in range(ROUNDS):
        begin = time.process_time()
        image = load(batches)
        best = min(best, time.process_time() - begin)
    _, apply_per_s = rate(records, EMPTY)
    gc.collect()
    gc.freeze()
    rng, topic_ids = random.Random(SEED), sorted(image.topics)
    changes: list[Record] = [
        PartitionChangeRecord(
            partition_id=rng.randrange(partitions),
            topic_id=rng.choice(topic_ids),
            isr=(NodeId(1), NodeId(2)),
            leader=NodeId(2),
        )
        for _ in range(100_000)
    ]
    image, changes_per_s = rate(changes, image)
    begin = time.process_time()
    count = sum(1 for _ in snapshot_records(image))
    return {
        "partitions": topics * partitions,
        "load_per_s": round(len(records) / best),
        "apply_per_s": apply_per_s,
        "changes_per_s": changes_per_s,
        "snapshot_per_s": round(count / (time.process_time() - begin)),
    }


def bytes_per_partition(topics: int, partitions: int) -> int:
    """Bytes per partition in this process, which must have done nothing else before."""
    gc.set_threshold(100_000, 20, 50)
    load(encoded(creation(1, 1)))  # compiles readers and writers
    gc.collect()
    before = resident_mb_of_this()
    image = load(encoded(creation(topics, partitions)))
    gc.collect()
    grown = resident_mb_of_this() - before
    assert len(image.topics) == topics
    return round(1e6 * grown / (topics * partitions))


def resident_mb_of_this() -> float:
    """Resident set of this process."""
    return resident_mb(os.getpid())


def main() -> None:
    """Print a table or one JSON object."""
    flags = parser(__doc__)
    flags.add_argument("--topics", type=int, default=10_000)
    flags.add_argument("--partitions", type=int, default=10, help="of each topic")
    flags.add_argument("--memory-only", action="store_true", help="print bytes per partition")
    flags.add_argument("--kafka", action="store_true", help="Kafka's classes too")
    args = flags.parse_args()
    if args.memory_only:
        print(bytes_per_partition(args.topics, args.partitions))
        return
    own = [sys.executable, "-m", "benchmarks.metadata_apply", "--memory-only"]
    shape = ["--topics", str(args.topics), "--partitions", str(args.partitions)]
    done = subprocess.run([*own, *shape], check=True, capture_output=True, text=True)
    figures = measure(args.topics, args.partitions)
    figures["bytes_per_partition"] = int(done.stdout)
    systems = {"kraftline": figures}
    if args.kafka:
        systems["kafka"] = kafkas_figures("apply", str(args.topics), str(args.partitions))
    show("metadata_apply", systems, as_json=args.json)


if __name__ == "__main__":
    main()
