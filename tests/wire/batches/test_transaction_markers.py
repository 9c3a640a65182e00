"""Markers of transactions, byte for byte as Kafka writes them."""

import pytest

from storage.logs.log_validator import stamp
from wire.batches.transaction_markers import marker_batch

COMMIT = (
    "000000000000000c0000004200000002028f0424c600300000000000000000000007d000000000000007d0"
    "0000000000000fa00003ffffffff000000012000000008000000010c00000000000900"
)
ABORT = (
    "000000000000000c0000004200000002027b3af28e00300000000000000000000007d000000000000007d0"
    "0000000000000fa00003ffffffff000000012000000008000000000c00000000000900"
)


@pytest.mark.parametrize(("is_commit", "expected"), [(True, COMMIT), (False, ABORT)])
def test_a_marker_is_that_of_kafka(is_commit, expected):
    batch = marker_batch(4000, 3, is_commit=is_commit, coordinator_epoch=9, timestamp_ms=2000)
    stamp(batch, 12, 2)
    assert bytes(batch.buffer).hex() == expected
    assert batch.crc_is_valid
