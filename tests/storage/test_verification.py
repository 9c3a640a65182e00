"""A leader appends what belongs to a transaction only where the coordinator knows of it."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.log_validator import AppendRules
from storage.producers.append_source import COORDINATOR, AppendSource
from storage.producers.producer_state import Origin, ProducerStateError
from storage.producers.verification import VerificationGuard
from tests.storage.test_unified_log import NOW, content, opened, produced, replicated
from wire.batches.transaction_markers import marker_batch
from wire.errors import ErrorCode

TRANSACTIONAL = 0x10
VERIFYING = AppendRules()


def of(sequence=0, epoch=0, producer=7, **fields):
    """A transactional batch."""
    return produced(
        NOW, producer=producer, epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL, **fields
    )


def begin(log, batch, *, bumps=False, now_ms=NOW):
    return log.begin_verification(batch.header, now_ms, supports_epoch_bump=bumps)


def append(log, batch, guard=None):
    """The base offset of an append, or the error."""
    try:
        return log.append_as_leader(batch, 1, NOW, AppendSource(guard=guard)).base_offset
    except ProducerStateError as error:
        return error.code


def end(log, epoch=0, *, version=0, is_commit=False, producer=7):
    """Append a marker."""
    batch = marker_batch(
        producer, epoch, is_commit=is_commit, coordinator_epoch=1, timestamp_ms=NOW
    )
    source = AppendSource(Origin.COORDINATOR, transaction_version=version)
    try:
        return log.append_as_leader(batch, 1, NOW, source).base_offset
    except ProducerStateError as error:
        return error.code


@pytest.fixture
def log():
    return opened(MemoryVfs(), VERIFYING)


def test_a_transaction_begins_with_the_guard_of_its_verification(log):
    assert append(log, of()) is ErrorCode.invalid_txn_state
    guard = begin(log, of())
    assert append(log, of()) is ErrorCode.invalid_txn_state
    assert append(log, of(), VerificationGuard()) is ErrorCode.invalid_txn_state
    assert append(log, of(), guard) == 0
    assert append(log, of(1)) == 1, "it is open: no further guard is asked for"
    assert begin(log, of(2)) is None
    assert len(log.producers.verifications) == 0


def test_a_coordinator_needs_a_guard_too(log):
    with pytest.raises(ProducerStateError, match="not part of an ongoing transaction"):
        log.append_as_leader(of(), 1, NOW, COORDINATOR)
    source = AppendSource(Origin.COORDINATOR, begin(log, of()))
    assert log.append_as_leader(of(), 1, NOW, source).base_offset == 0


def test_without_verification_no_guard_is_made_or_asked_for():
    log = opened(MemoryVfs())
    assert begin(log, of()) is None
    assert append(log, of()) == 0
    assert begin(log, of(producer=8), bumps=True) is not None, "the partition is to be added"


def test_batches_without_a_transaction_need_no_guard(log):
    assert append(log, produced(NOW, producer=7)) == 0
    assert append(log, produced(NOW)) == 1


def test_a_marker_ends_a_verification_whose_answer_comes_late(log):
    """The coordinator said yes, then ended the transaction; the next one has another guard."""
    late = begin(log, of())
    assert end(log) == 0
    assert append(log, of(), late) is ErrorCode.invalid_txn_state
    again = begin(log, of())
    assert again is not late
    assert append(log, of(), late) is ErrorCode.invalid_txn_state
    assert append(log, of(), again) == 1


def test_requests_of_one_transaction_share_the_guard(log):
    guard = begin(log, of())
    assert begin(log, of(1)) is guard


def test_of_a_duplicate_no_guard_is_asked_for(log):
    append(log, of(), begin(log, of()))
    end(log)
    assert append(log, of()) == 0, "the first append is answered again"


def test_an_older_epoch_is_told_so_before_it_is_verified(log):
    append(log, of(epoch=3), begin(log, of(epoch=3)))
    with pytest.raises(ProducerStateError) as refused:
        begin(log, of(epoch=2))
    assert refused.value.code is ErrorCode.invalid_producer_epoch
    assert append(log, of(epoch=2)) is ErrorCode.invalid_producer_epoch


def test_an_open_transaction_of_another_epoch_is_another_one(log):
    append(log, of(), begin(log, of()))
    assert append(log, of(epoch=1)) is ErrorCode.invalid_txn_state
    assert begin(log, of(epoch=1)) is not None


@pytest.mark.parametrize("bumps", [False, True])
def test_markers_of_clients_that_bump_leave_the_verification_of_the_next_epoch(log, bumps):
    """The marker of epoch 1 ends the transaction of epoch 0; epoch 1 may have asked before."""
    append(log, of(), begin(log, of(), bumps=bumps))
    guard = begin(log, of(epoch=1), bumps=bumps)
    assert end(log, epoch=1, version=2) == 1
    if bumps:
        assert append(log, of(epoch=1), guard) == 2
    else:
        assert append(log, of(epoch=1), guard) is ErrorCode.invalid_txn_state


def test_markers_of_clients_that_bump_end_the_verification_of_an_older_epoch(log):
    begin(log, of(), bumps=True)
    assert end(log, epoch=1, version=2) == 0
    assert len(log.producers.verifications) == 0


# ---- sequences ---------------------------------------------------------------------------------


def test_a_batch_may_not_overtake_one_that_is_being_verified(log):
    guard = begin(log, of(3))
    assert begin(log, of(5)) is guard
    assert append(log, of(5), guard) is ErrorCode.out_of_order_sequence_number
    assert append(log, of(3), guard) == 0


def test_the_lowest_sequence_counts_whichever_asked_first(log):
    guard = begin(log, of(5))
    begin(log, of(3))
    assert append(log, of(5), guard) is ErrorCode.out_of_order_sequence_number
    assert append(log, of(3), guard) == 0


def test_a_newer_epoch_has_its_own_lowest_sequence(log):
    """Also where its sequence is the higher one."""
    begin(log, of(3))
    guard = begin(log, of(4, epoch=1))
    assert append(log, of(4, epoch=1), guard) == 0


def test_an_older_epoch_does_not_change_the_lowest_sequence(log):
    guard = begin(log, of(4, epoch=1))
    begin(log, of(3))
    assert append(log, of(4, epoch=1), guard) == 0


def test_a_client_that_bumps_begins_with_sequence_0_where_nothing_is_known_of_it(log):
    guard = begin(log, of(4), bumps=True)
    assert append(log, of(4), guard) is ErrorCode.out_of_order_sequence_number
    begin(log, of(), bumps=True)
    assert append(log, of(), guard) == 0
    end(log)
    assert append(log, of(1), begin(log, of(1), bumps=True)) == 2, "now it is known"


# ---- markers of clients that bump their epochs -------------------------------------------------


@pytest.mark.parametrize(("version", "expected"), [(0, 1), (1, 1), (2, None)])
def test_a_marker_of_version_2_has_an_epoch_above_that_of_the_records(log, version, expected):
    append(log, of(epoch=4), begin(log, of(epoch=4)))
    found = end(log, epoch=4, version=version)
    assert found == (ErrorCode.invalid_producer_epoch if expected is None else expected)
    assert end(log, epoch=5, version=version) == (1 if expected is None else 2)


def test_a_repeated_marker_does_not_end_the_next_transaction(log):
    append(log, of(), begin(log, of(), bumps=True))
    assert end(log, epoch=1, version=2) == 1
    append(log, of(epoch=1), begin(log, of(epoch=1), bumps=True))
    assert end(log, epoch=1, version=2) is ErrorCode.invalid_producer_epoch
    assert log.producers.first_undecided_offset == 2


def test_a_repeated_marker_is_taken_again_while_no_transaction_is_open(log):
    """Its coordinator did not get the answer, or is another one."""
    append(log, of(), begin(log, of(), bumps=True))
    assert [end(log, epoch=1, version=2) for _ in range(2)] == [1, 2]
    assert end(log, epoch=0, version=2) is ErrorCode.invalid_producer_epoch


def test_followers_take_markers_of_any_version_and_end_verifications(log):
    follower = opened(MemoryVfs(), VERIFYING)
    for producer in (7, 8):
        begin(follower, of(producer=producer))
    append(log, of(), begin(log, of()))
    end(log, epoch=0)
    replicated(follower, content(log, 0))
    assert follower.producers.first_undecided_offset is None
    assert follower.producers.verifications.of(7) is None
    assert follower.producers.verifications.of(8) is not None


# ---- time --------------------------------------------------------------------------------------


def test_a_verification_without_an_answer_expires(log):
    expiration_ms = log.producers.expiration_ms
    begin(log, of(producer=7), now_ms=NOW)
    begin(log, of(producer=8), now_ms=NOW + 1)
    log.producers.remove_expired(NOW + expiration_ms)
    assert log.producers.verifications.of(7) is None
    assert log.producers.verifications.of(8) is not None


def test_a_transaction_is_late_when_its_newest_record_is_old():
    log = opened(MemoryVfs())
    assert not log.producers.has_late_transaction(1 << 50, 0)
    append(log, of(producer=7))
    append(log, of(producer=8))
    late_ms = NOW + 1_000 + 300_000
    assert not log.producers.has_late_transaction(late_ms, 1_000)
    assert log.producers.has_late_transaction(late_ms + 1, 1_000)
    end(log, producer=7)
    end(log, producer=8)
    assert not log.producers.has_late_transaction(late_ms + 1, 1_000)


def test_a_transaction_without_timestamps_is_never_late():
    log = opened(MemoryVfs())
    append(log, produced(0, producer=7, attributes=TRANSACTIONAL))
    assert not log.producers.has_late_transaction(1 << 50, 1_000)
