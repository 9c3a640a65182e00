"""Admission control of the stream: what Spark asks of the reader, without a JVM."""

from pathlib import Path

import pytest

from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_schema
from tests.pipeline.segments import batch, write_partition

pytestmark = pytest.mark.spark  # needs the extra
BATCH = len(batch(0, [b"v"] * 10))


class Clock:
    """Clock in the place of `time.monotonic`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    from pipeline.sources import kraft_log_stream

    made = Clock()
    monkeypatch.setattr(kraft_log_stream, "time", made)
    return made


def reader(root: Path, **options: str):
    from pipeline.sources.kraft_log_stream import KraftLogStreamReader

    chosen = parse_options({"path": str(root), "columns": "offset", "upTo": "logEnd"} | options)
    return KraftLogStreamReader(chosen, read_schema(chosen))


def grow(root: Path, batches: int) -> None:
    write_partition(root, [batch(10 * i, [b"v"] * 10) for i in range(batches)])


def end_of(offset: dict) -> int:
    return offset["topics"]["orders"]["p"]["0"]["o"]


def steps(made, limit=None) -> list[int]:
    """The ends of the micro-batches until nothing is left."""
    start, found = made.initialOffset(), []
    asked = made.getDefaultReadLimit() if limit is None else limit
    while (end := made.latestOffset(start, asked)) != start:
        found.append(end_of(end))
        start = end
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [60]),
        ({"maxOffsetsPerTrigger": "25"}, [20, 40, 60]),
        ({"maxBytesPerTrigger": str(3 * BATCH)}, [30, 60]),
        ({"maxBytesPerTrigger": str(3 * BATCH - 1)}, [20, 40, 60]),
        ({"maxBytesPerTrigger": "1"}, [10, 20, 30, 40, 50, 60]),
        ({"maxOffsetsPerTrigger": "40", "maxBytesPerTrigger": str(2 * BATCH)}, [20, 40, 60]),
        ({"maxOffsetsPerTrigger": "10", "maxBytesPerTrigger": str(9 * BATCH)},
         [10, 20, 30, 40, 50, 60]),
    ],
)  # fmt: skip
def test_a_micro_batch_is_as_large_as_the_options_allow(
    tmp_path: Path, options: dict[str, str], expected: list[int]
) -> None:
    grow(tmp_path, 6)
    assert steps(reader(tmp_path, **options)) == expected


def test_spark_may_ask_for_everything_in_spite_of_the_options(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    grow(tmp_path, 6)
    assert steps(reader(tmp_path, maxOffsetsPerTrigger="10"), ReadAllAvailable()) == [60]


def test_too_little_waits_until_it_is_enough_or_the_delay_is_over(
    tmp_path: Path, clock: Clock
) -> None:
    grow(tmp_path, 2)
    made = reader(tmp_path, minOffsetsPerTrigger="30", maxTriggerDelay="10s")
    limit, start = made.getDefaultReadLimit(), made.initialOffset()
    assert made.latestOffset(start, limit) == start
    clock.now += 9
    assert made.latestOffset(start, limit) == start
    grow(tmp_path, 3)
    enough = made.latestOffset(start, limit)
    assert end_of(enough) == 30
    grow(tmp_path, 4)  # a wait of its own
    clock.now += 9
    assert made.latestOffset(enough, limit) == enough
    clock.now += 9.5
    assert made.latestOffset(enough, limit) == enough
    clock.now += 1
    assert end_of(made.latestOffset(enough, limit)) == 40


def test_a_run_to_the_end_waits_for_nothing_and_reads_no_further(
    tmp_path: Path, clock: Clock
) -> None:
    grow(tmp_path, 2)
    made = reader(tmp_path, minOffsetsPerTrigger="1000", maxOffsetsPerTrigger="10")
    made.prepareForTriggerAvailableNow()
    grow(tmp_path, 6)
    assert steps(made) == [10, 20]
    assert end_of(made.reportLatestOffset()) == 60
