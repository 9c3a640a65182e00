"""Reports from the intervals: changes of leaders and why, churn of ISRs, under-replication.

They are computed from the kept states of a chunk while these are in memory. Values that a report
needs beyond the chunk are stored with the key's open state: the last change of its leader, the
begin of the span of missing replicas, the brokers that are away.
"""

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.records.schema import TIMESTAMP
from pipeline.jobs.history.overlay import (
    CHANGES,
    Frame,
    Topics,
    last_where,
    starts_of,
)
from pipeline.jobs.history.packed_lists import (
    NONE,
    Flags,
    Numbers,
    by_distinct,
    codes,
    distinct,
    id_lists,
    nullable,
    numbers_of,
    whole,
)
from pipeline.jobs.history.schema import CHURN

_ISR_BIT: Final = 1 << CHANGES.index("isr")
_REPLICAS_BIT: Final = 1 << CHANGES.index("replicas")
_MS: Final = 1000
_HOUR: Final = 3_600_000_000
_NEVER: Final = int(np.iinfo(np.int64).max)
NO_LEADER: Final = -1


class Timeline:
    """Values valid in ranges of offsets, by key, such as registrations of brokers and configs.

    Args:
        rows: (key, from, to or None, value); ranges of one key ascend and do not overlap.
    """

    def __init__(self, rows: list[tuple[Any, int, int | None, Any]]) -> None:
        self._ranges: dict[Any, tuple[Numbers, Numbers, list[Any]]] = {}
        grouped: dict[Any, list[tuple[int, int, Any]]] = {}
        for key, start, end, value in rows:
            grouped.setdefault(key, []).append((start, _NEVER if end is None else end, value))
        for key, ranges in grouped.items():
            starts, ends, values = zip(*sorted(ranges, key=lambda one: one[0]), strict=True)
            self._ranges[key] = np.array(starts), np.array(ends), list(values)

    def at(self, keys: list[Any], key_index: Numbers, places: Numbers, missing: int) -> Numbers:
        """Return the value of each row's key where start <= place < end, else `missing`."""
        found = np.full(len(places), missing)
        for index, key in enumerate(keys):
            if key not in self._ranges:
                continue
            starts, ends, values = self._ranges[key]
            rows = np.flatnonzero(key_index == index)
            slot = np.searchsorted(starts, places[rows], "right") - 1
            inside = (slot >= 0) & (places[rows] < ends[slot])
            found[rows[inside]] = np.array(values)[slot[inside]]
        return found


class Surroundings(msgspec.Struct, frozen=True):
    """State of brokers, topics and configs that the reports of partitions need.

    `brokers`: 2 * fenced + in_shutdown by broker id and batch; `min_isr` by topic name (or ""
    for the cluster) and offset.
    """

    topics: Topics
    brokers: Timeline
    min_isr: Timeline


class Away(msgspec.Struct):
    """Brokers that are away from an ISR, over the chunks of a bucket."""

    rows: Frame


def leader_changes(kept: Frame, carry: Frame, around: Surroundings) -> pa.Table:
    """One row per change of leader or of its epoch alone, with the inferred kind.

    Sets in `kept` the time of the last leader change of each key (`last_change_ts`).
    """
    n = kept.numbers
    before = np.arange(len(kept)) - 1
    fresh = (n["first"] == 0) & (n["carried"] == NONE)
    changed = fresh & (
        (n["leader"] != n["leader"][before]) | (n["leader_epoch"] > n["leader_epoch"][before])
    )
    known = np.where(n["carried"] == NONE, NONE, 0)
    carried = n["carried"] != NONE
    known[carried] = carry.numbers["last_change_ts"][n["carried"][carried]]
    last = last_where(changed, starts_of(n["first"] != 0))
    n["last_change_ts"] = np.where(changed, n["ts"], known)[last]
    rows = np.flatnonzero(changed)
    before_ts = n["last_change_ts"][rows - 1]
    recovered = (n["prev_leader"][rows] == NO_LEADER) & (n["leader"][rows] >= 0)
    timed = recovered & (before_ts != NONE) & (n["ts"][rows] != NONE)
    without = np.where(timed, n["ts"][rows] // _MS - before_ts // _MS, NONE)
    kinds, names = _kinds(kept, rows, around)
    topic = pa.array(n["topic"][rows])
    columns = {
        "ts": nullable(n["ts"][rows], TIMESTAMP),
        "offset": pa.array(n["visible"][rows]),
        "topic_id": around.topics.ids.take(topic),
        "topic": around.topics.names.take(topic),
        "partition": nullable(n["partition"][rows], pa.int32()),
        "from": nullable(n["prev_leader"][rows], pa.int32()),
        "to": nullable(n["leader"][rows], pa.int32()),
        "epoch": nullable(n["leader_epoch"][rows], pa.int32()),
        "kind": pa.array(names, pa.string()).take(pa.array(kinds)),
        "ms_without_leader": nullable(without, pa.int64()),
        "cause_offset": pa.array(n["offset"][rows]),
        "controller_epoch": nullable(n["epoch"][rows], pa.int32()),
    }
    return pa.table(columns)


def _kinds(kept: Frame, rows: Numbers, around: Surroundings) -> tuple[Numbers, list[str]]:
    n = kept.numbers
    moving = _lengths(kept, "adding") + _lengths(kept, "removing") > 0
    moves = moving[rows - 1] | ((n["change"][rows] & _REPLICAS_BIT) != 0)
    old, old_ids = distinct(n["prev_leader"][rows])
    # registration of the old leader after the batch that changed the leader
    standing = around.brokers.at(old_ids, old, n["batch_offset"][rows], NONE)
    chosen = pa.array(rows)
    lists = [
        id_lists(kept.packed[name].take(chosen))
        for name in ("prev_isr", "prev_elr", "prev_replicas", "replicas", "isr")
    ]
    columns = (distinct(n["leader"][rows]), (old, old_ids), distinct(standing), distinct(moves))
    return by_distinct(_kind, *columns, *lists)


def _kind(
    to: int, old: int, standing: int, moves: int, prev_isr: tuple[int, ...], *others: Any
) -> str:
    """Infer from the records why the leader changed."""
    prev_elr, prev_replicas, replicas, isr = (one or () for one in others)
    is_live = to >= 0
    is_unclean = is_live and to in prev_replicas and to not in prev_isr
    reasons = (
        (to == old, "epoch_only"),
        (is_unclean and to in prev_elr, "failover_elr"),
        (is_unclean, "unclean"),
        (old == NO_LEADER and is_live, "recovery"),
        (standing != NONE and standing % 2 == 1, "controlled_shutdown"),
        (standing == NONE or standing >= 2, "failover"),
        (moves, "reassignment"),
        (to in replicas[:1] and old in isr, "preferred"),
    )
    return next((reason for holds, reason in reasons if holds), "planned")


def under_replicated(kept: Frame, carry: Frame, around: Surroundings) -> pa.Table:
    """Ended spans of time in which the same replicas were missing from the ISR.

    Replicas that a reassignment adds do not count as missing until it is complete. Sets in `kept`
    the begin of the span of each state (`span_ts`, `span_offset`, `span_in_sync`).
    """
    n = kept.numbers
    missing, answers = by_distinct(
        _missing, *(id_lists(kept.packed[name]) for name in ("replicas", "adding", "isr"))
    )
    starts = (n["first"] != 0) | (missing != missing[np.arange(len(kept)) - 1])
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(kept))[: len(first)] - 1
    if not len(first):
        for name in _SPAN:
            n[name] = np.empty(0, np.int64)
        return span_rows(kept, first, around)
    spans = {
        "span_ts": np.minimum.reduceat(np.where(n["ts"] == NONE, _NEVER, n["ts"]), first),
        "span_offset": n["visible"][first],
        "span_in_sync": np.minimum.reduceat(_lengths(kept, "isr"), first),
    }
    goes_on = n["carried"][first] != NONE
    rows = n["carried"][first][goes_on]
    for name, column in spans.items():
        known = carry.numbers[name][rows]
        column[goes_on] = np.minimum(column[goes_on], np.where(known == NONE, _NEVER, known))
    spans["span_ts"][spans["span_ts"] == _NEVER] = NONE
    is_missing = np.array([bool(one) for one in answers])[missing]
    index = np.cumsum(starts) - 1
    for name, column in spans.items():
        n[name] = np.where(is_missing, column[index], NONE)
    over = is_missing[last] & (n["to_offset"][last] != NONE)
    return span_rows(kept, last[over], around)


_SPAN: Final = ("span_ts", "span_offset", "span_in_sync")


def span_rows(kept: Frame, last: Numbers, around: Surroundings) -> pa.Table:
    """Rows of `under_replicated` for spans, by the last state of each."""
    chosen = kept.take(last)
    n = chosen.numbers
    lists = (id_lists(chosen.packed[name]) for name in ("replicas", "adding", "isr"))
    missing, answers = by_distinct(_missing, *lists) if len(last) else (last, [])
    topic = pa.array(n["topic"])
    names = around.topics.names.take(topic)
    index, found = codes(names)
    of_cluster = around.min_isr.at([""], np.zeros(len(last), np.int64), n["span_offset"], 1)
    of_topic = around.min_isr.at(found.to_pylist(), index, n["span_offset"], NONE)
    least = np.where(of_topic == NONE, of_cluster, of_topic)
    columns = {
        "topic_id": around.topics.ids.take(topic),
        "topic": names,
        "partition": nullable(n["partition"], pa.int32()),
        "from_ts": nullable(n["span_ts"], TIMESTAMP),
        "to_ts": nullable(n["to_ts"], TIMESTAMP),
        "from_offset": pa.array(n["span_offset"]),
        "to_offset": nullable(n["to_offset"], pa.int64()),
        "missing": pa.array(answers, pa.list_(pa.int32())).take(pa.array(missing)),
        "leader": nullable(n["leader"], pa.int32()),
        "below_min_isr": pa.array(n["span_in_sync"] < least),
    }
    return pa.table(columns)


def _missing(
    replicas: tuple[int, ...], adding: tuple[int, ...], isr: tuple[int, ...]
) -> tuple[int, ...]:
    return tuple(sorted(set(replicas) - set(adding) - set(isr)))


def isr_churn(kept: Frame, away: Away, topics: Topics) -> pa.Table:
    """Rows of `CHURN`: brokers that left and joined ISRs, and the time that each was away."""
    moves = _moves(kept)
    both = Frame.concat([away.rows, moves])
    n = both.numbers
    key = (n["topic"] << 32) | n["partition"]
    order = np.lexsort((n["visible"], n["broker"], key))
    both = both.take(order)
    n, key = both.numbers, key[order]
    count = len(both)
    is_last = np.ones(count, np.bool_)
    is_last[:-1] = (key[1:] != key[:-1]) | (n["broker"][1:] != n["broker"][:-1])
    following = np.minimum(np.arange(count) + 1, count - 1)
    back = (n["out"] == 1) & ~is_last & (n["out"][following] == 0)
    then, again = n["ts"], n["ts"][following]
    timed = back & (then != NONE) & (again != NONE)
    seconds = np.where(timed, (again // _MS - then // _MS) / _MS, np.nan)
    fresh = n["visible"] != NONE
    found = _grouped(both, topics, seconds, fresh)
    stays = is_last & (n["out"] == 1)
    away.rows = both.filter(stays)
    away.rows.numbers["visible"] = np.full(len(away.rows), NONE)
    return found


def _moves(kept: Frame) -> Frame:
    """Brokers that left or joined the ISR, one row each."""
    n = kept.numbers
    rows = np.flatnonzero(((n["change"] & _ISR_BIT) != 0) & (n["carried"] == NONE))
    chosen = pa.array(rows)
    lists = (id_lists(kept.packed[name].take(chosen)) for name in ("prev_isr", "isr"))
    names = ("topic", "partition", "visible", "ts")
    if not len(rows):
        return Frame(dict.fromkeys((*names, "broker", "out"), rows), {})
    answer, answers = by_distinct(_moved, *lists)
    counts = np.array([len(one) for one in answers])
    flat = np.array([pair for one in answers for pair in one], np.int64).reshape(-1, 2)
    starts = np.cumsum(counts) - counts
    of_row = counts[answer]
    row = np.repeat(np.arange(len(rows)), of_row)
    within = np.arange(len(row)) - np.repeat(np.cumsum(of_row) - of_row, of_row)
    pair = flat[starts[answer][row] + within]
    moved = {name: n[name][rows][row] for name in names}
    return Frame(moved | {"broker": pair[:, 0], "out": pair[:, 1]}, {})


def _moved(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    left = [(broker, 1) for broker in dict.fromkeys(before) if broker not in after]
    joined = [(broker, 0) for broker in dict.fromkeys(after) if broker not in before]
    return (*left, *joined)


def _grouped(moves: Frame, topics: Topics, seconds: Any, fresh: Flags) -> pa.Table:
    """Group moves with any information by hour, topic and broker."""
    wanted = fresh | ~np.isnan(seconds)
    n = moves.filter(wanted).numbers
    index, names = codes(topics.names.take(pa.array(n["topic"])))
    hour = np.where(n["ts"] == NONE, NONE, n["ts"] // _HOUR * _HOUR)
    table = pa.table(
        {
            "window": pa.array(hour),
            "topic": pa.array(index),
            "broker": pa.array(n["broker"]),
            "shrinks": pa.array((fresh[wanted] & (n["out"] == 1)).astype(np.int64)),
            "expands": pa.array((fresh[wanted] & (n["out"] == 0)).astype(np.int64)),
            "out_s": pa.array(seconds[wanted]),
        }
    )
    grouped = _by_group(table)
    grouped["topic"] = names.take(pa.array(numbers_of(grouped["topic"])))
    return _churn_table(grouped)


def merged_churn(tables: list[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Merge `CHURN` to one row per group, and build the report `isr_churn`."""
    everything = pa.concat_tables([CHURN.empty_table(), *tables]).combine_chunks()
    index, names = codes(whole(everything.column("topic")))
    out = whole(everything.column("out_s"))
    none = pa.scalar([float("nan")], out.type)
    padded = pc.if_else(pc.equal(pc.list_value_length(out), 0), none, out)
    row = pc.list_parent_indices(padded)
    first = np.diff(row.to_numpy(), prepend=-1) != 0
    table = pa.table(
        {
            "window": pa.array(numbers_of(whole(everything.column("window")))).take(row),
            "topic": pa.array(index).take(row),
            "broker": pa.array(numbers_of(whole(everything.column("broker")))).take(row),
            "shrinks": np.where(first, whole(everything.column("shrinks")).take(row).to_numpy(), 0),
            "expands": np.where(first, whole(everything.column("expands")).take(row).to_numpy(), 0),
            "out_s": pc.list_flatten(padded),
        }
    )
    grouped = _by_group(table)
    grouped["topic"] = names.take(pa.array(numbers_of(grouped["topic"])))
    merged = _churn_table(grouped)
    medians, largest = _medians(merged.column("out_s").combine_chunks())
    report = merged.drop_columns(["out_s"]).append_column("median_out_s", medians)
    return merged, report.append_column("max_out_s", largest)


def _by_group(table: pa.Table) -> dict[str, pa.Array]:
    """Sums per window, topic and broker; `out_s` sorted, without NaN, as a list."""
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    order = np.lexsort((columns["out_s"], columns["broker"], columns["topic"], columns["window"]))
    sorted_ = {name: column[order] for name, column in columns.items()}
    count = len(order)
    starts = np.zeros(count, np.bool_)
    for name in ("window", "topic", "broker"):
        starts |= np.diff(sorted_[name], prepend=-_NEVER) != 0
    if count:
        starts[0] = True
    first = np.flatnonzero(starts)
    known = ~np.isnan(sorted_["out_s"])
    held = np.add.reduceat(known.astype(np.int64), first) if count else first
    offsets = np.concatenate([[0], np.cumsum(held)]).astype(np.int32)
    found = {name: pa.array(sorted_[name][first]) for name in ("window", "topic", "broker")}
    for name in ("shrinks", "expands"):
        found[name] = pa.array(np.add.reduceat(sorted_[name], first) if count else first)
    values = pa.array(sorted_["out_s"][known])
    return found | {"out_s": pa.ListArray.from_arrays(pa.array(offsets), values)}


def _churn_table(grouped: dict[str, pa.Array]) -> pa.Table:
    columns = []
    for field in CHURN:
        column = grouped[field.name]
        if field.name in ("window", "broker"):
            column = nullable(numbers_of(column), field.type)
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=CHURN)


def _medians(lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Median and maximum of sorted lists; null for empty ones."""
    values = lists.values.to_numpy()
    offsets = lists.offsets.to_numpy()
    starts, ends = offsets[:-1], offsets[1:]
    empty = starts == ends
    if not len(values):
        none = pa.nulls(len(lists), pa.float64())
        return none, none
    low = np.minimum((starts + ends - 1) // 2, len(values) - 1)
    high = np.minimum((starts + ends) // 2, len(values) - 1)
    median = (values[low] + values[high]) / 2
    return pa.array(median, mask=empty), pa.array(values[ends - 1], mask=empty)


def _lengths(kept: Frame, name: str) -> Numbers:
    return numbers_of(pc.binary_length(kept.packed[name]).fill_null(0)) // 4
