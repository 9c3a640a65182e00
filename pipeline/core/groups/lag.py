"""Lag of groups on one data partition: at each of their commits, and at instants between.

    lag = end offset of the log - committed offset, both at the same instant

The end is known between two bounds (`data_log`); what any group had committed by then was there
too, which raises the lower one. Where they meet the lag is exact. Where the stamps contradict what
groups had committed (a clock ahead, stamps that are times of events) only the log's own end bounds
it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.core.groups.commits import NO_OFFSET, Timeline
from pipeline.core.groups.data_log import Int64Array, Stamps
from pipeline.core.groups.tables import LAG
from pipeline.core.records.arrays import timestamps

COMMIT: Final = "commit"
SAMPLE: Final = "sample"
_SECOND: Final = 1000
_STEPS_MS: Final = tuple(
    count * unit
    for unit, counts in (
        (_SECOND, (1, 2, 5, 10, 15, 30)),
        (60 * _SECOND, (1, 2, 5, 10, 15, 30)),
        (3600 * _SECOND, (1, 2, 3, 6, 12)),
        (86_400 * _SECOND, (1, 2, 7, 14, 30, 90, 365)),
    )
    for count in counts
)


class _Points(msgspec.Struct, frozen=True):
    """Instants of one group in order, what it had committed then, and the kind of each."""

    group_id: str
    times_ms: Int64Array
    committed: Int64Array
    kinds: list[str]


def sample_times(begin_ms: int, end_ms: int, count: int) -> Int64Array:
    """Instants in [begin, end], whole multiples of a step, at most `count` + 1 of them.

    Args:
        begin_ms: of the first commit.
        end_ms: of the newest record; nothing is known after it.
        count: at least 1.
    """
    span = end_ms - begin_ms
    step = next((one for one in _STEPS_MS if span <= one * count), _STEPS_MS[-1])
    first = -(-begin_ms // step) * step
    return np.arange(first, end_ms + 1, step, dtype=np.int64)


def lag_table(
    topic: str, partition: int, topic_id: str | None, timelines: Sequence[Timeline],
    stamps: Stamps, *, samples_ms: Int64Array, delivery_ms: int | None = None,
) -> pa.Table:  # fmt: skip
    """The table LAG of one partition, by group and time.

    Args:
        topic: its name.
        partition: its number.
        topic_id: of the log; what was committed for another topic of the name does not count.
        timelines: of the groups that committed offsets of it.
        stamps: of the log's batches.
        samples_ms: instants, ascending, at which each group's lag is told too.
        delivery_ms: as for `Stamps.ends_at`.
    """
    own = [_of_topic(timeline, topic_id) for timeline in timelines]
    times, offsets = _evidence(own)
    tables = []
    for one in own:
        points = _points(one, samples_ms)
        low, high = stamps.ends_at(points.times_ms, delivery_ms)
        known = np.searchsorted(times, points.times_ms, side="right")
        low = np.maximum(low, np.append(np.zeros(1, np.int64), offsets)[known])
        high = np.where(high < low, np.maximum(stamps.log_end, low), high)
        tables.append(_table(topic, partition, points, low, high))
    return pa.concat_tables([LAG.empty_table(), *tables])


def _of_topic(timeline: Timeline, topic_id: str | None) -> Timeline:
    """The offsets of this topic; one of another topic of the name takes the place of none."""
    offsets = [
        (time, offset if topic_id in (None, known) or known is None else NO_OFFSET, known)
        for time, offset, known in timeline.offsets
    ]
    return msgspec.structs.replace(timeline, offsets=offsets)


def _evidence(timelines: Iterable[Timeline]) -> tuple[Int64Array, Int64Array]:
    """Times in order, and the highest offset that any group had committed by each."""
    found = sorted((time, offset) for one in timelines for time, offset, _ in one.offsets)
    times = np.array([time for time, _ in found], np.int64)
    return times, np.maximum.accumulate(np.array([offset for _, offset in found], np.int64))


def _points(timeline: Timeline, samples_ms: Int64Array) -> _Points:
    """The commits, and the samples behind the first of them; none while there is no offset."""
    times = np.maximum.accumulate(np.array([one[0] for one in timeline.offsets], np.int64))
    offsets = np.array([one[1] for one in timeline.offsets], np.int64)
    at = np.searchsorted(times, samples_ms, side="right") - 1
    sampled = samples_ms[at >= 0]
    every = np.concatenate([times, sampled])
    committed = np.concatenate([offsets, offsets[at[at >= 0]]])
    order = np.argsort(every, kind="stable")
    order = order[committed[order] != NO_OFFSET]
    kinds = [COMMIT if index < len(times) else SAMPLE for index in order.tolist()]
    return _Points(timeline.group_id, every[order], committed[order], kinds)


def _table(
    topic: str, partition: int, points: _Points, low: Int64Array, high: Int64Array
) -> pa.Table:
    count = len(points.kinds)
    columns = {
        "group_id": pa.repeat(points.group_id, count), "topic": pa.repeat(topic, count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "ts": timestamps(points.times_ms), "point": pa.array(points.kinds, pa.string()),
        "committed_offset": pa.array(points.committed), "end_offset_min": pa.array(low),
        "end_offset_max": pa.array(high), "lag_min": pa.array(low - points.committed),
        "lag_max": pa.array(high - points.committed), "is_exact": pa.array(low == high),
    }  # fmt: skip
    return pa.Table.from_arrays([columns[name] for name in LAG.names], schema=LAG)
