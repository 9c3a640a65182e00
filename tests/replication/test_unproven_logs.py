"""Logs that a start cannot prove to be their leader's: a follower fetches that part again."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.segments.segment import segment_name
from tests.replication.fetching import NAME, Pair, batches, key
from tests.replication.partitions import WALL_MS, Brokers, content, fetch, registration
from tests.storage.test_unified_log import opened

ONE_BATCH = {"segment_bytes": len(batches(0))}


def stored(vfs, epoch=1):
    """A log of offsets 0 to 4, a segment each."""
    log = opened(vfs, **ONE_BATCH)
    for offset in range(5):
        log.append_as_follower(memoryview(batches(offset, epoch=epoch)), 1, WALL_MS)
    return log


def gaping(epoch=1):
    """The same after a power failure that took offset 2."""
    vfs = MemoryVfs()
    stored(vfs, epoch).log.close_files()
    vfs.open(f"/d/p-0/{segment_name(2)}").truncate(0)
    return opened(vfs, **ONE_BATCH)


def following(log):
    partition = Brokers().partition(2)
    partition.open_log(log, 0)
    partition.make_follower(registration(), 0)
    return partition


def test_a_follower_fetches_again_what_is_behind_a_gap():
    """Its last epoch and end say that it lacks nothing: it would keep the gap for ever."""
    pair = Pair()
    pair.led[key()] = pair.opened(1, log=stored(MemoryVfs()))
    pair.followed[key()] = follower = pair.opened(2, log=gaping())
    pair.assign()
    assert follower.log.end_offset == 2
    assert pair.requested().topics[0].partitions[0].fetch_offset == 2
    pair.exchange(3)
    assert (follower.log.end_offset, follower.log.log.read(2, 1)) == (5, batches(2))
    pair.assign(epoch=2)
    assert follower.log.end_offset == 5, "the gap is gone"


def test_a_leader_keeps_what_is_behind_a_gap():
    """Nobody in sync has more; followers copy the gap, and later on it may be one of them."""
    partition = Brokers().partition(1)
    partition.open_log(gaping(), 0)
    partition.make_leader(registration(isr=(1,)), 0)
    assert content(fetch(partition, 3)) == content(fetch(partition, 2))
    partition.make_follower(registration(leader=2, epoch=2), 0)
    assert (partition.unproven_offset, partition.log.end_offset) == (None, 5)


@pytest.mark.parametrize(("offset", "expected"), [(4, 2), (3, 2), (2, None), (1, None)])
def test_a_gap_goes_with_what_is_behind_it(offset, expected):
    partition = following(gaping())
    assert partition.truncate_to(offset, 1, WALL_MS) == offset
    assert partition.unproven_offset == expected


def test_a_log_that_begins_anew_has_no_gap():
    partition = following(gaping())
    partition.truncate_fully_and_start_at(7, 1, WALL_MS)
    assert partition.unproven_offset is None


@pytest.mark.parametrize(("watermark", "expected"), [(1, 1), (2, 2), (4, 2), (5, 2)])
def test_without_epochs_what_is_above_the_high_watermark_is_not_proven_either(watermark, expected):
    log = gaping(epoch=-1)
    log.set_high_watermark(watermark)
    assert log.last_epoch is None
    assert following(log).unproven_offset == expected


def test_a_log_of_this_process_is_proven():
    pair = Pair(records=3)
    pair.assign()
    pair.exchange()
    assert pair.followed[key()].unproven_offset is None
    pair.fetchers.assign(key(), NAME, 1, 2)
    assert pair.followed[key()].log.end_offset == 3
