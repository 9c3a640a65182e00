"""Batches as a producer sends them: the leader gives them offsets and its epoch."""

from collections.abc import Sequence
from typing import Final

from wire.batches.batch import TRANSACTIONAL_BIT, BatchHeader, RecordView, encode_records
from wire.batches.compression import Codec
from wire.types import LeaderEpoch, Offset

NONE: Final = -1
"""Id, epoch or sequence of a producer that is not idempotent."""


def produced_batch(
    records: Sequence[RecordView],
    codec: Codec = Codec.NONE,
    *,
    producer_id: int = NONE,
    producer_epoch: int = NONE,
    base_sequence: int = NONE,
    is_transactional: bool = False,
) -> bytes:
    """Encode a batch with CreateTime.

    Args:
        records: one at least, with the offsets from 0 on.
        codec: of the records.
        producer_id: of an idempotent producer.
        producer_epoch: of it.
        base_sequence: number of the first record among those that it sent to the partition.
        is_transactional: of a transaction of the producer.
    """
    assert records, "a batch without a record"
    assert records[-1].offset == len(records) - 1, f"{records[-1].offset=} {len(records)=}"
    times_ms = [record.timestamp_ms for record in records]
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=LeaderEpoch(-1),
        attributes=int(codec) | (TRANSACTIONAL_BIT if is_transactional else 0),
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=times_ms[0],
        max_timestamp_ms=max(times_ms),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    return encode_records(header, records)
