"""Segments that retention deletes: Kafka's three limits, and a log that loses all segments."""

from typing import Any

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.retention import RetentionRules, SegmentExtent, deletable_count
from tests.storage.test_unified_log import LOG_END, NOW, content, opened, produced

SIZES = (100, 200, 300, 400)
TIMES = (1_000, 5_000, 2_000, 9_000)
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("no limit", {}, {}, 0),
    ("below the log start", {}, {"start": 20}, 2),
    ("inside a segment", {}, {"start": 19}, 1),
    ("never the last one", {}, {"start": 40}, 3),
    ("also of compacted topics", {"is_deleted": False}, {"start": 20}, 2),
    (
        "but nothing else of them",
        {"is_deleted": False, "retention_bytes": 0, "retention_ms": 0},
        {},
        0,
    ),
    ("as much as is kept", {"retention_bytes": 900}, {}, 1),
    ("a byte more is kept", {"retention_bytes": 901}, {}, 0),
    ("two", {"retention_bytes": 700}, {}, 2),
    ("a limit of 0", {"retention_bytes": 0}, {}, 4),
    ("what the log start took does not count", {"retention_bytes": 750}, {"start": 10}, 1),
    ("not above the high watermark", {"retention_bytes": 0}, {"high_watermark": 29}, 2),
    ("up to the high watermark", {"retention_bytes": 0}, {"high_watermark": 30}, 3),
    ("nor below the log start", {}, {"start": 20, "high_watermark": 15}, 1),
    ("old", {"retention_ms": 9_000}, {"wall_ms": 10_001}, 1),
    ("not yet", {"retention_ms": 9_000}, {"wall_ms": 10_000}, 0),
    ("a later one spares those behind it", {"retention_ms": 5_500}, {"wall_ms": 10_000}, 1),
    ("all", {"retention_ms": 0}, {"wall_ms": 9_001}, 4),
    ("either suffices", {"retention_bytes": 900, "retention_ms": 4_999}, {"wall_ms": 10_000}, 3),
]


@pytest.mark.parametrize(
    ("rules", "state", "expected"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_segments_that_go(rules: dict[str, Any], state: dict[str, Any], expected: int) -> None:
    segments = [SegmentExtent(10 * n, 10 * n + 10, size) for n, size in enumerate(SIZES)]
    count = deletable_count(
        segments,
        RetentionRules(**({"retention_ms": -1} | rules)),
        lambda number: TIMES[number],
        log_start_offset=state.get("start", 0),
        high_watermark=state.get("high_watermark", 40),
        wall_ms=state.get("wall_ms", 10_000),
    )
    assert count == expected


def test_an_empty_last_segment_stays_and_few_timestamps_are_looked_at() -> None:
    segments = [SegmentExtent(0, 10, 100), SegmentExtent(10, 20, 100), SegmentExtent(20, 20, 0)]
    asked: list[int] = []

    def largest(number: int) -> int:
        asked.append(number)
        return 1_000 * number

    rules, offsets = RetentionRules(retention_ms=0), {"log_start_offset": 0, "high_watermark": 20}
    assert deletable_count(segments, rules, largest, wall_ms=1_000, **offsets) == 1
    assert asked == [0, 1]
    assert deletable_count(segments, rules, largest, wall_ms=1 << 40, **offsets) == 2


def test_a_log_deletes_what_is_too_old_and_begins_a_new_segment_if_all_is() -> None:
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=160)
    for number in range(6):
        at = NOW + 1_000 * number
        log.append_as_leader(produced(at, producer=7, sequence=number), 1, at)
    log.set_high_watermark(6)
    count = len(log.log.segments)
    assert count > 2
    rules = RetentionRules(retention_ms=3_000)
    assert log.delete_old_segments(rules, NOW + 3_000) == ()
    assert len(log.delete_old_segments(rules, NOW + 4_001)) > 0
    assert log.log_start_offset == 2
    assert log.delete_old_segments(rules, NOW + 60_000) != ()
    assert (log.log_start_offset, log.end_offset, len(log.log.segments)) == (6, 6, 1)
    assert vfs.exists(f"/d/p-0/{6:020d}.snapshot")
    assert content(log, 6, LOG_END) == b""
    assert log.delete_old_segments(rules, NOW + 90_000) == ()
    found = log.append_as_leader(produced(NOW, producer=7, sequence=5), 1, NOW)
    assert (found.is_duplicate, found.base_offset) == (True, 5)
    assert log.append_as_leader(produced(NOW, producer=7, sequence=6), 1, NOW).base_offset == 6


def test_records_without_timestamps_are_as_old_as_the_last_append_to_their_segment() -> None:
    """Kafka takes the time of the file: who writes all the time keeps what is written."""
    clock = [NOW]
    vfs = MemoryVfs(wall_ms=lambda: clock[0])
    log = opened(vfs)
    log.append_as_leader(produced(-1), 1, NOW)
    clock[0] = NOW + 1_000
    log.append_as_leader(produced(-1), 1, NOW + 1_000)
    log.set_high_watermark(2)
    rules = RetentionRules(retention_ms=100)
    assert log.delete_old_segments(rules, NOW + 1_100) == ()
    clock[0] = NOW + 50_000
    again = opened(vfs)
    again.set_high_watermark(2)
    assert again.delete_old_segments(rules, NOW + 1_100) == ()
    assert again.delete_old_segments(rules, NOW + 1_101) != (), "a start does not renew it"
    assert log.delete_old_segments(rules, NOW + 1_101) != ()


def test_a_segment_that_is_cut_is_as_old_as_the_cut() -> None:
    vfs = MemoryVfs(wall_ms=lambda: NOW + 9)
    log = opened(vfs)
    for _ in range(2):
        log.append_as_leader(produced(-1), 1, NOW)
    log.truncate_to(1, NOW + 9)
    assert log.log.segments[0].largest_timestamp_ms == NOW + 9


def test_a_segment_without_records_is_as_old_as_its_roll() -> None:
    log = opened(MemoryVfs())
    log.append_as_leader(produced(-1), 1, NOW)
    log.log.roll(1, NOW + 7)
    assert [each.largest_timestamp_ms for each in log.log.segments] == [NOW, NOW + 7]
