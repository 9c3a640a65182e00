"""D5 and records that were deleted: a leader may know nothing of their producer."""

import pytest

from simulator.checks.partitions.record_logs import StoredBatch
from simulator.checks.partitions.sequences import check_sequences
from simulator.checks.violation import Violation


def sent(base_offset):
    """A batch of sequence 18, of three records."""
    return StoredBatch(
        base_offset=base_offset,
        end_offset=base_offset + 3,
        leader_epoch=0,
        producer_id=0,
        producer_epoch=0,
        base_sequence=18,
        values=(b"7:18", b"7:19", b"7:20"),
        content=b"",
    )


def check(*base_offsets, log_start):
    check_sequences(
        0, [sent(each) for each in base_offsets], log_start=log_start, hasty=(), repeating=()
    )


def test_a_batch_that_was_deleted_before_its_answer_may_be_stored_again():
    check(101, 172, log_start=104)
    check(101, 130, 172, log_start=133)


@pytest.mark.parametrize(("offsets", "log_start"), [((101, 172), 103), ((101, 130, 172), 104)])
def test_a_batch_of_which_a_record_is_left_may_not(offsets, log_start):
    with pytest.raises(Violation, match=rf"\(0, 0, 18\) at {offsets[-2]} and 172"):
        check(*offsets, log_start=log_start)
