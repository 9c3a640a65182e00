"""Apply rate of metadata records on a realistic image, records per second.

python -m benchmarks.metadata_apply [--topics N] [--partitions N] [--json]
"""

import argparse
import gc
import json
import random
import time
from collections.abc import Iterable, Iterator

from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image
from metadata.records import PartitionChangeRecord, PartitionRecord, Record, TopicRecord
from metadata.snapshot import snapshot_records
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicId

SEED = 1
REPLICAS = (NodeId(1), NodeId(2), NodeId(3))


def creation(topics: int, partitions: int) -> Iterator[Record]:
    """Records that create topics with three replicas each."""
    for number in range(topics):
        topic_id = TopicId(number.to_bytes(16, "big"))
        yield TopicRecord(name=f"topic-{number}", topic_id=topic_id)
        for partition_id in range(partitions):
            yield PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=REPLICAS,
                isr=REPLICAS,
                leader=NodeId(1),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                directories=(DirectoryId(topic_id),) * 3,
            )


def timed(records: Iterable[Record], image: Image) -> tuple[Image, int]:
    """The image after the records and the rate at which they were applied."""
    records = list(records)
    delta = MetadataDelta()
    start = time.perf_counter()
    image = apply_all(image, records, Offset(0), delta)
    seconds = time.perf_counter() - start
    return image, round(len(records) / seconds)


def measure(topics: int, partitions: int) -> dict[str, int]:
    """Rates of loading, of scattered changes, and of walking the image for a snapshot."""
    rng = random.Random(SEED)
    # The same settings as a node: the collector, not the trie, is what costs.
    gc.set_threshold(100_000, 20, 50)
    image, load = timed(creation(topics, partitions), EMPTY)
    gc.collect()
    gc.freeze()
    changes = (
        PartitionChangeRecord(
            partition_id=rng.randrange(partitions),
            topic_id=TopicId(rng.randrange(topics).to_bytes(16, "big")),
            isr=REPLICAS[:2],
            leader=NodeId(2),
        )
        for _ in range(100_000)
    )
    image, change = timed(changes, image)
    start = time.perf_counter()
    count = sum(1 for _ in snapshot_records(image))
    snapshot = round(count / (time.perf_counter() - start))
    return {
        "topics": topics,
        "partitions": topics * partitions,
        "load_per_s": load,
        "scattered_changes_per_s": change,
        "snapshot_records_per_s": snapshot,
    }


def main() -> None:
    """Print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rates = measure(options.topics, options.partitions)
    if options.json:
        print(json.dumps({"benchmark": "metadata_apply", **rates}))
        return
    for name, value in rates.items():
        print(f"{name:28}{value:>12,}")


if __name__ == "__main__":
    main()
