"""The control batch that ends the transaction of a producer at a partition.

One record: key INT16 version 0, INT16 type (0 ABORT, 1 COMMIT); value INT16 version 0, INT32 epoch
of the coordinator. apache/kafka: clients/.../common/record/MemoryRecords.java
(`withEndTransactionMarker`)
"""

import struct
from typing import Final

from wire.batches.batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    Batch,
    BatchHeader,
    RecordView,
    encode_records,
    parse_batch_header,
)
from wire.batches.control_records import ControlType
from wire.types import LeaderEpoch, Offset

MARKER_BYTES: Final = 78
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_NO_EPOCH: Final = LeaderEpoch(-1)


def marker_batch(
    producer_id: int,
    producer_epoch: int,
    *,
    is_commit: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
) -> Batch:
    """The batch, in a buffer that a leader may stamp."""
    assert producer_id >= 0, f"{producer_id=}"
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=_NO_EPOCH,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
        last_offset_delta=0,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        records_count=1,
    )
    key = _KEY.pack(0, ControlType.COMMIT if is_commit else ControlType.ABORT)
    record = RecordView(Offset(0), timestamp_ms, key, _VALUE.pack(0, coordinator_epoch))
    buffer = memoryview(bytearray(encode_records(header, [record])))
    assert len(buffer) == MARKER_BYTES, f"{len(buffer)=}"
    return Batch(parse_batch_header(buffer), buffer, 0)
