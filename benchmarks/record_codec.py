"""Decode and encode rates of the metadata record codec, records per second.

python -m benchmarks.record_codec [--records N] [--json]
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from metadata import record_codec
from metadata.records import (
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisteredEndpoint,
    TopicRecord,
)
from wire.types import BrokerEpoch, DirectoryId, NodeId, TopicId

TOPIC_ID = TopicId(bytes(range(16)))
DIRECTORY_ID = DirectoryId(bytes(range(16)))
REPLICAS = (NodeId(1), NodeId(2), NodeId(3))
CASES = {
    "PartitionRecord v0": (
        PartitionRecord(
            partition_id=1, topic_id=TOPIC_ID, replicas=REPLICAS, isr=REPLICAS, leader=NodeId(1)
        ),
        0,
    ),
    "PartitionRecord v1": (
        PartitionRecord(
            partition_id=1,
            topic_id=TOPIC_ID,
            replicas=REPLICAS,
            isr=REPLICAS,
            leader=NodeId(1),
            directories=(DIRECTORY_ID,) * 3,
        ),
        1,
    ),
    "PartitionChangeRecord v1": (
        PartitionChangeRecord(
            partition_id=1, topic_id=TOPIC_ID, isr=REPLICAS[:2], leader=NodeId(2)
        ),
        1,
    ),
    "TopicRecord v0": (TopicRecord(name="orders-17", topic_id=TOPIC_ID), 0),
    "NoOpRecord v0": (NoOpRecord(), 0),
    "RegisterBrokerRecord v3": (
        RegisterBrokerRecord(
            broker_id=NodeId(1),
            incarnation_id=TOPIC_ID,
            broker_epoch=BrokerEpoch(7),
            end_points=(RegisteredEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092),),
            log_dirs=(DIRECTORY_ID,),
        ),
        3,
    ),
}


def measure(count: int) -> dict[str, dict[str, int]]:
    """Rates per case, best of three passes."""
    rates: dict[str, dict[str, int]] = {}
    for name, (record, version) in CASES.items():
        raw = record_codec.encode(record, version)
        assert record_codec.decode(raw) == record
        rates[name] = {
            "bytes": len(raw),
            "decode_per_s": best_rate(partial(record_codec.decode, raw), count),
            "encode_per_s": best_rate(partial(record_codec.encode, record, version), count),
        }
    return rates


def best_rate(call: Callable[[], Any], count: int) -> int:
    """Calls per second of the best of three passes."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, time.perf_counter() - start)
    return round(count / best)


def main() -> None:
    """Print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rates = measure(options.records)
    if options.json:
        print(json.dumps({"benchmark": "record_codec", "rates": rates}))
        return
    print(f"{'record':28}{'bytes':>6}{'decode/s':>12}{'encode/s':>12}")
    for name, rate in rates.items():
        print(f"{name:28}{rate['bytes']:6}{rate['decode_per_s']:12,}{rate['encode_per_s']:12,}")


if __name__ == "__main__":
    main()
