"""Batches of coordinators' records, as a leader appends them.

apache/kafka: coordinator-common/.../runtime/CoordinatorRuntime.java (append)
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from coordinator.runtime.write import ProducerIdAndEpoch
from wire.batches.batch import (
    TRANSACTIONAL_BIT,
    Batch,
    BatchHeader,
    parse_batch_header,
    with_header,
)
from wire.batches.compression import Codec, compress
from wire.batches.records import encode_record
from wire.types import LeaderEpoch, Offset

RECORD_OVERHEAD_BYTES: Final = 28
"""Bound of what a record takes besides key and value: five varints, attributes, header count."""


class EncodedRecord(msgspec.Struct, frozen=True, gc=False):
    """Key and value of a record that shall be appended."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


def records_batch(
    records: Sequence[EncodedRecord], producer: ProducerIdAndEpoch | None, codec: Codec
) -> Batch:
    """A batch at offset 0, in a buffer that a leader may stamp; of a producer's transaction."""
    base_ms = records[0].timestamp_ms
    section = b"".join(
        [
            encode_record(each.timestamp_ms - base_ms, delta, each.key, each.value, ())
            for delta, each in enumerate(records)
        ]
    )
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=int(codec) | (TRANSACTIONAL_BIT if producer is not None else 0),
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max([each.timestamp_ms for each in records]),
        producer_id=-1 if producer is None else producer.producer_id,
        producer_epoch=-1 if producer is None else producer.producer_epoch,
        records_count=len(records),
    )
    content = with_header(header, compress(codec, section), len(records))
    buffer = memoryview(bytearray(content))
    return Batch(parse_batch_header(buffer), buffer, 0)
