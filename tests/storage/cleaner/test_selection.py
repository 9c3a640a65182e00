"""Selection of the logs that are cleaned, up to where, by ratio, lags, transactions."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import decode_offsets
from storage.cleaner.cleaner_manager import (
    CLEANER_CHECKPOINT_NAME,
    CleanerManager,
    CleaningState,
)
from storage.cleaner.compaction_rules import CompactionRules
from storage.cleaner.selection import LogToClean, clean_job, log_to_clean
from storage.errors import CorruptFileError
from storage.logs.unified_log import UnifiedLog
from tests.storage.cleaner.compacted import LIMITS, NOW_MS, RULES, append, opened
from tests.storage.cleaner.rounds import TRANSACTIONAL, put

ROW = 76
"""Bytes of a batch here."""


def log_of(*times_ms: int) -> UnifiedLog:
    """A log with one segment for each time, the last one active."""
    log = opened(MemoryVfs(), segment_bytes=100)
    for number, timestamp_ms in enumerate(times_ms):
        append(log, (b"key", b"v%04d" % number), timestamp_ms=timestamp_ms)
    assert [each.base_offset for each in log.log.segments] == list(range(len(times_ms)))
    assert {each.size_bytes for each in log.log.segments} == {ROW}
    return log


def found(log: UnifiedLog, recorded: int | None = None, **rules: float) -> LogToClean:
    settings = CompactionRules(is_compacted=True, **rules)  # type: ignore[arg-type]
    return log_to_clean(log, recorded, settings, NOW_MS)


def test_all_closed_segments_are_dirty_at_first() -> None:
    one = found(log_of(*[NOW_MS] * 4))
    assert (one.first_dirty_offset, one.first_uncleanable_offset) == (0, 3)
    assert (one.clean_bytes, one.cleanable_bytes, one.ratio) == (0, 3 * ROW, 1.0)
    assert (one.delay_ms, one.is_reset) == (0, False)


def test_the_ratio_must_be_above_the_least() -> None:
    one = found(log_of(*[NOW_MS] * 5), 2)
    assert (one.clean_bytes, one.cleanable_bytes) == (2 * ROW, 2 * ROW)
    assert one.ratio == 0.5
    assert not one.is_cleanable(CompactionRules(dirty_ratio_min=0.5))
    assert one.is_cleanable(CompactionRules(dirty_ratio_min=0.49))


def test_nothing_is_dirty_without_a_closed_segment_behind_the_checkpoint() -> None:
    for recorded, end in ((3, 3), (4, 3)):
        one = found(log_of(*[NOW_MS] * 4), recorded)
        assert (one.first_dirty_offset, one.first_uncleanable_offset) == (recorded, end)
        assert (one.cleanable_bytes, one.ratio) == (0, 0.0)
        assert not one.is_cleanable(CompactionRules(dirty_ratio_min=0.0))
    alone = found(log_of(NOW_MS))
    assert (alone.clean_bytes, alone.cleanable_bytes, alone.ratio) == (0, 0, 0.0)


def test_a_segment_that_is_partly_clean_counts_twice() -> None:
    log = opened(MemoryVfs(), segment_bytes=200)
    for number in range(6):
        append(log, (b"key", b"v%04d" % number))
    assert [each.base_offset for each in log.log.segments] == [0, 2, 4]
    one = found(log, 3)
    assert (one.first_dirty_offset, one.first_uncleanable_offset) == (3, 4)
    assert (one.clean_bytes, one.cleanable_bytes) == (4 * ROW, 2 * ROW)
    again = found(log, 2)
    assert (again.clean_bytes, again.cleanable_bytes) == (2 * ROW, 2 * ROW)


def test_records_younger_than_the_least_lag_are_left() -> None:
    log = log_of(NOW_MS - 100, NOW_MS - 50, NOW_MS - 100, NOW_MS)
    assert found(log, lag_ms_min=100).first_uncleanable_offset == 1
    assert found(log, lag_ms_min=101).first_uncleanable_offset == 0
    assert found(log, lag_ms_min=50).first_uncleanable_offset == 3
    assert found(log, 2, lag_ms_min=100).first_uncleanable_offset == 3, "clean ones do not count"
    assert found(log, 1, lag_ms_min=100).cleanable_bytes == 0


def test_the_largest_lag_asks_for_a_round_however_little_is_dirty() -> None:
    log = log_of(NOW_MS - 900, NOW_MS - 50, NOW_MS - 60, NOW_MS - 1000)
    one = found(log, 1, lag_ms_max=59)
    assert one.delay_ms == 1
    assert one.is_cleanable(CompactionRules(dirty_ratio_min=1.0))
    assert found(log, 1, lag_ms_max=60).delay_ms == 0
    assert found(log, 3, lag_ms_max=1).delay_ms == 0, "the active segment does not count"
    assert found(log_of(0, 0, NOW_MS), lag_ms_max=1).delay_ms == 0, "times of 0 do not count"
    late = LogToClean(first_dirty_offset=0, first_uncleanable_offset=0, is_reset=False,
                      clean_bytes=1, cleanable_bytes=0, delay_ms=5)  # fmt: skip
    assert not late.is_cleanable(CompactionRules(dirty_ratio_min=0.0))


def test_an_open_transaction_bounds_the_round() -> None:
    log = opened(MemoryVfs(), segment_bytes=100)
    append(log, (b"key", b"v0000"))
    append(log, (b"key", b"v0001"), producer=(7, 0, 0), attributes=TRANSACTIONAL)
    append(log, (b"key", b"v0002"))
    append(log, (b"key", b"v0003"))
    assert log.last_stable_offset == 1
    assert found(log).first_uncleanable_offset == 1
    log.set_high_watermark(0)
    assert found(log).first_uncleanable_offset == 0


def test_an_end_inside_a_segment_is_that_segment() -> None:
    log = opened(MemoryVfs(), segment_bytes=200)
    for number in range(6):
        append(log, (b"key", b"v%04d" % number))
    log.set_high_watermark(3)
    assert found(log).first_uncleanable_offset == 2
    assert found(log, 3).first_uncleanable_offset == 2
    assert found(log, 3).cleanable_bytes == 0


@pytest.mark.parametrize("recorded", [1, 9])
def test_a_checkpoint_outside_of_the_log_is_its_start(recorded: int) -> None:
    log = log_of(*[NOW_MS] * 5)
    log.raise_log_start_to(2)
    one = found(log, recorded)
    assert (one.first_dirty_offset, one.is_reset) == (2, True)
    assert not found(log, 2).is_reset
    assert not found(log, 5).is_reset
    assert found(log).first_dirty_offset == 2


def test_the_job_names_all_that_the_cleaner_needs() -> None:
    log = log_of(*[NOW_MS] * 4)
    append(log, (b"key", b"v0001"), producer=(7, 3, 0))
    one = found(log, 1)
    job = clean_job("comp-0", log, one, RULES, LIMITS, NOW_MS)
    assert (job.segments, job.later_segments) == ((0, 1, 2, 3), (4,))
    assert (job.first_dirty_offset, job.first_uncleanable_offset) == (1, 4)
    assert [(p.producer_id, p.last_data_offset, p.producer_epoch) for p in job.producers] == [
        (7, 4, 3)
    ]
    assert job.rules.segment_bytes == 100
    assert job.rules.delete_retention_ms == RULES.delete_retention_ms
    assert (job.slots, job.keys_max, job.read_bytes) == (1000, 900, 4096)


# -- states ---------------------------------------------------------------------------------------

KEY = ("comp", 0)


def test_states_of_a_round() -> None:
    manager = CleanerManager(MemoryVfs())
    assert manager.state(KEY) is None
    assert not manager.abort(KEY)
    manager.begin(KEY)
    assert manager.state(KEY) is CleaningState.IN_PROGRESS
    assert manager.abort(KEY)
    assert manager.state(KEY) is CleaningState.ABORTED
    manager.end(KEY)
    assert manager.state(KEY) is None
    manager.begin(KEY)
    manager.end(KEY)
    assert manager.state(KEY) is None


def test_pauses_are_counted_and_outlast_a_round() -> None:
    manager = CleanerManager(MemoryVfs())
    manager.begin(KEY)
    manager.abort_and_pause(KEY)
    manager.abort_and_pause(KEY)
    assert manager.state(KEY) is CleaningState.ABORTED
    manager.end(KEY)
    assert manager.state(KEY) is CleaningState.PAUSED
    assert not manager.abort(KEY)
    assert manager.pauses(KEY) == 2
    manager.resume(KEY)
    assert manager.state(KEY) is CleaningState.PAUSED
    manager.resume(KEY)
    assert (manager.state(KEY), manager.pauses(KEY)) == (None, 0)
    manager.abort_and_pause(KEY)
    manager.resume(KEY)
    manager.begin(KEY)
    manager.abort_and_pause(KEY)
    manager.resume(KEY)
    assert manager.state(KEY) is CleaningState.ABORTED
    manager.end(KEY)
    assert manager.state(KEY) is None


def test_uncleanable_partitions_are_those_of_a_log_directory() -> None:
    manager = CleanerManager(MemoryVfs())
    manager.mark_uncleanable("/d", KEY)
    assert manager.is_uncleanable("/d", KEY)
    assert not manager.is_uncleanable("/e", KEY)
    assert manager.uncleanable("/d") == {KEY}
    manager.forget(KEY)
    assert manager.uncleanable("/d") == frozenset()
    manager.mark_uncleanable("/d", KEY)
    manager.fail("/d")
    assert not manager.is_uncleanable("/d", KEY)


# -- checkpoints ----------------------------------------------------------------------------------


def recorded(vfs: MemoryVfs, path: str = "/d") -> dict[tuple[str, int], int]:
    return decode_offsets(vfs.read(f"{path}/{CLEANER_CHECKPOINT_NAME}"), path)


def directories(*paths: str) -> tuple[MemoryVfs, CleanerManager]:
    vfs = MemoryVfs()
    manager = CleanerManager(vfs)
    for path in paths:
        vfs.make_directory(path)
        manager.open(path)
    return vfs, manager


def test_first_dirty_offsets_are_recorded_as_kafka_does() -> None:
    vfs, manager = directories("/d")
    assert manager.offset("/d", KEY) is None
    manager.set_offset("/d", KEY, 162)
    assert manager.offset("/d", KEY) == 162
    manager.record("/d")()
    assert vfs.read(f"/d/{CLEANER_CHECKPOINT_NAME}") == b"0\n1\ncomp 0 162\n"
    again = CleanerManager(vfs)
    again.open("/d")
    assert again.offset("/d", KEY) == 162
    assert again.paths == ("/d",)


def test_a_record_is_as_of_when_it_was_asked_for() -> None:
    vfs, manager = directories("/d")
    manager.set_offset("/d", KEY, 1)
    work = manager.record("/d")
    manager.set_offset("/d", KEY, 2)
    work()
    assert recorded(vfs) == {KEY: 1}


def test_a_truncation_lowers_an_offset() -> None:
    _, manager = directories("/d")
    assert not manager.lower_offset("/d", KEY, 5)
    manager.set_offset("/d", KEY, 7)
    assert not manager.lower_offset("/d", KEY, 7)
    assert manager.lower_offset("/d", KEY, 6)
    assert manager.offset("/d", KEY) == 6


def test_a_deleted_log_is_forgotten_and_a_moved_one_goes_along() -> None:
    _, manager = directories("/d", "/e")
    manager.set_offset("/d", KEY, 7)
    manager.mark_uncleanable("/d", KEY)
    manager.move(KEY, "/d", "/e")
    assert (manager.offset("/d", KEY), manager.offset("/e", KEY)) == (None, 7)
    assert (manager.uncleanable("/d"), manager.uncleanable("/e")) == (frozenset(), {KEY})
    assert manager.forget(KEY) == ["/e"]
    assert manager.forget(KEY) == []
    manager.move(KEY, "/d", "/e")
    assert manager.offset("/e", KEY) is None
    assert not manager.is_uncleanable("/e", KEY)


def test_an_offline_log_directory_is_left() -> None:
    _, manager = directories("/d", "/e")
    manager.set_offset("/d", KEY, 7)
    manager.fail("/d")
    manager.set_offset("/d", KEY, 8)
    assert manager.offset("/d", KEY) is None
    assert manager.paths == ("/e",)


def test_a_damaged_checkpoint_is_refused() -> None:
    vfs = MemoryVfs()
    put(vfs, CLEANER_CHECKPOINT_NAME, b"0\n1\ncomp 0\n", "/d")
    with pytest.raises(CorruptFileError):
        CleanerManager(vfs).open("/d")
