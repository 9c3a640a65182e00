"""Batches of the metadata log made, checked and read: records per second of CPU of one process.

    python -m benchmarks.batch_codec [--json] [--kafka] [--records 1000]

One batch of PartitionChangeRecords, as the loss of a broker gives; best of 30. With --kafka the
same by Kafka's MemoryRecords and MetadataRecordSerde (best of twelve, the JVM warm).

- encode: values to a batch, its CRC included; parse: the header and the CRC
- split: the batch to values; read: to metadata records, which is what a follower does
"""

import time
from collections.abc import Callable
from typing import Final

from benchmarks.kafka_codecs import kafkas_figures
from benchmarks.record_codec import change
from benchmarks.report import parser, show
from metadata import record_codec
from metadata.loader import committed_batches
from wire.batches.batch import encode_batch, iterate_batches, parse_batch_header

ROUNDS: Final = 30
VERSION: Final = 1


def measure(count: int) -> dict[str, int]:
    """Rates for one batch of `count` records."""
    values = [record_codec.encode(change(number), VERSION) for number in range(count)]
    content = encode_batch(values, 0, 1, 1)
    assert [len(batch.records) for batch in committed_batches(content)] == [count]

    def rate(call: Callable[[], object]) -> int:
        best = float("inf")
        for _ in range(ROUNDS):
            begin = time.process_time_ns()
            call()
            best = min(best, time.process_time_ns() - begin)
        return round(1e9 * count / best)

    def check() -> None:
        for batch in iterate_batches(content):
            assert parse_batch_header(batch.buffer).base_offset == 0
            assert batch.crc_is_valid

    return {
        "bytes": len(content),
        "encode_per_s": rate(lambda: encode_batch(values, 0, 1, 1)),
        "parse_per_s": rate(check),
        "split_per_s": rate(lambda: [batch.records() for batch in iterate_batches(content)]),
        "read_per_s": rate(lambda: list(committed_batches(content))),
    }


def main() -> None:
    """Print a table or one JSON object."""
    flags = parser(__doc__)
    flags.add_argument("--records", type=int, default=1000, help="of the batch")
    flags.add_argument("--kafka", action="store_true", help="Kafka's classes too")
    args = flags.parse_args()
    systems = {"kraftline": measure(args.records)}
    if args.kafka:
        systems["kafka"] = kafkas_figures("batch", str(args.records))
    show("batch_codec", systems, as_json=args.json)


if __name__ == "__main__":
    main()
