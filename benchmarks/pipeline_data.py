"""Logs for benchmarks of the pipeline: realistic records, batches of a chosen size."""

import random
import struct
from pathlib import Path
from typing import Final

from metadata import record_codec
from metadata.records import PartitionChangeRecord
from wire.batches.batch import (
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    RecordView,
    encode_batch,
    encode_records,
)
from wire.batches.compression import Codec
from wire.types import LeaderEpoch, NodeId, Offset, TopicId

_WORDS: Final = (
    b"GET POST PUT /index /orders /users 200 201 404 500 session user order item alpha beta "
    b"gamma delta warn error info debug timeout retry 10.0.0.1 10.0.3.7 ms bytes"
).split()
_DISTINCT: Final = 64
_TIME_MS: Final = 1_700_000_000_000


def write_log(folder: Path, size: int, value_bytes: int, batch_bytes: int, codec: Codec) -> int:
    """Write a partition of about `size` plain bytes in 64 MiB segments; returns the record count.

    The records have 12-byte keys and every fourth a header; 64 different batches are repeated.
    """
    per_batch = max(1, batch_bytes // (value_bytes + 24))
    batches = [_batch(random.Random(seed), per_batch, value_bytes, codec) for seed in range(64)]
    plain = per_batch * (value_bytes + 24)
    folder.mkdir(parents=True)
    offset, written, parts = 0, 0, []
    start = 0
    for number in range(size // plain + 1):
        batch = bytearray(batches[number % _DISTINCT])
        # The CRC does not cover offset and epoch.
        struct.pack_into(">q", batch, 0, offset)
        struct.pack_into(">i", batch, LOG_OVERHEAD_BYTES, 3)
        parts.append(bytes(batch))
        written += len(batch)
        offset += per_batch
        if written >= 64 << 20:
            (folder / f"{start:020d}.log").write_bytes(b"".join(parts))
            start, written, parts = offset, 0, []
    if parts:
        (folder / f"{start:020d}.log").write_bytes(b"".join(parts))
    return offset


def write_metadata_log(folder: Path, records: int, per_batch: int) -> int:
    """Write a metadata log of PartitionChange records; returns the record count."""
    values = [
        record_codec.encode(
            PartitionChangeRecord(
                partition_id=number % 50,
                topic_id=TopicId(bytes([7, number % 97]) * 8),
                isr=(NodeId(1), NodeId(2 + number % 3)),
                leader=NodeId(1 + number % 3),
            ),
            0,
        )
        for number in range(records // per_batch * per_batch)
    ]
    folder.mkdir(parents=True)
    content = b"".join(
        encode_batch(values[at : at + per_batch], at, 5, _TIME_MS + at)
        for at in range(0, len(values), per_batch)
    )
    (folder / f"{0:020d}.log").write_bytes(content)
    return len(values)


def _batch(rng: random.Random, count: int, value_bytes: int, codec: Codec) -> bytes:
    records = []
    for number in range(count):
        words = (rng.choice(_WORDS) for _ in range(value_bytes // 3 + 1))
        value = b" ".join(words)[:value_bytes]
        headers = (("trace", b"%08x" % rng.getrandbits(32)),) if number % 4 == 0 else ()
        key = b"key-%08d" % rng.randrange(10**8)
        records.append(RecordView(Offset(number), _TIME_MS + number, key, value, headers))
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(3),
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp_ms=_TIME_MS,
        max_timestamp_ms=_TIME_MS + count,
        records_count=count,
    )
    return encode_records(header, records)
