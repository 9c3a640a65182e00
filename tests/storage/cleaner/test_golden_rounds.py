"""Kafka 4.3.1 cleaned the golden partition four times: the same rounds leave the same bytes.

The first left three segments, which the second joined; the third and fourth took in what had been
appended meanwhile. The files that were deleted by a round are those that the next one began with.
"""

from pathlib import Path

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.cleaner.clean_job import CleanJob, LastRecord
from storage.producers.producer_snapshot import decode_producer_snapshot
from storage.segments.segment import segment_name
from tests.storage.cleaner.rounds import DIRECTORY, cleaned, job_of, put, run
from wire.batches.batch import Batch
from wire.batches.compression import Codec
from wire.batches.legacy_batch import iterate_any

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = GOLDEN / "storage" / "cleaner"
BEFORE = GOLDEN / "cli" / "data-log" / "comp-0"
FIRST, SECOND = FILES / "between-1-and-2", FILES / "between-2-and-4"
RETENTION_MS = 600_000
NOW_MS = (1_795_258_412_738 - RETENTION_MS, 1_795_258_415_832 - RETENTION_MS)
"""The delete horizons of the first and the second round less `delete.retention.ms`."""


def producers() -> list[LastRecord]:
    path = FILES / segment_name(162, ".snapshot")
    entries = decode_producer_snapshot(path.read_bytes(), str(path))
    return [LastRecord(each.producer_id, each.last_offset, each.producer_epoch) for each in entries]


def job(bases: list[int], end: int, first_dirty: int, now_ms: int, retention_ms: int) -> CleanJob:
    return job_of(
        bases,
        end,
        first_dirty=first_dirty,
        now_ms=now_ms,
        producers=producers(),
        delete_retention_ms=retention_ms,
        segment_bytes=2400,
        index_interval_bytes=256,
    )


def disk_of(*paths: Path) -> MemoryVfs:
    vfs = MemoryVfs()
    for path in paths:
        put(vfs, path.name, path.read_bytes())
    return vfs


def segments(folder: Path, bases: list[int], suffix: str = ".log") -> list[Path]:
    return [folder / segment_name(base_offset, suffix) for base_offset in bases]


def same_but_for_gzip(ours: bytes, kafkas: bytes) -> None:
    """Compressed blocks of another encoder differ in some bytes, as does the CRC of their batch."""
    for mine, theirs in zip(iterate_any(ours), iterate_any(kafkas), strict=True):
        assert isinstance(mine, Batch)
        assert isinstance(theirs, Batch)
        assert mine.records() == theirs.records()
        if mine.header.codec is Codec.NONE:
            assert mine.buffer == theirs.buffer
        else:
            assert mine.buffer[21:61] == theirs.buffer[21:61]
            assert mine.header.attributes == theirs.header.attributes


def test_the_first_round() -> None:
    bases = [0, 36, 84]
    vfs = disk_of(*segments(BEFORE, bases), *segments(BEFORE, [84], ".txnindex"))
    groups, ended = run(vfs, job(bases, 159, 0, NOW_MS[0], RETENTION_MS))
    assert [each.segments for each in groups] == [(0,), (36,), (84,)]
    assert ended.end_offset == 159
    for base_offset in bases[:2]:
        kafkas = (FIRST / segment_name(base_offset)).read_bytes()
        assert cleaned(vfs, base_offset) == kafkas
        assert len(kafkas) == 122
    kafkas = (FIRST / segment_name(84)).read_bytes()
    same_but_for_gzip(cleaned(vfs, 84), kafkas)
    assert len(cleaned(vfs, 84)) <= len(kafkas) + 20
    name = segment_name(84, ".txnindex")
    assert cleaned(vfs, 84, ".txnindex") == (FIRST / name).read_bytes()
    assert f"{segment_name(0, '.txnindex')}.cleaned" not in vfs.list(DIRECTORY)


def test_the_second_round_joins_the_segments() -> None:
    bases = [0, 36, 84, 159]
    vfs = disk_of(*segments(FIRST, bases), *segments(FIRST, [84], ".txnindex"))
    groups, ended = run(vfs, job(bases, 162, 159, NOW_MS[1], RETENTION_MS))
    assert [each.segments for each in groups] == [tuple(bases)]
    assert ended.end_offset == 162
    assert cleaned(vfs) == (FILES / "after-2.log").read_bytes()
    # the transaction lost its data in the first round, so the index of the second has no entry
    assert f"{segment_name(0, '.txnindex')}.cleaned" not in vfs.list(DIRECTORY)


def test_the_indexes_of_the_second_round_are_kafkas() -> None:
    bases = [0, 36, 84, 159]
    vfs = disk_of(*segments(FIRST, bases), *segments(FIRST, [84], ".txnindex"))
    run(vfs, job(bases, 162, 159, NOW_MS[1], RETENTION_MS))
    assert cleaned(vfs, 0, ".index") == (FILES / "after-2.index").read_bytes()
    assert cleaned(vfs, 0, ".timeindex") == (FILES / "after-2.timeindex").read_bytes()


@pytest.mark.parametrize(
    ("first", "dirty", "end", "after"),
    [
        (FILES / "after-2.log", 162, 164, SECOND / segment_name(0)),
        (SECOND / segment_name(0), 164, 167, FILES / "after-4.log"),
    ],
)
def test_later_rounds_with_another_retention_keep_the_horizons(
    first: Path, dirty: int, end: int, after: Path
) -> None:
    vfs = disk_of(SECOND / segment_name(dirty))
    put(vfs, segment_name(0), first.read_bytes())
    groups, ended = run(vfs, job([0, dirty], end, dirty, NOW_MS[1] + 9000, 1))
    assert [each.segments for each in groups] == [(0, dirty)]
    assert ended.end_offset == end
    assert cleaned(vfs) == after.read_bytes()
