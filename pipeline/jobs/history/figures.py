"""Figures for the page of a history, read by columns and summed up while reading.

No table is held as a whole: memory is bounded by `POINTS_MAX` rows of a CSV, by the number
of partitions and, for the levels, by 11 bytes for each span of missing replicas.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pipeline.core.records.schema import TIMESTAMP
from pipeline.jobs.history.damage import TABLE as DAMAGE
from pipeline.jobs.history.query import counters
from pipeline.pictures import LANES_MAX, LEVELS, POINTS_MAX

CHANGES_SHOWN: Final = 200
_LANE_STATES_MAX: Final = POINTS_MAX // LANES_MAX
_WAITING_MAX: Final = 1 << 16
_OPEN: Final = int(np.iinfo(np.int64).max)
_UNKNOWN: Final = int(np.iinfo(np.int64).min)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KEY: Final = ["topic", "partition"]
_STATE: Final = [*_KEY, "leader", "leader_epoch", "isr", "replicas", "valid_from_ts",
                 "valid_to_ts", "valid_from_offset"]  # fmt: skip
Row = dict[str, Any]


class Facts(msgspec.Struct, frozen=True):
    """The counts on top of the page, and the history's time span (None: no record has a time)."""

    partitions: int
    changes: int
    unclean: int
    offline: int
    under_replicated: int
    start_offset: int
    end_offset: int
    begin: datetime | None
    end: datetime | None
    damaged: int


def facts(root: str) -> Facts:
    """Read the counts and the time span of a history."""
    now = ~pc.field("valid_to_offset").is_valid()
    covered = counters(root)
    begin, end = _times(root, "records", "ts")
    return Facts(
        partitions=_count(root, "partitions", now),
        changes=_count(root, "leader_changes"),
        unclean=_count(root, "leader_changes", pc.field("kind") == "unclean"),
        offline=_count(root, "partitions", now & (pc.field("leader") < 0)),
        under_replicated=_count(root, "under_replicated", ~pc.field("to_ts").is_valid()),
        start_offset=covered["start_offset"],
        end_offset=covered["end_offset"],
        begin=begin,
        end=end,
        damaged=covered.get("damaged", 0),
    )


def damaged_places(root: str) -> list[Row]:
    """Rows of the table `damage`, at most `CHANGES_SHOWN`."""
    rows: list[Row] = []
    for batch in _batches(root, DAMAGE, ["path", "position", "offset", "reason", "detail"]):
        rows += batch.slice(0, CHANGES_SHOWN - len(rows)).to_pylist()
    return rows


def first_state(root: str) -> datetime | None:
    """Time of the first partition."""
    return _times(root, "partitions", "valid_from_ts")[0]


def latest_changes(root: str) -> list[Row]:
    """The newest rows of `leader_changes`, ascending; at most `CHANGES_SHOWN`."""
    columns = ["ts", "offset", "topic", "partition", "from", "to", "epoch", "kind",
               "ms_without_leader"]  # fmt: skip
    kept: pa.Table | None = None
    for batch in _batches(root, "leader_changes", columns):
        one = pa.Table.from_batches([batch])
        kept = one if kept is None else pa.concat_tables([kept, one])
        if len(kept) > CHANGES_SHOWN:
            kept = kept.take(pc.select_k_unstable(kept, CHANGES_SHOWN, [("offset", "descending")]))
    rows: list[Row] = [] if kept is None else kept.to_pylist()
    return sorted(rows, key=lambda row: (row["offset"], row["topic"], row["partition"]))


def busiest_states(root: str, begin: datetime | None, end: datetime | None) -> list[Row]:
    """States of the partitions that changed most, for the timeline; at most `POINTS_MAX`.

    A partition with more than its share of states has those that begin in the same one of that many
    equal spans merged, `states` of them in a row: `leader` is that of the longest, `isr` that
    with most replicas missing.
    """
    counts = _busiest(root)
    if not counts:
        return []
    named = [(pc.field("topic") == topic) & (pc.field("partition") == number)
             for topic, number in counts]  # fmt: skip
    lanes = {key: lane for lane, key in enumerate(counts)}
    is_long = np.array([count > _LANE_STATES_MAX for count in counts.values()])
    start, stop = _micros(begin), _micros(end)
    width = max(1, -(-(stop - start + 1) // _LANE_STATES_MAX)) if begin and end else 1
    states = _States()
    for batch in _batches(root, "partitions", _STATE, reduce(or_, named)):
        keys = zip(*(batch.column(name).to_pylist() for name in _KEY), strict=True)
        lane = np.array([lanes[key] for key in keys], np.int64)
        since = _numbers(batch.column("valid_from_ts"), _UNKNOWN)
        offsets = batch.column("valid_from_offset").to_numpy()
        bucket = np.where(is_long[lane], np.clip((since - start) // width, -1, None), offsets)
        states.add(batch, lane, bucket, since)
    return states.rows(list(counts))


class _States:
    """States by lane and bucket, merged to one row for each."""

    def __init__(self) -> None:
        self._kept: pa.Table | None = None
        self._waiting: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch, lane: Any, bucket: Any, since: Any) -> None:
        """Add states; `since` is the begin of each, in us."""
        until = _numbers(batch.column("valid_to_ts"), _OPEN)
        missing = pc.subtract(
            *(pc.list_value_length(batch.column(name)) for name in ("replicas", "isr"))
        )
        row = {
            "lane": lane, "bucket": bucket, "since": since, "until": until,
            "offset": batch.column("valid_from_offset"), "states": np.ones(len(lane), np.int64),
            "longest": np.where(since == _UNKNOWN, 0, until - np.maximum(since, 0)),
            "leader": batch.column("leader"), "epoch": batch.column("leader_epoch"),
            "missing": missing, "isr": batch.column("isr"), "replicas": batch.column("replicas"),
        }  # fmt: skip
        self._waiting.append(pa.table(row))
        if sum(map(len, self._waiting)) > _WAITING_MAX:
            self._merge()

    def rows(self, lanes: list[tuple[str, int]]) -> list[Row]:
        """Return the merged states, by lane and time."""
        self._merge()
        if self._kept is None:
            return []
        found = self._kept.sort_by([("lane", "ascending"), ("offset", "ascending")])
        return [
            {"topic": lanes[row["lane"]][0], "partition": lanes[row["lane"]][1],
             "leader": row["leader"], "leader_epoch": row["epoch"], "isr": row["isr"],
             "replicas": row["replicas"], "valid_from_ts": _moment(row["since"]),
             "valid_to_ts": _moment(row["until"]), "valid_from_offset": row["offset"],
             "states": row["states"]}
            for row in found.to_pylist()
        ]  # fmt: skip

    def _merge(self) -> None:
        tables = ([] if self._kept is None else [self._kept]) + self._waiting
        self._waiting = []
        if not tables:
            return
        rows = pa.concat_tables(tables).combine_chunks()
        n = {name: rows.column(name).to_numpy() for name in
             ("lane", "bucket", "since", "until", "offset", "states", "longest",
              "missing")}  # fmt: skip
        order = np.lexsort((-n["longest"], n["bucket"], n["lane"]))
        worst = np.lexsort((-n["missing"], n["bucket"], n["lane"]))
        lane, bucket = n["lane"][order], n["bucket"][order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (np.diff(lane) != 0) | (np.diff(bucket) != 0)
        first = np.flatnonzero(is_first)
        longest, largest = pa.array(order[first]), pa.array(worst[first])
        kept: dict[str, Any] = {
            "lane": lane[first], "bucket": bucket[first],
            "since": np.minimum.reduceat(n["since"][order], first),
            "until": np.maximum.reduceat(n["until"][order], first),
            "offset": np.minimum.reduceat(n["offset"][order], first),
            "states": np.add.reduceat(n["states"][order], first),
            "longest": n["longest"][order][first],
        }  # fmt: skip
        kept |= {name: rows.column(name).take(longest) for name in ("leader", "epoch")}
        kept |= {name: rows.column(name).take(largest) for name in ("missing", "isr", "replicas")}
        self._kept = pa.table(kept)


def _busiest(root: str) -> dict[tuple[str, int], int]:
    """The partitions with the most states and their numbers of states, sorted by name."""
    total: pa.Table | None = None
    for batch in _batches(root, "partitions", _KEY):
        one = pa.Table.from_batches([batch]).group_by(_KEY).aggregate([([], "count_all")])
        if total is not None:
            both = pa.concat_tables([total, one])
            one = both.group_by(_KEY).aggregate([("count_all", "sum")])
            one = one.rename_columns({"count_all_sum": "count_all"})
        total = one
    if total is None:
        return {}
    order = [("count_all", "descending"), *((name, "ascending") for name in _KEY)]
    rows = total.take(pc.select_k_unstable(total, min(LANES_MAX, len(total)), order)).to_pylist()
    return dict(sorted(((row["topic"], row["partition"]), row["count_all"]) for row in rows))


def levels(root: str, end: datetime | None) -> list[Row]:
    """Numbers of partitions with missing replicas, below min.insync.replicas, and without leader.

    A row per time at which they change; above `POINTS_MAX` times, the largest values in each of
    as many equal spans. The columns are `ts` and `pictures.LEVELS`.

    Args:
        root: output of `history`.
        end: assumed end of spans that are open.
    """
    moments: list[Any] = [np.empty(0, np.int64)]
    changes: list[Any] = [np.empty((0, len(LEVELS)), np.int8)]

    def add(since: pa.Array, until: pa.Array, flags: Sequence[Any]) -> None:
        start, stop = _numbers(since, _UNKNOWN), _numbers(until, _micros(end))
        known = (start != _UNKNOWN) & (stop != _UNKNOWN)
        step = np.stack([np.asarray(flag, np.int8) for flag in flags], axis=1)[known]
        moments.extend((start[known], stop[known]))
        changes.extend((step, -step))

    for batch in _batches(root, "under_replicated", ["from_ts", "to_ts", "below_min_isr"]):
        below = pc.fill_null(batch.column("below_min_isr"), fill_value=False)
        below = below.to_numpy(zero_copy_only=False)
        flags = np.ones(len(below)), below, np.zeros(len(below))
        add(batch.column("from_ts"), batch.column("to_ts"), flags)
    times = ["valid_from_ts", "valid_to_ts"]
    for batch in _batches(root, "partitions", [*times, "leader"], pc.field("leader") < 0):
        nothing = np.zeros(len(batch))
        flags = nothing, nothing, np.ones(len(batch))
        add(batch.column("valid_from_ts"), batch.column("valid_to_ts"), flags)
    return _points(np.concatenate(moments), np.concatenate(changes))


def _points(moments: Any, changes: Any) -> list[Row]:
    """Levels at each time, from the changes at these times."""
    if not len(moments):
        return []
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    first = np.flatnonzero(np.diff(moments, prepend=moments[0] - 1))
    found = np.stack(
        [np.cumsum(np.add.reduceat(changes[order, index], first, dtype=np.int64))
         for index in range(len(LEVELS))], axis=1,
    )  # fmt: skip
    moments = moments[first]
    if len(moments) > POINTS_MAX:
        moments, found = _largest(moments, found)
    names = list(LEVELS)
    return [
        {"ts": _moment(moment)} | dict(zip(names, row, strict=True))
        for moment, row in zip(moments.tolist(), found.tolist(), strict=True)
    ]


def _largest(moments: Any, found: Any) -> tuple[Any, Any]:
    """Largest levels in equal spans of time, and the level in the quiet time after each span."""
    width = (int(moments[-1]) - int(moments[0])) // (POINTS_MAX // 2) + 1
    bucket = (moments - moments[0]) // width
    first = np.flatnonzero(np.diff(bucket, prepend=-1))
    last = np.append(first[1:], len(bucket)) - 1
    starts = moments[0] + bucket[first] * width
    entered = np.zeros((len(first), found.shape[1]), np.int64)
    entered[1:] = found[last[:-1]]
    entered[starts == moments[first]] = 0  # the level before ends where the span begins
    peaks = np.maximum(np.maximum.reduceat(found, first, axis=0), entered)
    is_quiet = np.append(np.diff(bucket[first]) > 1, True)
    ends = np.minimum(starts + width, moments[-1])[is_quiet]
    times = np.concatenate([starts, ends])
    order = np.argsort(times, kind="stable")
    return times[order], np.concatenate([peaks, found[last][is_quiet]])[order]


def _batches(
    root: str, name: str, columns: list[str], wanted: Any = None
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a table, piece by piece, with only the rows that match `wanted`."""
    for path in sorted(Path(root, name).rglob("*.parquet")):
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_WAITING_MAX, columns=columns, use_threads=False):
                found = batch if wanted is None else batch.filter(wanted)
                if found.num_rows:
                    yield found


def _count(root: str, name: str, wanted: Any = None) -> int:
    files = sorted(map(str, Path(root, name).rglob("*.parquet")))
    return ds.dataset(files).count_rows(filter=wanted) if files else 0


def _times(root: str, name: str, column: str) -> tuple[datetime | None, datetime | None]:
    """First and last time in a column."""
    least, most = _OPEN, _UNKNOWN
    for batch in _batches(root, name, [column], pc.field(column).is_valid()):
        numbers = _numbers(batch.column(0), _UNKNOWN)
        least, most = min(least, int(numbers.min())), max(most, int(numbers.max()))
    return _moment(least), _moment(most)


def _numbers(column: pa.Array, missing: int) -> Any:
    """Times in us since 1970."""
    return column.cast(TIMESTAMP).cast(pa.int64()).fill_null(missing).to_numpy()


def _micros(moment: datetime | None) -> int:
    return _UNKNOWN if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(micros: int) -> datetime | None:
    if micros in (_OPEN, _UNKNOWN):
        return None
    return _EPOCH + timedelta(microseconds=micros)
