"""Fetches of a partition: what consumers and followers read, and what a follower's fetch moves."""

import msgspec
import pytest

from replication.leader.fetch_session import FetchPartition
from replication.leader.isr import CommittedPartitionState, PendingExpandIsr
from replication.leader.leadership import UNCHANGED, Changed, is_raised
from replication.log_offsets import LogOffsetMetadata
from replication.reading import diverging_epoch
from simulator.cluster.memory_vfs import MemoryVfs
from tests.replication.partitions import (
    CONSUMER,
    LOG_END,
    STABLE,
    WALL_MS,
    WATERMARK,
    Brokers,
    append,
    content,
    fetch,
    from_follower,
    led,
    registration,
    with_isolation,
)
from tests.storage.test_unified_log import opened, produced
from wire.batches.batch import iterate_batches
from wire.errors import ErrorCode
from wire.types import OffsetAndEpoch

NOT_LEADER = ErrorCode.not_leader_or_follower
OUT_OF_RANGE = ErrorCode.offset_out_of_range
IN_SYNC = {"isr": (1, 2), "replicas": (1, 2)}


def offsets(fetched):
    return [batch.header.base_offset for batch in iterate_batches(content(fetched))]


# --- what is read


def test_a_read_ends_where_its_isolation_does():
    partition = led(1, **IN_SYNC)
    partition.append_as_leader(
        produced(WALL_MS, producer=7, attributes=0x10), required_acks=1, wall_ms=WALL_MS, now_ms=0
    )
    append(partition, 0)
    fetch(partition, 2, from_follower())
    for isolation, expected in ((LOG_END, [0, 1, 2]), (WATERMARK, [0, 1]), (STABLE, [0])):
        fetched = fetch(partition, 0, with_isolation(isolation))
        assert offsets(fetched) == expected
        assert (fetched.high_watermark, fetched.last_stable_offset) == (2, 1)
        assert (fetched.log_start_offset, fetched.log_end_offset) == (0, 3)
        assert fetched.start == LogOffsetMetadata(0, (0, 0))
        assert fetched.changed == UNCHANGED
    beyond = fetch(partition, 2)
    assert (beyond.records, beyond.start) == (None, LogOffsetMetadata(2, partition.log.place_of(2)))
    assert fetch(partition, 3).start.place == partition.log.place_of(3)


def test_the_start_of_a_read_is_that_of_the_batch():
    partition = led(1, isr=(1,), replicas=(1,))
    append(partition, 0, count=3)
    fetched = fetch(partition, 2)
    assert offsets(fetched) == [1]
    assert fetched.start == LogOffsetMetadata(2, partition.log.place_of(1))


def test_a_read_has_a_size():
    partition = led(3, isr=(1,), replicas=(1,))
    size = fetch(partition, 0).records.size_bytes // 3
    assert offsets(fetch(partition, 0, max_bytes=2 * size)) == [0, 1]
    assert offsets(fetch(partition, 0, max_bytes=1)) == [0]
    assert offsets(fetch(partition, 0, max_bytes=1, at_least_one=False)) == []


def test_an_offset_outside_the_log_is_out_of_range():
    partition = led(3, isr=(1,), replicas=(1,))
    partition.delete_records_on_leader(1)
    assert fetch(partition, 0) is OUT_OF_RANGE
    assert offsets(fetch(partition, 1)) == [1, 2]
    assert offsets(fetch(partition, 3)) == []
    assert fetch(partition, 4) is OUT_OF_RANGE


def test_the_leader_epoch_of_a_fetch_is_compared():
    partition = led(1, epoch=5, isr=(1,))
    assert fetch(partition, 0, current_leader_epoch=4) is ErrorCode.fenced_leader_epoch
    assert fetch(partition, 0, current_leader_epoch=6) is ErrorCode.unknown_leader_epoch
    assert offsets(fetch(partition, 0, current_leader_epoch=5)) == [0]


def test_consumers_may_read_from_a_follower():
    partition = led(2, isr=(1,), replicas=(1,))
    partition.make_follower(registration(2, 2), 0)
    assert fetch(partition, 0) is NOT_LEADER
    anywhere = msgspec.structs.replace(CONSUMER, is_leader_only=False)
    assert offsets(fetch(partition, 0, anywhere, current_leader_epoch=2)) == [0, 1]


# --- diverging epochs


def with_epochs(*epochs):
    """A log with one record in each of the epochs."""
    log = opened(MemoryVfs())
    for epoch in epochs:
        log.append_as_leader(produced(WALL_MS), epoch, WALL_MS)
    return log


@pytest.mark.parametrize(
    ("offset", "last_epoch", "expected"),
    [
        (4, None, None),
        (4, 5, None),
        (9, 5, OffsetAndEpoch(4, 5)),  # longer than here
        (2, 3, None),
        (3, 3, OffsetAndEpoch(2, 3)),  # more of that epoch than there was
        (2, 4, OffsetAndEpoch(2, 3)),  # an epoch that nobody here had
        (4, 6, OUT_OF_RANGE),
        (1, 2, OUT_OF_RANGE),
        (0, 3, OUT_OF_RANGE),  # below the log start
        (1, 3, None),
    ],
)
def test_the_end_of_the_last_common_epoch(offset, last_epoch, expected):
    log = with_epochs(3, 3, 5, 5)
    log.set_high_watermark(4)
    log.raise_log_start_to(1)
    if last_epoch == 2:
        log.truncate_fully_and_start_at(4, WALL_MS)
    request = FetchPartition(fetch_offset=offset, max_bytes=1, last_fetched_epoch=last_epoch)
    assert diverging_epoch(log, request) == expected


def test_a_follower_that_diverges_gets_no_records_and_is_not_moved():
    partition = led(log=with_epochs(3, 3, 5), epoch=6)
    fetched = fetch(partition, 3, from_follower(), last_fetched_epoch=4)
    assert fetched.diverging_epoch == OffsetAndEpoch(2, 3)
    assert (fetched.records, fetched.changed) == (None, UNCHANGED)
    assert fetched.start == LogOffsetMetadata(3)
    assert fetched.log_end_offset == 3
    assert partition.leadership.replicas[2].log_end is None
    assert fetch(partition, 9, from_follower(), last_fetched_epoch=7) is OUT_OF_RANGE


# --- followers


def test_a_fetch_moves_the_replica_and_the_high_watermark():
    partition = led(3, **IN_SYNC)
    fetched = fetch(partition, 2, from_follower(), now_ms=7, log_start_offset=0)
    assert offsets(fetched) == [2]
    assert fetched.high_watermark == 0
    assert fetched.changed == Changed(high_watermark_raised=True, low_watermark_raised=True)
    replica = partition.leadership.replicas[2]
    assert replica.log_end == LogOffsetMetadata(2, partition.log.place_of(2))
    assert (replica.leader_end_offset, replica.last_fetch_ms, replica.broker_epoch) == (3, 7, 12)
    assert partition.leadership.high_watermark == 2
    again = fetch(partition, 2, from_follower(), now_ms=8)
    assert again.changed == UNCHANGED
    assert partition.leadership.replicas[2].last_fetch_ms == 8


def test_a_fetch_that_waited_does_not_move_the_replica():
    partition = led(3, **IN_SYNC)
    stale = from_follower(replica_epoch=1)
    fetched = fetch(partition, 2, stale, updates_replica=False)
    assert (offsets(fetched), fetched.changed) == ([2], UNCHANGED)
    assert partition.leadership.replicas[2].log_end is None


def test_a_fetch_at_the_same_offset_raises_nothing_by_itself():
    brokers = Brokers()
    partition = led(1, brokers=brokers, isr=(1,), replicas=(1, 2))
    brokers.registered[2].fenced = True
    fetch(partition, 0, from_follower())
    assert partition.leadership.high_watermark == 1
    append(partition, 0)
    assert partition.leadership.high_watermark == 2


def test_a_follower_that_is_no_replica_here_is_not_known():
    partition = led(1, **IN_SYNC)
    for replica_id in (3, 1):
        params = from_follower(replica_id)
        assert fetch(partition, 0, params) is NOT_LEADER
        code = ErrorCode.unknown_leader_epoch
        assert fetch(partition, 0, params, current_leader_epoch=1) is code
    partition.make_follower(registration(2, 2), 0)
    elsewhere = msgspec.structs.replace(from_follower(), is_leader_only=False)
    assert fetch(partition, 0, elsewhere) is NOT_LEADER


def test_a_fetch_of_an_earlier_registration_is_stale():
    brokers = Brokers()
    partition = led(1, brokers=brokers, **IN_SYNC)
    assert fetch(partition, 1, from_follower(replica_epoch=11)) is NOT_LEADER
    assert partition.leadership.replicas[2].log_end is None
    assert fetch(partition, 2, from_follower(replica_epoch=11)) is OUT_OF_RANGE
    assert fetch(partition, 1, from_follower(replica_epoch=12)).changed.high_watermark_raised
    without = msgspec.structs.replace(from_follower(), replica_epoch=None)
    assert fetch(partition, 1, without).changed == UNCHANGED


def test_a_log_start_of_a_follower_above_that_of_the_leader_raises_nothing():
    partition = led(1, **IN_SYNC)
    fetch(partition, 1, from_follower())
    assert fetch(partition, 1, from_follower(), log_start_offset=1).changed == UNCHANGED
    assert partition.leadership.low_watermark == 0


def test_a_follower_that_does_not_say_its_log_start_has_no_low_watermark():
    partition = led(1, **IN_SYNC)
    fetched = fetch(partition, 1, from_follower(), log_start_offset=None)
    assert fetched.changed == Changed(high_watermark_raised=True)
    assert partition.leadership.low_watermark is None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(None, 0, True), (1, 1, False), (1, 2, True), (2, 1, False), (2, None, False),
     (None, None, False)],
)  # fmt: skip
def test_a_low_watermark_is_raised_when_it_is_known_and_higher(before, after, expected):
    assert is_raised(before, after) is expected


# --- expansion


def test_a_follower_that_has_all_that_is_committed_joins_and_counts_at_once():
    partition = led(2, isr=(1,), replicas=(1, 2))
    partition.leadership.maybe_shrink_isr(0)
    assert partition.leadership.high_watermark == 2
    assert fetch(partition, 1, from_follower()).changed.proposal is None
    fetched = fetch(partition, 2, from_follower())
    proposal = fetched.changed.proposal
    assert proposal.isr == ((1, 11), (2, 12))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 1)
    assert isinstance(partition.leadership.state, PendingExpandIsr)
    assert partition.leadership.maximal_isr_size == 2
    assert partition.leadership.isr_size == 1
    append(partition, 10**6)
    assert partition.leadership.high_watermark == 2
    fetched = fetch(partition, 3, from_follower(), now_ms=10**6)
    assert fetched.changed == Changed(high_watermark_raised=True)


def test_a_follower_joins_when_it_has_all_up_to_the_epoch_start():
    log = with_epochs(3, 3)
    partition = led(log=log, epoch=5, isr=(1, 2))
    assert fetch(partition, 1, from_follower(3)).changed.proposal is None
    assert fetch(partition, 2, from_follower(3)).changed.proposal.isr == (
        (1, 11),
        (2, None),
        (3, 13),
    )


@pytest.mark.parametrize("trait", ["fenced", "in_controlled_shutdown"])
def test_a_follower_that_is_not_eligible_does_not_join(trait):
    brokers = Brokers()
    partition = led(1, brokers=brokers, isr=(1,))
    setattr(brokers.registered[2], trait, True)
    assert fetch(partition, 1, from_follower()).changed.proposal is None
    assert partition.leadership.state == CommittedPartitionState((1,))


def test_epochs_count_from_zero():
    partition = led(log=with_epochs(0, 0, 1), epoch=2)
    fetched = fetch(partition, 3, from_follower(), last_fetched_epoch=0)
    assert fetched.diverging_epoch == OffsetAndEpoch(2, 0)
    fetched = fetch(partition, 4, from_follower(), last_fetched_epoch=1)
    assert fetched.diverging_epoch == OffsetAndEpoch(3, 1)
    assert partition.end_of_epoch(None, 0, is_leader_only=True) == OffsetAndEpoch(2, 0)
    assert partition.end_of_epoch(None, 1, is_leader_only=True) == OffsetAndEpoch(3, 1)
