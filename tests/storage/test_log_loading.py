"""Segments of a directory that make a log."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint, RecoveryPoint
from storage.errors import CorruptLogError
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import SegmentsDropped
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
