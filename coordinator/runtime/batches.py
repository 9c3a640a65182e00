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
    RecordView,
    encode_records,
    parse_batch_header,
)
from wire.batches.compression import Codec
from wire.types import LeaderEpoch, Offset

RECORD_OVERHEAD_BYTES: Final = 28
"""Bound of what a record takes besides key and value: five varints, attributes, header count."""


class EncodedRecord(msgspec.Struct, frozen=True, gc=False):
    """Key and value of a record that shall be appended."""

    key: bytes
    value: bytes | None
    timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """Bound of its bytes in a batch."""
        return len(self.key) + len(self.value or b"") + RECORD_OVERHEAD_BYTES


def records_batch(
    records: Sequence[EncodedRecord], producer: ProducerIdAndEpoch | None, codec: Codec
) -> Batch:
    """A batch at offset 0, in a buffer that a leader may stamp; of a producer's transaction."""
    views = [
        RecordView(Offset(delta), record.timestamp_ms, record.key, record.value)
        for delta, record in enumerate(records)
    ]
    times = [view.timestamp_ms for view in views]
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=int(codec) | (TRANSACTIONAL_BIT if producer is not None else 0),
        last_offset_delta=len(views) - 1,
        base_timestamp_ms=times[0],
        max_timestamp_ms=max(times),
        producer_id=-1 if producer is None else producer.producer_id,
        producer_epoch=-1 if producer is None else producer.producer_epoch,
        records_count=len(views),
    )
    buffer = memoryview(bytearray(encode_records(header, views)))
    return Batch(parse_batch_header(buffer), buffer, 0)
