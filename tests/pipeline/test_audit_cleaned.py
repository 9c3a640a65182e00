"""Replicas of compacted partitions: compared in pieces, against a dictionary of all records."""

import random
from pathlib import Path

import numpy as np
import pytest

from pipeline.core.audit.audit import check_file_fully, plan_audit
from pipeline.core.audit.cleaned_records import LogBatches, RecordComparison, compare_records
from pipeline.core.reading.discovery import SegmentFile
from pipeline.core.records.batches import scan
from pipeline.core.records.decode import decode_batch_py
from tests.pipeline.segments import TIME_MS, batch, write_partition
from tests.selection import thinned
from wire.batches.batch import BatchHeader, RecordView, encode_records
from wire.batches.compression import Codec
from wire.errors import CorruptBatchError

CONTENTS = (None, b"", b"a", b"b", b"value" * 9)
Content = tuple[bytes | None, bytes | None]


def log_of(folder: Path) -> LogBatches:
    """The batches of a partition directory as the audit's first step sees them."""
    tasks = sorted(plan_audit([str(folder)]).tasks, key=lambda task: task.file.base_offset)
    reports = [check_file_fully(task) for task in tasks]
    digest = np.concatenate([report.digest for report in reports])
    files = np.repeat(np.arange(len(reports)), [len(report.digest) for report in reports])
    order = np.argsort(digest["base"], kind="stable")
    return LogBatches(digest[order], files[order], tuple(report.file for report in reports))


def held(log: LogBatches, start: int, end: int) -> dict[int, tuple[Content, SegmentFile, int]]:
    """Offset -> key and value, file and position of the batch, by the slow reader."""
    found = {}
    for file in log.segments:
        content = Path(file.path).read_bytes()
        for table in scan(content, 0, len(content), frozen_size=len(content)):
            for index, position in enumerate((table.positions + table.origin).tolist()):
                try:
                    records = decode_batch_py(table, index)
                except CorruptBatchError:
                    continue
                for one in records:
                    if start <= one.offset < end:
                        found[one.offset] = (one.key, one.value), file, position
    return found


def by_dictionary(
    left: LogBatches, right: LogBatches, start: int, end: int
) -> tuple[RecordComparison, tuple[str, int] | None]:
    """Expected result of `compare_records`, and the place of the first difference."""
    one, two = held(left, start, end), held(right, start, end)
    shared = sorted(one.keys() & two.keys())
    wrong = [offset for offset in shared if one[offset][0] != two[offset][0]]
    batches = {(one[offset][1].path, one[offset][2]) for offset in shared}
    first = (wrong[0], 0) if wrong else None
    place = (two[wrong[0]][1].path, two[wrong[0]][2]) if wrong else None
    known = RecordComparison(len(one), len(two), len(shared), len(batches), len(wrong), first)
    return known, place


def check_compared(
    left: LogBatches, right: LogBatches, start: int, end: int, chunk_records: int
) -> RecordComparison:
    expected, place = by_dictionary(left, right, start, end)
    found = compare_records(left, right, start, end, chunk_records=chunk_records)
    if found.first is not None:
        offset, index = found.first
        file = right.segments[int(right.files[index])]
        assert (file.path, int(right.digest["position"][index])) == place
        found.first = offset, 0
    assert found == expected
    return found


def packed(rng: random.Random, records: list[tuple[int, Content]]) -> bytes:
    """One batch with gaps between its offsets, as a cleaner leaves it."""
    base = records[0][0]
    header = BatchHeader(
        base_offset=base, leader_epoch=1,
        attributes=int(rng.choice((Codec.NONE, Codec.NONE, Codec.ZSTD, Codec.GZIP))),
        last_offset_delta=records[-1][0] - base + rng.randrange(2), base_timestamp_ms=TIME_MS,
        max_timestamp_ms=TIME_MS, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        records_count=len(records),
    )  # fmt: skip
    views = [RecordView(offset, TIME_MS, key, value, ()) for offset, (key, value) in records]
    return encode_records(header, views)


def cleaned(rng: random.Random, groups: list[list[tuple[int, Content]]]) -> list[bytes]:
    """Each group as one batch, some of its records gone or changed."""
    batches = []
    for group in groups:
        kept = group
        if rng.random() < 0.5:
            kept = [one for one in group if rng.random() < 0.7]
        if rng.random() < 0.1:
            kept = [(offset, (key, rng.choice(CONTENTS))) for offset, (key, _) in kept]
        if kept:
            batches.append(packed(rng, kept))
    return batches or [batch(0)]


@pytest.mark.parametrize("seed", thinned(range(60), every=6))
def test_records_are_compared_as_by_a_dictionary(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    offset, groups = 0, []
    for _ in range(rng.randrange(1, 30)):
        size = rng.randrange(1, 12)
        groups.append([(offset + i, (rng.choice(CONTENTS), rng.choice(CONTENTS)))
                       for i in range(size)])  # fmt: skip
        offset += size + rng.randrange(2)
    logs = []
    for name in ("one", "two"):
        root, content = tmp_path / name, cleaned(rng, groups)
        if rng.random() < 0.15:
            rng.shuffle(content)  # a log that is not in order
        if rng.random() < 0.15:
            content.append(rng.choice(content))
        cut = rng.randrange(len(content) + 1)
        for part in (content[:cut], content[cut:]):
            if part:
                base = int.from_bytes(part[0][:8], "big")
                write_partition(root, part, base_offset=base)
        logs.append(log_of(root))
    for chunk_records in (1, 7, 1000):
        start = rng.choice((0, rng.randrange(offset)))
        check_compared(*logs, start, rng.randrange(start, offset + 2), chunk_records)


def test_null_and_empty_are_not_the_same(tmp_path: Path) -> None:
    for name, pair in (("one", (None, b"")), ("two", (b"", None)), ("three", (None, None))):
        write_partition(tmp_path / name, [batch(0, [pair[1]], keys=[pair[0]])])
    one, two, three = (log_of(tmp_path / name) for name in ("one", "two", "three"))
    assert compare_records(one, two, 0, 1).different == 1
    assert compare_records(one, three, 0, 1).different == 1


def test_batches_that_are_equal_are_not_opened(tmp_path: Path) -> None:
    for name, last in (("one", b"x"), ("two", b"y")):
        write_partition(tmp_path / name, [batch(0), batch(1, [b"v"] * 3), batch(4, [last])])
    one, two = log_of(tmp_path / "one"), log_of(tmp_path / "two")
    assert check_compared(one, two, 0, 5, 10).first == (4, 0)
    for log in (one, two):
        path = Path(log.segments[0].path)
        content = path.read_bytes()
        kept = int(log.digest["position"][2])
        path.write_bytes(bytes(kept) + content[kept:])
    found = compare_records(one, two, 0, 5)
    assert (found.shared, found.batches, found.different) == (5, 3, 1)
    Path(two.segments[0].path).unlink()
    gone = compare_records(one, two, 0, 5)
    assert (gone.left, gone.right, gone.shared, gone.different) == (5, 4, 4, 0)
