"""Segments of a directory that make a log."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint, RecoveryPoint
from storage.checkpoints.epoch_checkpoint import EPOCH_CHECKPOINT_NAME
from storage.errors import CorruptLogError
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import FileRebuilt, SegmentsApart, SegmentsDropped, first_gap
from storage.segments.segment import segment_name
from tests.storage.segments import segment_bases
from tests.storage.test_crash import batch

DIRECTORY = "/d/a-0"


def segments(vfs: MemoryVfs, *bounds: tuple[int, int]) -> None:
    """Segment files with a batch for each offset from the first to the second (exclusive)."""
    vfs.make_directory(DIRECTORY)
    for base_offset, end_offset in bounds:
        file = vfs.open(f"{DIRECTORY}/{segment_name(base_offset)}", create=True)
        file.pwrite(b"".join(batch(offset, 1) for offset in range(base_offset, end_offset)), 0)
        file.close()


@pytest.mark.parametrize("contiguous", [True, False])
def test_a_segment_that_starts_inside_the_one_before_is_dropped(contiguous: bool) -> None:
    vfs = MemoryVfs()
    segments(vfs, (0, 5), (4, 7))
    log = Log.open(vfs, DIRECTORY, LogConfig(contiguous=contiguous))
    path = f"{DIRECTORY}/{segment_name(4)}"
    assert log.recovery_report == (SegmentsDropped((path,), 5, "starts at offset 4, not at 5"),)
    assert (segment_bases(vfs, log), log.end_offset) == ((0,), 5)
    assert not vfs.exists(path)


def test_a_segment_behind_a_gap_of_one_offset_is_dropped() -> None:
    vfs = MemoryVfs()
    segments(vfs, (0, 5), (6, 7))
    log = Log.open(vfs, DIRECTORY, LogConfig())
    path = f"{DIRECTORY}/{segment_name(6)}"
    assert log.recovery_report == (SegmentsDropped((path,), 5, "starts at offset 6, not at 5"),)


@pytest.mark.parametrize(
    ("recovery_point", "expected"), [(0, [5, 7]), (5, [5, 7]), (6, [7]), (8, [7]), (9, [])]
)
@pytest.mark.parametrize("knows_epochs", [True, False])
def test_a_gap_above_the_recovery_point_is_kept_and_reported_where_offsets_may_be_missing(
    recovery_point: int, expected: list[int], knows_epochs: bool
) -> None:
    """Without the file of epochs all segments are checked, and none of them may be lost."""
    vfs = MemoryVfs()
    segments(vfs, (0, 5), (6, 7), (9, 9))
    if knows_epochs:
        vfs.open(f"{DIRECTORY}/{EPOCH_CHECKPOINT_NAME}", create=True).pwrite(b"0\n1\n0 0\n", 0)
    checkpoint = OffsetCheckpoint(vfs, "/d")
    checkpoint.record("a", 0, recovery_point)
    config = LogConfig(contiguous=False, verify_from_start=False, cuts_flushed_damage=True)
    log = Log.open(vfs, DIRECTORY, config, RecoveryPoint(checkpoint, "a", 0))
    behind = {5: 6, 7: 9}
    assert log.recovery_report == tuple(
        SegmentsApart(
            f"{DIRECTORY}/{segment_name(behind[end])}",
            end,
            f"starts at offset {behind[end]}, not at {end}",
        )
        for end in expected
    )
    rebuilt = FileRebuilt("index", "cut")
    assert first_gap([rebuilt, *log.recovery_report]) == next(iter(expected), None)
    assert (segment_bases(vfs, log), log.end_offset) == ((0, 6, 9), 9)


@pytest.mark.parametrize(("log_start", "gap"), [(4, 5), (6, 6), (8, 8), (9, None), (10, None)])
def test_a_gap_below_the_log_start_is_none(log_start: int, gap: int | None) -> None:
    vfs = MemoryVfs()
    segments(vfs, (0, 5), (9, 12))
    config = LogConfig(contiguous=False)
    log = Log.open(vfs, DIRECTORY, config, log_start_offset=log_start)
    assert first_gap(log.recovery_report) == gap


@pytest.mark.parametrize("contiguous", [True, False])
def test_below_the_flushed_end_it_stops_the_node(contiguous: bool) -> None:
    vfs = MemoryVfs()
    segments(vfs, (0, 5), (4, 7))
    checkpoint = OffsetCheckpoint(vfs, "/d")
    checkpoint.record("a", 0, 6)
    with pytest.raises(CorruptLogError, match="starts at offset 4, not at 5"):
        Log.open(
            vfs,
            DIRECTORY,
            LogConfig(contiguous=contiguous),
            RecoveryPoint(checkpoint, "a", 0),
        )
