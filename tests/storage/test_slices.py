"""Slices of a log, whole batches that are not read yet, and how a partition's log is opened."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.epoch_checkpoint import EpochEntry
from storage.errors import CorruptLogError, OffsetOutOfRangeError
from storage.logs.log import Log, LogConfig
from storage.segments.file_slice import FileSlice
from storage.segments.open_segments import OpenSegments
from storage.segments.segment import Segment
from tests.storage.golden import put
from tests.storage.test_crash import batch

PARTITION = LogConfig(
    segment_bytes=4000,
    index_interval_bytes=150,
    verify_from_start=False,
    contiguous=False,
    syncs_at_open=False,
    grows_index_files=True,
)
SIZE = len(batch(0, 1))


def filled(vfs: MemoryVfs, count: int = 200) -> Log:
    vfs.make_directory("/d/p-0")
    log = Log.open(vfs, "/d/p-0", PARTITION)
    for offset in range(count):
        log.append(batch(offset, 1 + offset // 50), offset)
    return log


def content(
    log: Log, offset: int, max_bytes: int, end: int | None = None, *, one: bool = True
) -> bytes:
    found = log.slice(offset, max_bytes, end, at_least_one=one)
    return b"" if found is None else found.read()


def test_a_slice_is_what_a_read_returns() -> None:
    log = filled(MemoryVfs())
    for offset in range(0, 200, 7):
        for max_bytes in (0, 1, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 20 * SIZE - 1, 1 << 20):
            for end in (None, offset, offset + 1, offset + 5):
                assert content(log, offset, max_bytes, end) == log.read(offset, max_bytes, end)


def test_a_first_batch_that_is_too_large_is_left_out_unless_one_is_asked_for() -> None:
    log = filled(MemoryVfs())
    assert content(log, 3, SIZE - 1, one=False) == b""
    assert content(log, 3, SIZE, one=False) == batch(3, 1)
    assert content(log, 3, SIZE - 1, one=True) == batch(3, 1)


def test_an_offset_outside_the_log_has_no_slice() -> None:
    log = filled(MemoryVfs())
    log.raise_log_start_to(60)
    assert log.slice(200, 100, at_least_one=True) is None
    for offset in (59, 201):
        with pytest.raises(OffsetOutOfRangeError):
            log.slice(offset, 100, at_least_one=True)
    assert content(log, 60, 1) == batch(60, 2)


def test_a_slice_outlives_its_segment() -> None:
    """A reader got it before retention removed the segment."""
    log = filled(MemoryVfs())
    first = log.slice(0, 1 << 20, at_least_one=True)
    assert first is not None
    segments = log._segments
    log.raise_log_start_to(150)
    assert len(log._segments) < len(segments)
    assert first.read().startswith(batch(0, 1) + batch(1, 1))


def test_the_generation_says_that_a_slice_is_stale() -> None:
    log = filled(MemoryVfs())
    found = log.slice(199, 1000, at_least_one=True)
    assert found is not None
    log.truncate_to(199)
    assert isinstance(found, FileSlice)
    assert found.generation != log.generation
    assert found.read() == b""


def test_a_slice_of_a_damaged_header_names_its_place() -> None:
    vfs = MemoryVfs()
    log = filled(vfs, 20)
    log._active.file.pwrite(b"\x09", 4 * SIZE + 16)
    with pytest.raises(CorruptLogError, match="magic 9") as error:
        log.slice(0, 4 * SIZE + 1, at_least_one=True)
    assert (error.value.path, error.value.position) == (log._active.path, 4 * SIZE)


def test_an_index_that_points_into_a_batch_does_not_cut_a_slice() -> None:
    log = filled(MemoryVfs(), 20)
    log._active.indexes.offsets._positions[1] += 3
    for size in range(4 * SIZE, 9 * SIZE, SIZE // 2):
        assert content(log, 0, size) == log.read(0, size)


# ---- opening -----------------------------------------------------------------------------------


def test_a_partition_is_opened_without_a_sync_and_without_writing_again() -> None:
    vfs = MemoryVfs()
    filled(vfs).flush()
    kinds: set[str] = set()

    def failing(kind: str, _path: str) -> None:
        kinds.add(kind)

    vfs.failing = failing
    log = Log.open(vfs, "/d/p-0", PARTITION)
    assert "sync" not in kinds
    assert (log.end_offset, log.flushed_end_offset) == (200, 0)
    log.flush()
    assert "sync" in kinds
    assert log.flushed_end_offset == 200


def test_a_clean_partition_is_opened_by_its_last_segment() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    log.close()
    first = log._segments[0]
    vfs.damage(first.path, 100, b"damage that nobody looks at")
    again = Log.open(vfs, "/d/p-0", PARTITION, is_clean=True)
    assert (again.end_offset, again.last_epoch, again.flushed_end_offset) == (200, 4, 200)
    assert again.epoch_entries[-1] == EpochEntry(4, 150)
    assert not any(segment.is_open for segment in again._segments[:-1])
    again.append(batch(200, 4), 200)
    assert again.read(150, 1) == batch(150, 4)


def test_a_clean_partition_without_its_epochs_is_checked() -> None:
    vfs = MemoryVfs()
    filled(vfs).close()
    vfs.unlink("/d/p-0/leader-epoch-checkpoint")
    log = Log.open(vfs, "/d/p-0", PARTITION, is_clean=True)
    assert [entry.start_offset for entry in log.epoch_entries] == [0, 50, 100, 150]


def test_an_epoch_that_begins_at_the_end_of_a_clean_partition_is_dropped() -> None:
    """As Kafka does when it loads a log."""
    vfs = MemoryVfs()
    filled(vfs).close()
    put(vfs, "/d/p-0/leader-epoch-checkpoint", b"0\n2\n1 0\n9 200\n")
    log = Log.open(vfs, "/d/p-0", PARTITION, is_clean=True)
    assert (log.epoch_entries, log.last_epoch) == ((EpochEntry(1, 0),), 1)


def test_few_segments_stay_open() -> None:
    vfs = MemoryVfs()
    segments = [Segment(vfs, "/d", base, 4096) for base in range(4)]
    vfs.make_directory("/d")
    for segment in segments:
        segment.create()
    few = OpenSegments(2)
    few.touch_opened(segments)
    assert [segment.is_open for segment in segments] == [False, False, True, True]
    few.touch(segments[2])
    few.touch(segments[0])
    assert [segment.is_open for segment in segments] == [False, False, True, False]
    few.forget(segments[2])
    assert few.used == [segments[0]]
