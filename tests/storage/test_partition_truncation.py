"""Truncation of a partition's log: by search, without a sync, and its producers in pieces."""

import random
from itertools import pairwise

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.producers.append_source import COORDINATOR
from storage.producers.producer_snapshot import decode_producer_snapshot
from storage.segments.index_loading import rebuilt_indexes
from storage.segments.segment import Segment
from tests.storage.golden import put
from tests.storage.test_unified_log import NOW, content, marker, opened, produced
from wire.batches.batch import encode_batch, iterate_batches
from wire.types import LeaderEpoch, Offset

INTERVAL = 300
NAME = f"/d/p-0/{0:020d}"


def disk():
    vfs = MemoryVfs()
    vfs.make_directory("/d/p-0")
    vfs.sync_directory("/")
    vfs.sync_directory("/d")
    return vfs


def filled(count, **settings):
    """A log of batches of one record, with rising and falling timestamps."""
    vfs = disk()
    log = opened(vfs, **({"index_interval_bytes": INTERVAL, "syncs_cuts": False} | settings))
    for number in range(count):
        log.append_as_leader(produced(NOW + 10 * (number % 7) + number), 1, NOW)
    return vfs, log


def done_by(vfs, call):
    """Reads of the segment, and the changes and syncs that a call makes."""
    reads = []

    def note(kind, path):
        if kind == "read" and path.endswith(".log"):
            reads.append(path)

    vfs.failing, vfs.operation_log = note, []
    call()
    changes = vfs.operation_log
    vfs.failing = vfs.operation_log = None
    return len(reads), changes


def state(indexes):
    return (
        indexes.offsets.entries(),
        indexes.end_offset,
        indexes.first_timestamp_ms,
        indexes.max_timestamp_ms,
        indexes.offset_of_max_timestamp,
        indexes._bytes_since_entry,
    )


def test_a_cut_is_found_by_the_index_and_syncs_nothing():
    """2,000 batches cost as much as 200. apache/kafka: LogSegment.truncateTo"""
    costs = []
    for count in (200, 2_000):
        vfs, log = filled(count)
        log.log.segments[-1]._recent.clear()
        costs.append(done_by(vfs, lambda log=log, count=count: log.truncate_to(count - 5, NOW)))
        assert log.end_offset == count - 5
    assert costs[0] == costs[1]
    reads, changes = costs[0]
    assert reads == 3  # where the batch is, its header, and the batches behind the last entry
    assert changes == [("truncate", f"{NAME}.log")]


def test_a_cut_needs_no_more_of_the_segment_than_an_interval():
    vfs, log = filled(2_000)
    first = log.log.segments[-1].find(1_900)
    put(vfs, f"{NAME}.log", bytes(first // 2) + vfs.read(f"{NAME}.log")[first // 2 :])
    assert log.truncate_to(1_950, NOW)
    assert log.end_offset == 1_950


@pytest.mark.parametrize("is_loaded", [False, True])
def test_indexes_that_were_cut_are_those_of_a_scan(is_loaded):
    for end_offset in (0, 1, 3, 4, 5, 21, 22, 23, 59, 60):
        vfs, log = filled(60)
        if is_loaded:
            log.close()
            log = opened(vfs, index_interval_bytes=INTERVAL, syncs_cuts=False, is_clean=True)
        log.truncate_to(end_offset, NOW)
        segment = log.log.segments[-1]
        expected = rebuilt_indexes(segment, INTERVAL)
        assert state(segment.indexes) == state(expected)
        kept = [(NOW + 10 * (n % 7) + n, n) for n in range(end_offset)]
        times = segment.indexes.times.entries()
        assert set(times) <= set(kept)
        assert set(expected.times.entries()) <= set(times)
        assert all(before < after for before, after in pairwise(times))
        log.append_as_leader(produced(NOW + 10_000), 2, NOW)
        again = Segment(vfs, "/d/p-0", 0, INTERVAL)
        log.log.segments[-1].write_indexes()
        loaded = again.indexes
        assert (loaded.is_loaded, loaded.end_offset) == (True, end_offset + 1)
        assert loaded.offsets.entries() == segment.indexes.offsets.entries()


def test_index_files_have_no_entry_of_what_was_cut():
    vfs, log = filled(1_000)
    assert min(vfs.size(f"{NAME}.index"), vfs.size(f"{NAME}.timeindex")) > 1_000
    reads, changes = done_by(vfs, lambda: log.truncate_to(500, NOW))
    assert reads == 3
    assert sorted(changes) == [
        ("truncate", f"{NAME}.{suffix}") for suffix in ("index", "log", "timeindex")
    ]
    indexes = log.log.segments[-1].indexes
    assert vfs.read(f"{NAME}.index") == indexes.offsets.encode()
    assert vfs.read(f"{NAME}.timeindex") == indexes.times.encode()
    assert done_by(vfs, lambda: log.truncate_to(500, NOW)) == (0, [])
    log.append_as_leader(produced(NOW + 10_000), 1, NOW)
    log.close()
    assert vfs.read(f"{NAME}.index") == indexes.offsets.encode()
    assert vfs.read(f"{NAME}.timeindex") == indexes.times.encode()


def test_a_wrong_entry_below_the_cut_has_all_rebuilt():
    """Of an index that is loaded only the last entry is looked at: here one lies inside a batch."""
    vfs, log = filled(60)
    log.close()
    content = bytearray(vfs.read(f"{NAME}.index"))
    content[4:8] = (90).to_bytes(4, "big")
    put(vfs, f"{NAME}.index", bytes(content))
    log = opened(vfs, index_interval_bytes=INTERVAL, syncs_cuts=False, is_clean=True)
    segment = log.log.segments[-1]
    second = segment.indexes.offsets.entries()[1][0]
    log.truncate_to(second, NOW)
    assert state(segment.indexes) == state(rebuilt_indexes(segment, INTERVAL))


def test_an_entry_behind_the_cut_of_a_batch_before_it_has_all_rebuilt():
    _, log = filled(60)
    segment = log.log.segments[-1]
    indexes = segment.indexes
    cut = segment.find(2)
    indexes.offsets._relative[0], indexes.offsets._positions[0] = 1, cut
    segment.truncate(cut, 2)
    assert state(segment.indexes) == state(rebuilt_indexes(segment, INTERVAL))
    assert segment.indexes.end_offset == 2


def test_segments_that_go_are_gone_for_certain():
    """One that came back alone would leave a gap; the cut itself waits for a flush."""
    size = len(produced(NOW).buffer)
    vfs, log = filled(9, segment_bytes=3 * size)
    assert [each.base_offset for each in log.log.segments] == [0, 3, 6]
    log.log.flush()
    _, changes = done_by(vfs, lambda: log.truncate_to(1, NOW))
    assert changes.count(("sync", "/d/p-0")) == 2
    assert not [path for kind, path in changes if kind == "sync" and path.endswith(".log")]
    again = vfs.crash()
    assert [name for name in again.list("/d/p-0") if name.endswith(".log")] == [f"{0:020d}.log"]
    assert opened(again).end_offset == 3
    log.log.flush()
    assert opened(vfs.crash()).end_offset == 1


def test_a_cut_is_durable_where_that_is_asked_for():
    vfs, log = filled(9, syncs_cuts=True)
    log.log.flush()
    log.truncate_to(4, NOW)
    assert opened(vfs.crash()).end_offset == 4


def test_a_power_failure_behind_a_cut_leaves_no_record_of_it_below_newer_ones():
    """Epoch 2 was cut at 4, epoch 3 goes there; all batches have one size."""

    def batch(offset, epoch):
        data = encode_batch([b"v"], Offset(offset), LeaderEpoch(epoch), NOW)
        return memoryview(bytearray(data))

    ends = set()
    for seed in range(300):
        vfs = disk()
        log = opened(vfs, syncs_cuts=False)
        for offset in range(8):
            log.append_as_follower(batch(offset, 1 if offset < 4 else 2), 2, NOW)
        log.log.flush()
        log.truncate_to(4, NOW)
        for offset in range(4, 10):
            log.append_as_follower(batch(offset, 3), 3, NOW)
        again = opened(vfs.crash(random.Random(seed)), syncs_cuts=False)
        headers = [each.header for each in iterate_batches(content(again, 0))]
        found = [(each.base_offset, each.leader_epoch) for each in headers]
        assert [offset for offset, _ in found] == list(range(len(found)))
        epochs = [epoch for _, epoch in found[4:]]
        assert len(set(epochs)) <= 1
        ends.add((again.end_offset, epochs[0] if epochs else 1))
    assert {(8, 2), (4, 1), (10, 3)} <= ends


# ---- producers ---------------------------------------------------------------------------------


def test_without_producers_no_batch_is_read_again():
    """apache/kafka: UnifiedLog.rebuildProducerState, isEmptyBeforeTruncation."""
    _, log = filled(200)
    log.truncate_to(150, NOW)
    assert not log.is_replaying
    assert (len(log.producers), log.producers.end_offset) == (0, 150)


def with_producers(count, **settings):
    vfs = disk()
    log = opened(vfs, **({"syncs_cuts": False} | settings))
    for sequence in range(count):
        log.append_as_leader(produced(NOW, producer=7, sequence=sequence), 1, NOW)
    return vfs, log


def test_producers_are_replayed_in_pieces():
    _, log = with_producers(40)
    log.set_high_watermark(39)
    assert log.truncate_to(30, NOW)
    assert (log.is_replaying, log.high_watermark) == (True, 30)
    size, pieces = len(produced(NOW).buffer), []
    while log.is_replaying:
        pieces.append(log.replay_some(12 * size))
    assert pieces == [(12, 12 * size), (12, 12 * size), (6, 6 * size)]
    entry = log.producers.entry(7)
    assert entry.last_sequence == 29
    assert [each.last_offset for each in entry.batches] == [25, 26, 27, 28, 29]


def test_producers_are_replayed_from_the_newest_snapshot_below_the_cut():
    size = len(produced(NOW).buffer)
    _, log = with_producers(9, segment_bytes=3 * size)
    log.truncate_to(5, NOW)
    assert log.replay_some(1 << 20) == (2, 2 * size)
    assert not log.is_replaying
    log.truncate_to(3, NOW)
    assert not log.is_replaying
    assert log.producers.entry(7).last_sequence == 2


@pytest.mark.parametrize("use", ["append", "follow", "close", "stable"])
def test_who_needs_the_producers_has_them_replayed(use):
    vfs, log = with_producers(40)
    log.truncate_to(30, NOW)
    if use == "append":
        again = log.append_as_leader(produced(NOW, producer=7, sequence=29), 1, NOW)
        assert (again.is_duplicate, again.base_offset) == (True, 29)
    elif use == "follow":
        data = bytearray(encode_batch([b"v"], Offset(30), LeaderEpoch(1), NOW))
        log.append_as_follower(memoryview(data), 1, NOW)
        assert log.producers.end_offset == 31
    elif use == "close":
        log.close()
        assert vfs.exists(f"/d/p-0/{30:020d}.snapshot")
        assert opened(vfs, is_clean=True).producers.entry(7).last_sequence == 29
    else:
        assert log.last_stable_offset == log.high_watermark
    assert not log.is_replaying


def test_a_second_cut_before_the_end_of_the_replay_replays_to_its_own_end():
    _, log = with_producers(40)
    log.truncate_to(30, NOW)
    log.replay_some(1)
    assert log.truncate_to(20, NOW)
    assert log.is_replaying
    assert log.producers.entry(7).last_sequence == 19


def test_a_cut_while_nothing_is_replayed_yet_goes_on_from_the_start():
    """The state is empty, but not because nobody wrote."""
    _, log = with_producers(40)
    log.truncate_to(30, NOW)
    assert len(log._producers.states) == 0
    log.truncate_to(20, NOW)
    assert log.producers.entry(7).last_sequence == 19


def test_a_transaction_that_is_open_in_the_snapshot_is_replayed_to_its_end():
    """Its producer has expired since, so that there was none before the cut."""
    size = len(produced(NOW, producer=7).buffer)
    _, log = with_producers(0, segment_bytes=2 * size)
    transactional = 1 << 4
    log.append_as_leader(produced(NOW, producer=7, attributes=transactional), 1, NOW)
    log.append_as_leader(produced(NOW, producer=8), 1, NOW)
    log.append_as_leader(produced(NOW, producer=8, sequence=1), 1, NOW)
    assert [each.base_offset for each in log.log.segments] == [0, 2]
    log._producers.states.load((), log.end_offset, NOW)  # both have expired
    log.append_as_leader(produced(NOW), 1, NOW)
    assert log.truncate_to(3, NOW)
    assert log.is_replaying


@pytest.mark.parametrize("cuts", [(6,), (7, 6)])
def test_a_transaction_that_ended_above_the_high_watermark_is_not_forgotten_by_a_cut(cuts):
    """A snapshot behind its marker does not tell of it; a reader would see a part of it."""
    size = len(produced(NOW).buffer)
    vfs, log = with_producers(0, segment_bytes=2 * size)
    log.append_as_leader(produced(NOW), 1, NOW)
    log.append_as_leader(produced(NOW, producer=7, attributes=1 << 4), 1, NOW)
    log.append_as_leader(produced(NOW, producer=7, sequence=1, attributes=1 << 4), 1, NOW)
    log.append_as_leader(marker(1), 1, NOW, COORDINATOR)
    for _ in range(5):
        log.append_as_leader(produced(NOW), 1, NOW)
    log.set_high_watermark(2)
    for end in cuts:
        log.truncate_to(end, NOW)
    assert log.last_stable_offset == 1
    names = [each for each in vfs.list("/d/p-0") if each.endswith(".snapshot")]
    assert max(names) == f"{6:020d}.snapshot", "those below the cut are good"
    log.set_high_watermark(4)
    assert log.last_stable_offset == 4
    log.truncate_to(5, NOW)
    assert log.last_stable_offset == 4


def test_stable_offsets_are_known_at_the_end_of_the_replay():
    """A transaction that ended below the high watermark holds back nothing."""
    _, log = with_producers(0)
    log.append_as_leader(produced(NOW, producer=7, attributes=1 << 4), 1, NOW)
    log.append_as_leader(marker(1), 1, NOW, COORDINATOR)
    for _ in range(3):
        log.append_as_leader(produced(NOW), 1, NOW)
    log.set_high_watermark(5)
    log.truncate_to(4, NOW)
    assert (log.is_replaying, log.high_watermark) == (True, 4)
    log.replay_some(1 << 20)
    assert log.last_stable_offset == 4


def test_a_roll_of_a_log_whose_producers_are_not_replayed_writes_those_before_it():
    """The batch has no producer, for which nobody asks; the copy of a move appends so."""
    size = len(produced(NOW).buffer)
    vfs, log = with_producers(40, segment_bytes=40 * size)
    log.truncate_to(30, NOW)
    assert log.is_replaying
    data = encode_batch([b"v" * 11 * size], Offset(30), LeaderEpoch(1), NOW)
    log.append_as_follower(memoryview(data), 1, NOW)
    assert [segment.base_offset for segment in log.log.segments] == [0, 30]
    (entry,) = decode_producer_snapshot(vfs.read(f"/d/p-0/{30:020d}.snapshot"), "30")
    assert entry.last_sequence == 29
    assert (log.producers.end_offset, log.end_offset) == (31, 31)
