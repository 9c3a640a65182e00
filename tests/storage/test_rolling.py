"""Conditions for a new segment of a log: Kafka's `LogSegment.shouldRoll`."""

import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.fetched_batches import groups_that_fit
from storage.logs.log import Log, LogConfig
from storage.segments.rolling import (
    AppendExtent,
    RollReason,
    RollRules,
    SegmentFill,
    drawn_jitter_ms,
    roll_reason,
)
from tests.storage.test_crash import batch
from wire.batches.batch import encode_batch, iterate_frames

RULES = RollRules(segment_bytes=1000, segment_ms=500, index_bytes=96)
FILL = SegmentFill(
    base_offset=50,
    size_bytes=400,
    first_timestamp_ms=10_000,
    created_ms=70_000,
    jitter_ms=0,
    offset_entries=0,
    time_entries=0,
)
APPEND = AppendExtent(600, 60, 10_500, 90_000)
FAR = 50 + (1 << 31)
TABLE: list[tuple[str, dict[str, Any], dict[str, Any], RollReason | None]] = [
    ("it fits exactly", {}, {}, None),
    ("a byte too many", {}, {"size_bytes": 601}, RollReason.SIZE),
    ("an empty segment takes any size", {"size_bytes": 0}, {"size_bytes": 5000}, None),
    ("a millisecond too late", {}, {"max_timestamp_ms": 10_501}, RollReason.TIME),
    ("an empty segment takes any time", {"size_bytes": 0}, {"max_timestamp_ms": 1 << 50}, None),
    ("the wall clock does not count", {}, {"wall_ms": 1 << 50}, None),
    ("older records never wait", {}, {"max_timestamp_ms": 0}, None),
    ("jitter, in time", {"jitter_ms": 100}, {"max_timestamp_ms": 10_400}, None),
    ("jitter, too late", {"jitter_ms": 100}, {"max_timestamp_ms": 10_401}, RollReason.TIME),
    ("a timestamp of 0 is one", {"first_timestamp_ms": 0}, {"wall_ms": 70_000}, RollReason.TIME),
    ("no timestamp: since created", {"first_timestamp_ms": -1}, {"wall_ms": 70_500}, None),
    ("the same, late", {"first_timestamp_ms": -1}, {"wall_ms": 70_501}, RollReason.TIME),
    ("room for one offset", {"offset_entries": 11}, {}, None),
    ("offset index full", {"offset_entries": 12}, {}, RollReason.INDEX_FULL),
    ("room for two times", {"time_entries": 6}, {}, None),
    ("one time is kept free", {"time_entries": 7}, {}, RollReason.INDEX_FULL),
    ("the last offset there can be", {}, {"last_offset": FAR - 1}, None),
    ("one more", {}, {"last_offset": FAR}, RollReason.OFFSET_OVERFLOW),
    ("also if empty", {"size_bytes": 0}, {"last_offset": FAR}, RollReason.OFFSET_OVERFLOW),
]


@pytest.mark.parametrize(
    ("fill", "append", "expected"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_reason_to_roll(
    fill: dict[str, Any], append: dict[str, Any], expected: RollReason | None
) -> None:
    segment = msgspec.structs.replace(FILL, **fill)
    assert roll_reason(segment, msgspec.structs.replace(APPEND, **append), RULES) is expected


def test_jitter_is_below_both_its_settings() -> None:
    rng = random.Random(1)
    drawn = {drawn_jitter_ms(rng, 5, 3) for _ in range(200)}
    assert drawn == {0, 1, 2}
    assert {drawn_jitter_ms(rng, 2, 3) for _ in range(200)} == {0, 1}
    assert drawn_jitter_ms(rng, 0, 3) == drawn_jitter_ms(rng, 3, 0) == 0
    assert drawn_jitter_ms(None, 5, 5) == 0


# ---- in a log ----------------------------------------------------------------------------------


def opened(vfs: MemoryVfs, **settings: Any) -> Log:
    vfs.make_directory("/d")
    config = LogConfig(contiguous=False, verify_from_start=False, **settings)
    return Log.open(vfs, "/d", config, rng=random.Random(2), wall_ms=70_000)


def bases(log: Log) -> tuple[int, ...]:
    return tuple(segment.base_offset for segment in log._segments)


def test_records_without_timestamps_wait_for_the_wall_clock() -> None:
    log = opened(MemoryVfs(), segment_ms=500)
    for offset, wall_ms in enumerate((70_000, 70_500, 70_501, 71_001, 71_002)):
        log.append(encode_batch([b"v"], offset, 1, -1), offset, wall_ms)
    assert bases(log) == (0, 2, 4)


def test_each_segment_has_its_own_jitter() -> None:
    log = opened(MemoryVfs(), segment_ms=1000, segment_jitter_ms=1000)
    for offset in range(2000):
        log.append(encode_batch([b"v"], offset, 1, 10_000 + offset), offset)
    found = bases(log)
    lengths = {later - base for base, later in pairwise(found)}
    assert len(lengths) > 1
    assert max(lengths) <= 1001


def test_a_full_index_begins_a_segment() -> None:
    log = opened(MemoryVfs(), index_interval_bytes=0, segment_index_bytes=48)
    for offset in range(12):
        log.append(batch(offset, 1), offset)
    assert bases(log) == (0, 4, 8)


def test_a_gap_beyond_relative_offsets_begins_a_segment_at_its_end() -> None:
    """As in a log that was compacted for long; also inside one fetched response, and at once."""
    vfs, far = MemoryVfs(), 1 << 31
    log = opened(vfs)
    fetched = [batch(5, 1), batch(far, 1), batch(far + 5, 1), batch(3 * far, 1)]
    assert log.append_fetched(b"".join(fetched), 1).end_offset == 3 * far + 1
    assert bases(log) == (0, 5, far + 5, 3 * far)
    assert log.read(0, 1000) == batch(5, 1) + batch(far, 1)
    assert log.read(far + 1, 1000) == batch(far + 5, 1)
    log.close()
    again = opened(vfs)
    assert (bases(again), again.end_offset) == (bases(log), 3 * far + 1)
    fresh = opened(MemoryVfs())
    fresh.append_fetched(batch(far, 1), 1)
    assert bases(fresh) == (0, far)
    assert fresh.read(0, 1000) == batch(far, 1)


def test_fetched_batches_are_written_in_as_few_groups_as_relative_offsets_allow() -> None:
    far = 1 << 31
    offsets = (5, far + 4, far + 5, far + 6, 3 * far)
    frames = list(iterate_frames(b"".join(batch(offset, 1) for offset in offsets)))
    groups = groups_that_fit(frames, 1 << 30, 1 << 30)
    assert [[frame.base_offset for frame in group] for group in groups] == [
        [5, far + 4],
        [far + 5, far + 6],
        [3 * far],
    ]
    sizes = [frame.size_bytes for frame in frames]
    near = frames[2:4]
    for room_bytes in (sizes[2] - 1, sizes[2], sum(sizes[2:4]) - 1):
        assert groups_that_fit(near, room_bytes, 1 << 30) == (
            [near] if room_bytes < sizes[2] else [near[:1], near[1:]]
        )


def test_the_first_timestamp_of_a_segment_that_was_loaded_counts() -> None:
    vfs = MemoryVfs()
    log = opened(vfs, segment_ms=100)
    log.append(encode_batch([b"v"], 0, 1, 1_000), 0)
    log.close()
    again = opened(vfs, segment_ms=100)
    again._active._indexes = None
    again.append(encode_batch([b"v"], 1, 1, 1_100), 1)
    again.append(encode_batch([b"v"], 2, 1, 1_101), 2)
    assert bases(again) == (0, 2)
