"""Cleaning and retention of a partition, batch by batch with dictionaries."""

import json
from pathlib import Path
from typing import Any

import msgspec

from pipeline.core.compaction.plan import Policy
from pipeline.core.reading.options import parse_options
from pipeline.core.reading.reader import read_table
from pipeline.core.reading.transactions import transaction_state
from pipeline.jobs.compaction import wanted_partitions
from tests.pipeline.segments import milliseconds
from wire.batches.batch import HEADER_BYTES

TOTALS = ("bytes_before", "bytes_after", "records_before", "records_after", "tombstones",
          "tombstones_removable", "superseded", "null_keys", "markers_removable")  # fmt: skip
RECORD_OVERHEAD = 8
Row = dict[str, Any]


def plan_by_hand(root: Path, topic: str, now: int, first_dirty: int = 0) -> list[Row]:
    """The rows of the plan as dictionaries."""
    (partition,) = wanted_partitions((str(root),), topic)
    batches = batches_of(root)
    stable = transaction_state(partition.segments).last_stable_offset
    active = partition.segments[-1].base_offset
    end = active if stable is None else min(stable, active)
    bases = [each.base_offset for each in partition.segments]
    end = max([each for each in bases if each <= end], default=bases[0])
    records = records_below(root, topic, end)
    dirty = sum(one["size"] for one in batches if first_dirty <= one["baseOffset"] < end)
    clean = sum(one["size"] for one in batches if one["baseOffset"] < first_dirty)
    newest = {one["producerId"]: one["lastOffset"] for one in batches}
    last_of_key = {row["key"]: row["offset"] for row in records if row["key"] is not None}
    segments: dict[str, Row] = {}
    with_data: set[int] = set()
    for one in batches:
        totals = segments.setdefault(one["segment"], dict.fromkeys(TOTALS, 0))
        is_last = one["producerId"] >= 0 and newest[one["producerId"]] == one["lastOffset"]
        mine = [
            row
            for row in records
            if (row["segment"], row["batchPosition"]) == (one["segment"], one["position"])
        ]
        kept = [row for row in mine if last_of_key.get(row["key"]) == row["offset"]]
        if one["baseOffset"] < end:
            found = after(one, (mine, kept), now, is_last=is_last, with_data=with_data)
        else:
            found = as_it_is(one)
        for name, value in found.items():
            totals[name] += value
    ratio = round(dirty / (clean + dirty), 6) if clean + dirty else 0.0
    common = {"topic": topic, "partition": 0, "node_id": None, "dirty_ratio": ratio}
    return [
        common | {"segment": segment, "action": action(totals)} | totals
        for segment, totals in segments.items()
    ]  # fmt: skip


def batches_of(root: Path) -> list[Row]:
    """One row per batch."""
    return read_table(parse_options({"path": str(root), "decode": "metadata"})).to_pylist()


def records_below(root: Path, topic: str, end: int) -> list[Row]:
    """Committed records at offsets below `end`."""
    options = {"path": str(root), "isolation": "read_committed", "failOnDataLoss": "false",
               "columns": "segment,batchPosition,offset,key,value",
               "endingOffsets": json.dumps({topic: {"0": end}})}  # fmt: skip
    return read_table(parse_options(options)).to_pylist() if end > 0 else []


def action(totals: Row) -> str:
    if not totals["bytes_after"]:
        return "delete"
    return "keep" if totals["bytes_after"] == totals["bytes_before"] else "clean"


def as_it_is(one: Row) -> Row:
    same = {"bytes_before": one["size"], "bytes_after": one["size"]}
    return same | {"records_before": one["count"], "records_after": one["count"]}


def weight(row: Row) -> int:
    return len(row["key"] or b"") + len(row["value"] or b"") + RECORD_OVERHEAD


def after(
    one: Row, records: tuple[list[Row], list[Row]], now: int, *, is_last: bool, with_data: set[int]
) -> Row:
    """Share of a batch below the end in the totals; `records` are its own and those kept."""
    size, producer = one["size"], one["producerId"]
    empty = HEADER_BYTES if is_last else 0
    has_passed = one["hasDeleteHorizon"] and milliseconds(one["baseTimestamp"]) <= now
    if one["isControl"]:
        had_data = producer in with_data
        with_data.discard(producer)
        if had_data or not has_passed:
            return as_it_is(one)
        return as_it_is(one) | {"bytes_after": empty, "records_after": 0, "markers_removable": 1}
    with_data.add(producer)
    mine, kept = records
    dead = [row for row in kept if row["value"] is None] if has_passed else []
    left = [row for row in kept if row not in dead]
    if len(left) == one["count"]:
        bytes_after = size
    elif left:
        share = (size - HEADER_BYTES) * sum(map(weight, left)) / sum(map(weight, mine))
        bytes_after = HEADER_BYTES + round(share)
    else:
        bytes_after = empty
    null_keys = sum(row["key"] is None for row in mine)
    return {
        "bytes_before": size, "bytes_after": bytes_after, "records_before": one["count"],
        "records_after": len(left), "tombstones": sum(row["value"] is None for row in mine),
        "tombstones_removable": len(dead), "superseded": len(mine) - len(kept) - null_keys,
        "null_keys": null_keys,
    }  # fmt: skip


def retention_by_hand(root: Path, policy: Policy, now: int) -> Row:
    """A row of `retention` without the names of the partition."""
    segments: list[Row] = []
    current = None
    for one in batches_of(root):
        rolls = one["segment"] != current
        if policy.segment_bytes is not None and segments:
            rolls = segments[-1]["bytes"] + one["size"] > policy.segment_bytes
        current = one["segment"]
        if rolls:
            segments.append({"start": one["baseOffset"], "bytes": 0, "newest": -1})
        segments[-1]["bytes"] += one["size"]
        newest = milliseconds(one["maxTimestamp"])
        segments[-1]["newest"] = max(segments[-1]["newest"], newest)
    size = sum(one["bytes"] for one in segments)
    freed = deleted = 0
    for one in segments[:-1]:
        by_time = policy.ms is not None and now - one["newest"] > policy.ms
        by_size = policy.bytes is not None and size - freed - one["bytes"] >= policy.bytes
        if not by_time and not by_size:
            break
        freed += one["bytes"]
        deleted += 1
    return {
        "policy": msgspec.structs.asdict(policy), "segments_deleted": deleted,
        "bytes_freed": freed, "new_log_start": segments[deleted]["start"],
        "oldest_ts": segments[deleted]["newest"],
    }  # fmt: skip
