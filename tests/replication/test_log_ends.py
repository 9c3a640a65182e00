"""Ends of a log with their places: kept while the high watermark stays."""

import pytest

from replication.log_ends import LogEnds
from replication.log_offsets import LogOffsetMetadata
from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.unified_log import FetchIsolation
from tests.storage.test_unified_log import NOW, opened, produced


def filled():
    log = opened(MemoryVfs())
    for _ in range(3):
        log.append_as_leader(produced(NOW), 1, NOW)
    return log, LogEnds(log)


def test_the_high_watermark_is_that_of_the_log_with_its_place():
    log, ends = filled()
    for offset in (0, 1, 3, 2):
        log.set_high_watermark(offset)
        found = ends.high_watermark
        assert found == ends.at(offset) == LogOffsetMetadata(offset, log.place_of(offset))
        assert ends.high_watermark is found
        assert ends.of(FetchIsolation.HIGH_WATERMARK) is found
        assert ends.of(FetchIsolation.TXN_COMMITTED) is found
    assert ends.log_end == ends.of(FetchIsolation.LOG_END) == ends.at(3)


def test_a_high_watermark_is_raised_with_its_place():
    log, ends = filled()
    new = ends.at(2)
    ends.raise_high_watermark(new)
    assert log.high_watermark == 2
    assert ends.high_watermark is new
    later = LogOffsetMetadata(2, (2, 0))
    ends.raise_high_watermark(later)
    assert ends.high_watermark is later


@pytest.mark.parametrize("offset", [1, 4])
def test_a_high_watermark_does_not_fall_nor_pass_the_end(offset):
    log, ends = filled()
    ends.raise_high_watermark(ends.at(2))
    with pytest.raises(AssertionError, match="INV-PT-2"):
        ends.raise_high_watermark(LogOffsetMetadata(offset))
    assert log.high_watermark == 2


def test_an_end_behind_a_damaged_header_has_no_place_and_is_looked_for_once():
    vfs = MemoryVfs()
    written = opened(vfs)
    for _ in range(3):
        written.append_as_leader(produced(NOW), 1, NOW)
    written.log.roll(3, NOW)
    written.close()
    vfs.damage("/d/p-0/00000000000000000000.log", 16, b"\x09")
    vfs.unlink("/d/p-0/00000000000000000000.index")
    log = opened(vfs, is_clean=True, high_watermark=1)
    log.set_high_watermark(1)
    ends, reads = LogEnds(log), []
    vfs.failing = lambda kind, path: reads.append(path)
    assert ends.high_watermark == LogOffsetMetadata(1)
    count = len(reads)
    assert count > 0
    assert ends.of(FetchIsolation.TXN_COMMITTED) == LogOffsetMetadata(1)
    assert len(reads) == count
    ends.raise_high_watermark(LogOffsetMetadata(3))
    assert ends.high_watermark == ends.log_end == LogOffsetMetadata(3, (3, 0))
