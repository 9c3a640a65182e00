"""What Kafka's cleaner and retention would leave of a partition. No Spark below this line.

The cleaner keeps, below the active segment and the last stable offset, the last record of each key,
tombstones until their delete horizon, and nothing of aborted transactions. A batch that loses all
its records stays as an empty header when it is the last of an idempotent producer. Markers go when
their horizon has passed and no record of their transaction is left.
(apache/kafka: storage/internals/log/Cleaner.java, CleanedTransactionMetadata.java)
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.options import Options
from pipeline.core.reader import Piece, read_splits
from pipeline.core.schema import schema_of
from wire.batch import HEADER_BYTES

RECORD_COLUMNS: Final = "segment,batchPosition,offset,key,keySize,valueSize"
HEADER_COLUMNS: Final = (
    "segment,position,size,baseOffset,lastOffset,count,isControl,hasDeleteHorizon,baseTimestamp,"
    "maxTimestamp,producerId"
)
# lengths, deltas, attributes and header count of a small record
_RECORD_OVERHEAD: Final = 8
KEY_BYTES: Final = 24  # an MD5 and an offset
LOAD: Final = 0.9
KEY_ROWS: Final = pa.schema(
    [
        ("segment", pa.string()),
        ("position", pa.int64()),
        ("offset", pa.int64()),
        ("hash", pa.binary()),
        ("weight", pa.int64()),
        ("is_tombstone", pa.bool_()),
    ]
)
BATCH_COUNTS: Final = pa.schema(
    [
        ("segment", pa.string()),
        ("position", pa.int64()),
        ("records", pa.int64()),
        ("kept", pa.int64()),
        ("null_keys", pa.int64()),
        ("tombstones", pa.int64()),
        ("kept_tombstones", pa.int64()),
        ("weight", pa.int64()),
        ("kept_weight", pa.int64()),
        ("kept_tombstone_weight", pa.int64()),
    ]
)


class PlanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One segment: before and after. `action` is clean, delete (nothing is left) or keep."""

    topic: str
    partition: int
    node_id: int | None
    segment: str
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    tombstones: int
    tombstones_removable: int
    superseded: int
    null_keys: int
    markers_removable: int
    dirty_ratio: float
    action: str


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Retention of a what-if; None for no limit, `segment_bytes` None for segments as they are."""

    ms: int | None = None
    bytes: int | None = None
    segment_bytes: int | None = None


def key_rows(pieces: Sequence[Piece], options: Options) -> Iterator[pa.RecordBatch]:
    """One row per record: which key (as a 128-bit hash; null for none), and how heavy."""
    for rows in read_splits(pieces, options, schema_of("records", RECORD_COLUMNS)):
        hashes = [
            None if key is None else hashlib.md5(key, usedforsecurity=False).digest()
            for key in rows.column("key").to_pylist()
        ]
        value_size = rows.column("valueSize")
        weight = pc.add(
            pc.add(
                pc.max_element_wise(value_size, 0), pc.max_element_wise(rows.column("keySize"), 0)
            ),
            _RECORD_OVERHEAD,
        )
        columns = [
            rows.column("segment"), rows.column("batchPosition"), rows.column("offset"),
            pa.array(hashes, pa.binary()), weight.cast(pa.int64()), pc.equal(value_size, -1),
        ]  # fmt: skip
        yield pa.record_batch(columns, schema=KEY_ROWS)


def count_batches(rows: pa.Table) -> pa.Table:
    """Per batch: records, and those that are the last of their key. In this process.

    Args:
        rows: KEY_ROWS of one partition.
    """
    last = (
        rows.filter(pc.is_valid(rows.column("hash")))
        .group_by("hash")
        .aggregate([("offset", "max")])
    )
    is_last = pc.is_in(rows.column("offset"), value_set=last.column("offset_max"))
    kept = pc.and_(is_last, pc.is_valid(rows.column("hash")))
    dead = pc.and_(kept, rows.column("is_tombstone"))
    weight = rows.column("weight")
    flags = {
        "kept": kept, "null_keys": pc.is_null(rows.column("hash")),
        "tombstones": rows.column("is_tombstone"), "kept_tombstones": dead,
    }  # fmt: skip
    columns: dict[str, Any] = {name: flag.cast(pa.int64()) for name, flag in flags.items()}
    columns |= {
        "records": pa.array(np.ones(rows.num_rows, np.int64)),
        "weight": weight,
        "kept_weight": pc.multiply(weight, columns["kept"]),
        "kept_tombstone_weight": pc.multiply(weight, columns["kept_tombstones"]),
        "segment": rows.column("segment"),
        "position": rows.column("position"),
    }
    sums = BATCH_COUNTS.names[2:]
    found = (
        pa.table(columns).group_by(["segment", "position"]).aggregate([(n, "sum") for n in sums])
    )
    found = found.rename_columns({f"{name}_sum": name for name in sums})
    return found.select(BATCH_COUNTS.names).cast(BATCH_COUNTS)


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan needs beside the batches: offsets are exclusive ends."""

    topic: str
    partition: int
    node_id: int | None
    cleanable_end: int  # start of the active segment, or the last stable offset
    first_dirty: int
    now_ms: int


def plan_partition(headers: pa.Table, counts: pa.Table, facts: PartitionFacts) -> list[PlanRow]:
    """The plan of one partition, a row per segment in order.

    Args:
        headers: HEADER_COLUMNS of all its batches in offset order.
        counts: BATCH_COUNTS of those below `cleanable_end`; aborted batches have none.
        facts: of the partition.
    """
    batches = headers.to_pylist()
    counted = {(row["segment"], row["position"]): row for row in counts.to_pylist()}
    last_of_producer = {row["producerId"]: row["lastOffset"] for row in batches}
    dirty = sum(_size(b) for b in batches if facts.first_dirty <= b["baseOffset"]
                < facts.cleanable_end)  # fmt: skip
    clean = sum(_size(b) for b in batches if b["baseOffset"] < facts.first_dirty)
    ratio = round(dirty / (clean + dirty), 6) if clean + dirty else 0.0
    segments: dict[str, dict[str, int]] = {}
    with_data: set[int] = set()
    for batch in batches:
        totals = segments.setdefault(batch["segment"], dict.fromkeys(_TOTALS, 0))
        is_last = last_of_producer[batch["producerId"]] == batch["lastOffset"]
        is_last = is_last and batch["producerId"] >= 0
        counts_of = counted.get((batch["segment"], batch["position"]))
        after = _batch_after(batch, counts_of, facts, is_last=is_last, with_data=with_data)
        for name, value in after.items():
            totals[name] += value
    return [
        PlanRow(
            topic=facts.topic, partition=facts.partition, node_id=facts.node_id, segment=segment,
            dirty_ratio=ratio, action=_action(totals), **totals,
        )
        for segment, totals in segments.items()
    ]  # fmt: skip


_TOTALS: Final = (
    "bytes_before", "bytes_after", "records_before", "records_after", "tombstones",
    "tombstones_removable", "superseded", "null_keys", "markers_removable",
)  # fmt: skip


def _action(totals: dict[str, int]) -> str:
    if totals["bytes_after"] == 0:
        return "delete"
    return "keep" if totals["bytes_after"] == totals["bytes_before"] else "clean"


def _size(batch: dict[str, Any]) -> int:
    return int(batch["size"])


def _batch_after(
    batch: dict[str, Any], counts: dict[str, int] | None, facts: PartitionFacts, *,
    is_last: bool, with_data: set[int],
) -> dict[str, int]:  # fmt: skip
    """What one batch adds to its segment's totals."""
    size, count, producer = _size(batch), batch["count"], batch["producerId"]
    kept_as_is = dict.fromkeys(_TOTALS, 0) | {
        "bytes_before": size, "bytes_after": size, "records_before": count, "records_after": count,
    }  # fmt: skip
    if batch["baseOffset"] >= facts.cleanable_end:
        return kept_as_is
    horizon = batch["hasDeleteHorizon"] and _ms(batch["baseTimestamp"]) <= facts.now_ms
    if batch["isControl"]:
        had_data = producer in with_data
        with_data.discard(producer)
        if had_data or not horizon:
            return kept_as_is
        left = HEADER_BYTES if is_last else 0
        return kept_as_is | {"bytes_after": left, "records_after": 0, "markers_removable": 1}
    with_data.add(producer)
    counts = counts or dict.fromkeys(BATCH_COUNTS.names[2:], 0)
    removable = counts["kept_tombstones"] if horizon else 0
    kept = counts["kept"] - removable
    weight = counts["kept_weight"] - (counts["kept_tombstone_weight"] if horizon else 0)
    if kept == count:
        left = size
    elif kept:
        left = HEADER_BYTES + round((size - HEADER_BYTES) * weight / counts["weight"])
    else:
        left = HEADER_BYTES if is_last else 0
    return {
        "bytes_before": size, "bytes_after": left, "records_before": count, "records_after": kept,
        "tombstones": counts["tombstones"], "tombstones_removable": removable,
        "superseded": counts["records"] - counts["kept"] - counts["null_keys"],
        "null_keys": counts["null_keys"], "markers_removable": 0,
    }  # fmt: skip


def _ms(moment: Any) -> int:
    return -1 if moment is None else round(moment.timestamp() * 1000)


def offset_map(keys: int, buffer_bytes: int) -> dict[str, int]:
    """Memory that the cleaner needs for so many keys, and passes with a buffer of a size."""
    needed = -(-keys * KEY_BYTES * 10 // 9)
    per_pass = int(buffer_bytes * LOAD / KEY_BYTES)
    return {"offset_map_bytes": needed, "cleaner_passes": max(1, -(-keys // per_pass))}


def retention_row(headers: pa.Table, policy: Policy, now_ms: int) -> dict[str, Any]:
    """Which segments a policy deletes: from the oldest on, never the active one.

    Returns:
        segments_deleted, bytes_freed, new_log_start, oldest_ts (ms, None for an empty log).
    """
    segments = _segments(headers, policy.segment_bytes)
    total = sum(one["bytes"] for one in segments)
    excess = total - policy.bytes if policy.bytes is not None else -1
    freed = deleted = 0
    for one in segments[:-1]:
        by_time = policy.ms is not None and now_ms - one["max_ms"] > policy.ms
        by_size = policy.bytes is not None and excess - one["bytes"] >= 0
        if not by_time and not by_size:
            break
        excess -= one["bytes"]
        freed += one["bytes"]
        deleted += 1
    rest = segments[deleted:]
    return {
        "segments_deleted": deleted,
        "bytes_freed": freed,
        "new_log_start": rest[0]["start"] if rest else 0,
        "oldest_ts": rest[0]["max_ms"] if rest else None,
    }


def _segments(headers: pa.Table, segment_bytes: int | None) -> list[dict[str, Any]]:
    """Segments as they are, or as they would have been rolled at another size."""
    found: list[dict[str, Any]] = []
    current = None
    for batch in headers.to_pylist():
        size = _size(batch)
        rolls = batch["segment"] != current
        if segment_bytes is not None and found:
            rolls = found[-1]["bytes"] + size > segment_bytes
        current = batch["segment"]
        if rolls:
            found.append({"start": batch["baseOffset"], "bytes": 0, "max_ms": -1})
        found[-1]["bytes"] += size
        found[-1]["max_ms"] = max(found[-1]["max_ms"], _ms(batch["maxTimestamp"]))
    return found
