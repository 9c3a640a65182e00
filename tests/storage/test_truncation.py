"""Truncation inside batches, and what is read after it."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.log import Log, LogConfig
from tests.storage.segments import segment_bases
from wire.batches.batch import encode_batch, iterate_batches
from wire.types import LeaderEpoch, Offset


def batch(base_offset: int, count: int, epoch: int = 1) -> bytes:
    values = [bytes([base_offset + number]) for number in range(count)]
    return encode_batch(values, Offset(base_offset), LeaderEpoch(epoch), 1000)


def opened(vfs: MemoryVfs) -> Log:
    vfs.make_directory("/d")
    vfs.sync_directory("/")
    return open_metadata_log(vfs, "/d", LogConfig())


def bounds(log: Log, offset: int) -> tuple[int, int]:
    """Base and end offset of the batch that is read at an offset."""
    header = next(iterate_batches(log.read(offset, 1))).header
    return header.base_offset, header.end_offset


def test_an_offset_is_not_looked_for_where_a_truncated_batch_stood() -> None:
    log = opened(MemoryVfs())
    for offset in range(3):
        log.append(batch(offset, 1), offset)
    log.truncate_to(1)
    log.append(batch(1, 4), 1)
    assert [bounds(log, offset) for offset in range(5)] == [(0, 1), *[(1, 5)] * 4]


@pytest.mark.parametrize(
    ("end_offset", "start_after", "end_after"),
    [
        (8, 5, 8),
        (7, 5, 5),  # the batch from 3 to 7 goes, and nothing above the log start is left
        (6, 5, 5),
        (5, 5, 5),
        (4, 4, 4),  # as in Kafka: the log start follows
        (3, 3, 3),
        (2, 2, 2),
        (0, 0, 0),
    ],
)
def test_truncation_around_a_log_start_inside_a_batch(
    end_offset: int, start_after: int, end_after: int
) -> None:
    """The end never is below the log start (apache/kafka: UnifiedLog.truncateTo)."""
    vfs = MemoryVfs()
    log = opened(vfs)
    for base_offset, count, epoch in ((0, 3, 1), (3, 5, 2), (8, 2, 3)):
        log.append(batch(base_offset, count, epoch), base_offset)
    log.flush()
    log.raise_log_start_to(5)
    generation = log.generation
    assert log.truncate_to(end_offset) == end_after
    assert log.generation == generation + 1
    assert (log.log_start_offset, log.end_offset) == (start_after, end_after)
    assert log.flushed_end_offset == end_after
    expected = () if end_after == start_after else ((2, start_after),)
    assert tuple((entry.epoch, entry.start_offset) for entry in log.epoch_entries) == expected
    assert log.last_epoch == (2 if expected else -1)
    log.append(batch(end_after, 2, 4), end_after)
    log.flush()
    log = opened(vfs.crash())
    assert log.recovery_report == ()
    assert log.end_offset == end_after + 2
    assert bounds(log, end_after) == (end_after, end_after + 2)


@pytest.mark.parametrize("end_offset", [3, 4])
def test_truncation_at_or_above_the_end_changes_nothing(end_offset: int) -> None:
    log = opened(MemoryVfs())
    log.append(batch(0, 3), 0)
    generation = log.generation
    assert log.truncate_to(end_offset) == 3
    assert (log.end_offset, log.generation) == (3, generation)


def test_truncation_to_the_log_start_keeps_the_batches_below_it() -> None:
    log = opened(MemoryVfs())
    log.append(batch(0, 3) + batch(3, 2), 0)
    log.raise_log_start_to(3)
    assert log.truncate_to(3) == 3
    assert (log.log_start_offset, log.size_bytes) == (3, len(batch(0, 3)))


@pytest.mark.parametrize("end_offset", [3, 7, 10])
def test_truncation_in_a_gap_between_segments_has_its_end_there(end_offset: int) -> None:
    """As a compacted log may have it; the next offset is free."""
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    config = LogConfig(contiguous=False, segment_bytes=len(batch(0, 3)))
    log = Log.open(vfs, "/d", config)
    assert log.append_fetched(batch(0, 3) + batch(10, 3), epoch_max=1).end_offset == 13
    log.close()
    log = Log.open(vfs, "/d", config)
    assert segment_bases(vfs, log) == (0, 10)
    assert log.truncate_to(end_offset) == end_offset
    assert bounds(log, 0) == (0, 3)
    assert log.read(end_offset, 100) == b""
    assert log.append_fetched(batch(end_offset, 2), epoch_max=1).end_offset == end_offset + 2
    assert bounds(log, end_offset) == (end_offset, end_offset + 2)
