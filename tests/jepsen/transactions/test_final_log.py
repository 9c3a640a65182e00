"""Records of a partition, sorted by its own markers."""

import pytest

from jepsen.transactions.final_log import DamageError, Resolving
from wire.batches.batch import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    RecordView,
    encode_control_batch,
    encode_records,
)
from wire.batches.transaction_markers import marker_batch

NOW_MS = 1_700_000_000_000


def records(base, producer_id, *values, is_transactional=True, epoch=3):
    rows = [RecordView(base + at, NOW_MS, None, b"%d" % value) for at, value in enumerate(values)]
    header = BatchHeader(
        base_offset=base, leader_epoch=epoch, producer_id=producer_id, producer_epoch=0,
        base_sequence=0, last_offset_delta=len(rows) - 1, records_count=len(rows),
        base_timestamp_ms=NOW_MS, max_timestamp_ms=NOW_MS,
        attributes=TRANSACTIONAL_BIT if is_transactional else 0,
    )  # fmt: skip
    return bytes(encode_records(header, rows))


def marker(base, producer_id, *, is_commit):
    batch = marker_batch(
        producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    content = bytearray(batch.buffer)
    content[:8] = base.to_bytes(8, "big")
    return bytes(content)


def values(rows):
    return [(row.offset, int(row.content)) for row in rows]


def test_records_belong_to_the_next_marker_of_their_producer():
    found = Resolving()
    found.take(
        records(0, 1, 10, 11)
        + records(2, 2, 20)
        + records(3, 1, 12)
        + marker(4, 2, is_commit=True)
        + records(5, -1, 30, is_transactional=False)
        + marker(6, 1, is_commit=True)
        + records(7, 2, 21)
        + marker(8, 2, is_commit=False)
        + records(9, 1, 13)
    )
    assert values(found.rows()) == [(0, 10), (1, 11), (2, 20), (3, 12), (5, 30)]
    assert found.rows()[0].leader_epoch == 3
    assert values(found.aborted) == [(7, 21)]
    assert found.open_producers == [1]
    assert found.position == 10


def test_a_log_comes_in_parts():
    whole = records(0, 1, 10, 11) + marker(2, 1, is_commit=True)
    found = Resolving()
    found.take(whole[:-1])
    assert (found.position, found.open_producers) == (2, [1])
    found.take(whole)  # from a batch on that it had taken
    assert values(found.rows()) == [(0, 10), (1, 11)]
    assert (found.position, found.open_producers) == (3, [])
    found.take(b"")
    assert found.position == 3


def test_damage():
    content = bytearray(records(0, 1, 10))
    content[-1] ^= 1
    with pytest.raises(DamageError, match="checksum at offset 0"):
        Resolving().take(bytes(content))
    with pytest.raises(DamageError):
        Resolving().take(bytes(80))
    leader = encode_control_batch([(2, b"\0\0")], 0, 1, NOW_MS)
    with pytest.raises(DamageError, match="type"):
        Resolving().take(bytes(leader))
