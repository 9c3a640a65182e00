"""Metadata records encoded and decoded: records per second of CPU of one process.

    python -m benchmarks.record_codec [--json] [--kafka] [--records 100000]

Partitions differ in topic, number, leader and placement on six brokers; best of five passes. With
--kafka the same records by Kafka's MetadataRecordSerde (best of twelve, the JVM warm).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from benchmarks.kafka_codecs import kafkas_figures
from benchmarks.report import parser, show
from metadata import record_codec
from metadata.record_codec import decode, encode
from metadata.records import (
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    RegisteredEndpoint,
    TopicRecord,
)
from wire.types import (
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
)

TOPIC_ID = TopicId(bytes(range(16)))
DIRECTORY_ID = DirectoryId(bytes(range(16)))
REPLICAS = (NodeId(1), NodeId(2), NodeId(3))
ROUNDS: Final = 5
VARIANTS: Final = 1000
"""Number of different records of a type."""


def partition(number: int) -> PartitionRecord:
    """One of many partitions: replicas and directories repeat, the other fields do not."""
    replicas = tuple(NodeId(1 + (number * 7 + k) % 6) for k in range(3))
    return PartitionRecord(
        partition_id=number,
        topic_id=TopicId(number.to_bytes(16, "big")),
        replicas=replicas,
        isr=replicas[: 2 + number % 2],
        leader=replicas[0],
        leader_epoch=LeaderEpoch(number % 9),
        partition_epoch=PartitionEpoch(number % 300),
    )


def placed(number: int) -> PartitionRecord:
    """A partition with directories."""
    one = partition(number)
    directories = tuple(DirectoryId(bytes((node,)) * 16) for node in one.replicas)
    return replace(one, directories=directories)


def change(number: int) -> PartitionChangeRecord:
    """A change of leader and ISR."""
    return PartitionChangeRecord(
        partition_id=number,
        topic_id=TopicId(number.to_bytes(16, "big")),
        isr=REPLICAS[: 1 + number % 3],
        leader=NodeId(2),
    )


def registration(number: int) -> RegisterBrokerRecord:
    """A broker registration."""
    return RegisterBrokerRecord(
        broker_id=NodeId(number),
        incarnation_id=TOPIC_ID,
        broker_epoch=BrokerEpoch(number),
        end_points=(RegisteredEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092),),
        log_dirs=(DIRECTORY_ID,),
    )


CASES: Final[dict[str, tuple[Callable[[int], Record], int]]] = {
    "PartitionRecord v0": (partition, 0),
    "PartitionRecord v1": (placed, 1),
    "PartitionChange v1": (change, 1),
    "TopicRecord v0": (lambda n: TopicRecord(name=f"orders-{n}", topic_id=TOPIC_ID), 0),
    "NoOpRecord v0": (lambda _: NoOpRecord(), 0),
    "RegisterBroker v3": (registration, 3),
}


def measure(count: int) -> dict[str, dict[str, int]]:
    """Figures by name of record."""
    figures: dict[str, dict[str, int]] = {}
    for name, (make, version) in CASES.items():
        records = [make(number) for number in range(VARIANTS)]
        values = [record_codec.encode(record, version) for record in records]
        assert [record_codec.decode(value) for value in values] == records
        passes = max(1, count // VARIANTS)
        figures[name] = {
            "bytes": len(values[-1]),
            "decode_per_s": rate(partial(decode_all, values), passes),
            "encode_per_s": rate(partial(encode_all, records, version), passes),
        }
    return figures


def decode_all(values: list[bytes]) -> list[Record]:
    """Decode every value once."""
    return [decode(value) for value in values]


def encode_all(records: list[Record], version: int) -> list[bytes]:
    """Encode every record once."""
    return [encode(record, version) for record in records]


def rate(call: Callable[[], object], passes: int) -> int:
    """Records per second of CPU of the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(passes):
            call()
        best = min(best, time.process_time() - begin)
    return round(passes * VARIANTS / best)


def main() -> None:
    """Print a table or one JSON object."""
    flags = parser(__doc__)
    flags.add_argument("--records", type=int, default=100_000, help="of each type in a pass")
    flags.add_argument("--kafka", action="store_true", help="Kafka's classes too")
    args = flags.parse_args()
    rows = measure(args.records)
    if args.kafka:
        for name, found in kafkas_figures("record", str(args.records)).items():
            rows[name] |= {f"kafka_{figure}": value for figure, value in found.items()}
    show("record_codec", rows, as_json=args.json)


if __name__ == "__main__":
    main()
