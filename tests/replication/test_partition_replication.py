"""Replication of a partition through changes of its leader: KIP-101, KIP-279, and random walks."""

import msgspec
import pytest

from replication.follower.following import FetchedFromLeader, append_fetched, truncation_offset
from replication.leader.delayed import (
    AwaitedOffset,
    DelayedDeleteRecords,
    DelayedProduce,
    DeletedRecords,
)
from replication.leader.delayed_fetch import DelayedFetch, FetchStatus
from replication.leader.fetch_session import FetchPartition
from replication.leader.leadership import UNCHANGED, Leadership
from replication.log_offsets import LogOffsetMetadata
from replication.reading import Fetched
from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.append_info import UnexpectedOffsetError
from tests.replication.partition_cluster import NODES, Cluster
from tests.replication.partitions import (
    CONSUMER,
    LOG_END,
    WALL_MS,
    WATERMARK,
    Brokers,
    fetch,
    from_follower,
    led,
    registration,
)
from tests.replication.walks import Walk, with_records
from tests.storage.test_unified_log import opened, produced
from wire.batches.batch import encode_batch
from wire.errors import ErrorCode, RemoteProtocolError
from wire.types import OffsetAndEpoch


def replicated(records=3):
    return with_records(Cluster(), records)


def watermark(partition):
    """The high watermark with its place."""
    return partition.end(WATERMARK, None, is_leader_only=False)


def test_followers_have_what_the_leader_has_and_learn_what_is_committed_a_round_later():
    cluster = Cluster()
    cluster.elect(1)
    cluster.append(1)
    cluster.replicate(2, 3, rounds=1)
    assert [cluster.logs[node].end_offset for node in NODES] == [1, 1, 1]
    assert [cluster.logs[node].high_watermark for node in NODES] == [0, 0, 0]
    cluster.replicate(2, 3, rounds=1)
    assert [cluster.logs[node].high_watermark for node in NODES] == [1, 0, 0]
    cluster.replicate(2, 3, rounds=1)
    assert [cluster.logs[node].high_watermark for node in NODES] == [1, 1, 1]
    assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3)


def test_a_follower_that_restarts_with_an_old_high_watermark_keeps_what_is_committed():
    """Story B: with the high watermark alone, records 1 and 2 would be cut and lost."""
    cluster = replicated()
    before = cluster.bytes_of(1)
    cluster.stop(2, high_watermark=0)
    cluster.stop(3)
    cluster.start(2)
    cluster.stop(1)
    cluster.elect(2, isr=(2,))
    assert cluster.bytes_of(2) == before
    assert cluster.logs[2].high_watermark == 3


def test_a_leader_that_returns_truncates_what_it_alone_had():
    """Story B2, KIP-101."""
    cluster = replicated()
    committed = cluster.bytes_of(1)
    cluster.append(1, acks=1)
    cluster.append(1, acks=1)
    cluster.stop(1)
    cluster.elect(2, isr=(2, 3))
    cluster.append(2)
    cluster.replicate(3, rounds=3)
    cluster.start(1)
    fetched = cluster.fetch(1)
    assert fetched.diverging_epoch == OffsetAndEpoch(3, 1)
    assert cluster.take(1, fetched, 2) == 3
    assert cluster.bytes_of(1) == committed
    cluster.replicate(1, rounds=3)
    assert cluster.bytes_of(1) == cluster.bytes_of(2) == cluster.bytes_of(3)
    assert cluster.epochs(1) == cluster.epochs(2) == [(1, 0), (2, 3)]
    cluster.answer(2)
    assert cluster.metadata.isr == (2, 3, 1)
    assert [cluster.logs[node].high_watermark for node in NODES] == [4, 4, 4]


def test_a_follower_with_an_epoch_that_the_leader_never_saw_truncates_in_two_rounds():
    """Story B3, KIP-279: three changes of leader, two of them unclean."""
    cluster = replicated(2)
    cluster.elect(1)
    cluster.append(1, acks=1)  # offset 2 of epoch 2
    cluster.stop(1)
    cluster.elect(2, isr=(2,))
    cluster.append(2)  # offsets 2 and 3 of epoch 3
    cluster.append(2)
    cluster.stop(2)
    cluster.start(1)
    cluster.elect(1, isr=(1,))
    cluster.append(1)  # offset 3 of epoch 4
    cluster.start(2)
    assert cluster.epochs(2) == [(1, 0), (3, 2)]
    fetched = cluster.fetch(2)
    assert fetched.diverging_epoch == OffsetAndEpoch(3, 2)
    assert cluster.take(2, fetched, 4) == 2
    cluster.replicate(2)
    assert cluster.bytes_of(2) == cluster.bytes_of(1)
    assert cluster.epochs(2) == cluster.epochs(1) == [(1, 0), (2, 2), (4, 3)]


def test_an_epoch_without_a_record_does_not_keep_its_leader_from_following():
    cluster = replicated()
    cluster.elect(1)
    assert cluster.epochs(1) == [(1, 0), (2, 3)]
    cluster.elect(2)
    fetched = cluster.fetch(1)
    assert fetched.diverging_epoch == OffsetAndEpoch(3, 1)
    assert cluster.take(1, fetched, 3) == 3
    assert cluster.epochs(1) == [(1, 0)]
    cluster.append(2)
    cluster.replicate(1)
    assert cluster.bytes_of(1) == cluster.bytes_of(2)


def test_an_answer_of_an_epoch_that_is_over_is_not_taken():
    cluster = replicated()
    fetched = cluster.fetch(2)
    cluster.elect(1)
    assert cluster.take(2, fetched, 1) is ErrorCode.fenced_leader_epoch
    cluster.elect(2)
    assert cluster.take(2, fetched, 3) is ErrorCode.not_leader_or_follower
    assert cluster.logs[2].end_offset == 3


def test_a_follower_begins_anew_where_its_leader_begins():
    cluster = replicated()
    cluster.stop(2)
    cluster.elect(1, isr=(1, 3))
    cluster.logs[1].raise_log_start_to(2)
    cluster.logs[2].truncate_to(1, WALL_MS)
    cluster.start(2)
    assert cluster.fetch(2) is ErrorCode.offset_out_of_range
    partition = cluster.partitions[2]
    assert partition.end(LOG_END, 2, is_leader_only=False).offset == 1
    assert partition.truncate_fully_and_start_at(2, 2, WALL_MS) is ErrorCode.none
    assert watermark(partition).place == (2, 0)


# --- steps of a follower


def row(data, high_watermark=0, log_start_offset=0):
    return FetchedFromLeader(
        records=memoryview(data), high_watermark=high_watermark, log_start_offset=log_start_offset
    )


def batches(*offsets, epoch=1):
    return b"".join(encode_batch([b"v"], offset, epoch, WALL_MS) for offset in offsets)


def test_a_follower_takes_the_high_watermark_and_the_log_start_of_its_leader():
    log = opened(MemoryVfs())
    appended = append_fetched(log, row(batches(0, 1, 2), 2, 1), 1, WALL_MS)
    assert (appended.end_offset, appended.stopped) == (3, None)
    assert appended.high_watermark_raised
    assert (log.high_watermark, log.log_start_offset) == (2, 1)
    assert not append_fetched(log, row(b"", 2), 1, WALL_MS).high_watermark_raised
    assert append_fetched(log, row(b"", 9), 1, WALL_MS).high_watermark_raised
    assert log.high_watermark == 3
    assert not append_fetched(log, row(b"", 2), 1, WALL_MS).high_watermark_raised
    assert log.high_watermark == 2
    append_fetched(log, row(b"", 2, 9), 1, WALL_MS)
    assert log.log_start_offset == 2


def test_a_batch_of_a_later_epoch_than_the_fetch_is_not_taken():
    """KAFKA-18723."""
    log = opened(MemoryVfs())
    appended = append_fetched(log, row(batches(0) + batches(1, epoch=2)), 1, WALL_MS)
    assert appended.end_offset == 1
    assert appended.stopped is not None


def following(log, epoch=1):
    """A partition that broker 1 follows in an epoch of leader 2."""
    partition = Brokers().partition()
    partition.open_log(log, 0)
    partition.make_follower(registration(2, epoch), 0)
    return partition


def test_an_empty_follower_begins_with_the_batch_that_holds_its_log_start():
    log = opened(MemoryVfs())
    log.truncate_fully_and_start_at(2, WALL_MS)
    data = encode_batch([b"a", b"b", b"c"], 0, 1, WALL_MS)
    appended = following(log).append_as_follower(row(data, 3, 2), 1, WALL_MS)
    assert appended.end_offset == 3
    assert (log.log_start_offset, log.high_watermark) == (2, 3)


def test_a_fetch_parks_at_a_follower_that_began_with_the_batch_that_holds_its_log_start():
    """The high watermark is the same offset before and after, on segments that start elsewhere."""
    log = opened(MemoryVfs())
    log.truncate_fully_and_start_at(2, WALL_MS)
    partition = following(log)
    assert watermark(partition).place == (2, 0)
    data = encode_batch([b"a", b"b", b"c"], 0, 1, WALL_MS)
    partition.append_as_follower(row(data, 2), 1, WALL_MS)
    assert watermark(partition) == LogOffsetMetadata(2, (0, 0))
    request = FetchPartition(fetch_offset=1, max_bytes=1 << 20, current_leader_epoch=1)
    params = msgspec.structs.replace(CONSUMER, max_wait_ms=9, is_leader_only=False)
    status = FetchStatus(LogOffsetMetadata(1, log.place_of(1)), request)
    assert not parked(partition, params, status).try_complete([KEY])


@pytest.mark.parametrize(("start", "own", "first"), [(3, 0, 0), (2, 1, 0), (1, 0, -1)])
def test_other_records_below_the_end_are_an_error(start, own, first):
    log = opened(MemoryVfs())
    log.truncate_fully_and_start_at(start, WALL_MS)
    partition = following(log)
    partition.append_as_follower(row(batches(*range(start, start + own))), 1, WALL_MS)
    data = encode_batch([b"a", b"b", b"c"] + [b"d"] * own, first, 1, WALL_MS)
    with pytest.raises(UnexpectedOffsetError):
        partition.append_as_follower(row(data), 1, WALL_MS)
    assert (log.log_start_offset, log.end_offset) == (start, start + own)


@pytest.mark.parametrize(
    ("diverging", "expected"),
    [
        (OffsetAndEpoch(1, 3), 1),  # less of that epoch there
        (OffsetAndEpoch(3, 3), 2),  # less of it here
        (OffsetAndEpoch(4, 4), 2),  # not known here: the end of the one below
        (OffsetAndEpoch(9, 5), 4),
        (OffsetAndEpoch(3, 9), 3),  # no epoch up to there is known
        (OffsetAndEpoch(7, 9), 4),
        (OffsetAndEpoch(1, 2), 0),  # all here are later ones
    ],
)
def test_the_offset_to_truncate_to(diverging, expected):
    log = opened(MemoryVfs())
    for epoch in (3, 3, 5, 5):
        log.append_as_leader(produced(WALL_MS), epoch, WALL_MS)
    assert truncation_offset(log, diverging) == expected


@pytest.mark.parametrize("diverging", [OffsetAndEpoch(0, -1), OffsetAndEpoch(-1, 1)])
def test_a_diverging_epoch_that_is_none_is_an_error_of_the_leader(diverging):
    log = opened(MemoryVfs())
    partition = following(log)
    partition.append_as_follower(row(batches(0, 1)), 1, WALL_MS)
    with pytest.raises(RemoteProtocolError, match="diverging"):
        partition.truncate_to_leader(diverging, 1, WALL_MS)
    assert log.end_offset == 2
    assert partition.truncate_to_leader(OffsetAndEpoch(0, 0), 1, WALL_MS) == 0


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_first_epochs_are_known(epoch):
    log = opened(MemoryVfs())
    for each in (epoch, epoch, 5):
        log.append_as_leader(produced(WALL_MS), each, WALL_MS)
    assert truncation_offset(log, OffsetAndEpoch(3, epoch)) == 2


def test_the_places_of_a_log_that_begins_anew_are_looked_up_anew():
    partition = led(3, isr=(1,), replicas=(1,))
    place = watermark(partition).place
    partition.make_follower(registration(2, 2), 0)
    partition.truncate_fully_and_start_at(3, 2, WALL_MS)
    assert watermark(partition) == LogOffsetMetadata(3, (3, 0))
    assert place != (3, 0)


def test_the_places_of_a_log_that_was_truncated_are_looked_up_anew():
    partition = led(3, isr=(1,), replicas=(1,))
    place = watermark(partition).place
    partition.make_follower(registration(2, 2), 0)
    assert partition.truncate_to_leader(OffsetAndEpoch(1, 1), 2, WALL_MS) == 1
    data = encode_batch([b"a", b"b", b"c"], 1, 2, WALL_MS)
    partition.append_as_follower(row(data, 3), 2, WALL_MS)
    high_watermark = watermark(partition)
    assert high_watermark == LogOffsetMetadata(3, partition.log.place_of(3))
    assert high_watermark.place != place


# --- random walks


class PartitionWalk(Walk):
    """Followers fetch from their leader at once."""

    KINDS = ("fetch",) * 6

    def __init__(self, seed):
        super().__init__(seed, Cluster())

    def carry_out(self, _kind, node):
        cluster, partition = self.cluster, self.cluster.partitions[node]
        if isinstance(partition.role, Leadership):
            return
        fetched = cluster.fetch(node)
        if isinstance(fetched, Fetched):
            self.truncations += fetched.diverging_epoch is not None
            cluster.take(node, fetched, partition.leader_epoch)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_committed_stays_and_is_the_same_everywhere(seed):
    PartitionWalk(seed).run()


def test_the_walks_see_logs_that_diverge():
    walks = [PartitionWalk(seed) for seed in range(4)]
    for walk in walks:
        walk.run()
    assert sum(walk.truncations for walk in walks) > 2


# --- operations that wait


KEY = (bytes(16), 0)


def parked(partition, params, status):
    """A Fetch of one partition."""

    def is_throttled(_key, replica_id):
        return not partition.leadership.is_in_sync(replica_id)

    return DelayedFetch(None, params, {KEY: status}, lambda _: partition, is_throttled)


def test_operations_wait_for_a_partition():
    partition = led(2, isr=(1, 2), replicas=(1, 2))
    produce = DelayedProduce(None, {KEY: AwaitedOffset(2)}, lambda _: partition.leadership)
    delete = DelayedDeleteRecords(None, {KEY: AwaitedOffset(1)}, lambda _: partition.leadership)
    found = fetch(partition, 0)
    request = FetchPartition(fetch_offset=0, max_bytes=1 << 20, current_leader_epoch=1)
    params = msgspec.structs.replace(CONSUMER, max_wait_ms=9)
    waiting = [produce, delete, parked(partition, params, FetchStatus(found.start, request))]
    assert [each.try_complete([KEY]) for each in waiting] == [False, False, False]
    assert fetch(partition, 2, from_follower(2)).changed.high_watermark_raised
    assert [each.try_complete([KEY]) for each in waiting] == [True, False, True]
    assert partition.delete_records_on_leader(1).changed == UNCHANGED
    assert not delete.try_complete([KEY])
    assert fetch(partition, 2, from_follower(2), log_start_offset=1).changed.low_watermark_raised
    assert delete.try_complete([KEY])
    assert produce.results == {KEY: ErrorCode.none}
    assert delete.results == {KEY: DeletedRecords(ErrorCode.none, 1)}
