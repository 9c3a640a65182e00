"""Plan of Kafka's cleaner and retention for a partition, without Spark.

The cleaner keeps, in the segments below the active one and the last stable offset, the last record
of each key, tombstones until their delete horizon, and nothing of aborted transactions. A batch
that loses all its records stays as an empty header if it is the last of an idempotent producer.
Markers are removed when their horizon has passed and no record of their transaction is left.
(apache/kafka: storage/internals/log/Cleaner.java, CleanedTransactionMetadata.java)
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.reading.options import Options
from pipeline.core.reading.reader import Piece, read_splits
from pipeline.core.records.schema import schema_of
from wire.batches.batch import HEADER_BYTES

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

RECORD_COLUMNS: Final = "segment,batchPosition,offset,key,keySize,valueSize"
HEADER_COLUMNS: Final = (
    "segment,position,size,baseOffset,lastOffset,count,isControl,hasDeleteHorizon,baseTimestamp,"
    "maxTimestamp,producerId"
)
# lengths, deltas, attributes and header count of a small record
_RECORD_OVERHEAD: Final = 8
KEY_BYTES: Final = 24  # an MD5 and an offset
LOAD: Final = 0.9
BUFFER_BYTES_MIN: Final = math.ceil(KEY_BYTES / LOAD)  # with room for one key
KEY_ROWS: Final = pa.schema(
    [
        ("segment", pa.int64()),  # base offset in its name
        ("position", pa.int64()),
        ("offset", pa.int64()),
        ("hash", pa.binary()),
        ("weight", pa.int64()),
        ("is_tombstone", pa.bool_()),
    ]
)
BATCH_COUNTS: Final = pa.schema(
    [
        ("segment", pa.int64()),
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
    """One segment before and after. `action` is clean, delete (nothing is left) or keep."""

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
    """Retention limits to try; None for no limit, `segment_bytes` None for segments as they are."""

    ms: int | None = None
    bytes: int | None = None
    segment_bytes: int | None = None


def segment_base(name: str) -> int:
    """The base offset in the name of a segment."""
    return int(name[:20])


def key_rows(pieces: Sequence[Piece], options: Options) -> Iterator[pa.RecordBatch]:
    """Yield one row per record: key (as a 128-bit hash; null for none) and weight."""
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
        if not rows.num_rows:
            continue
        base = segment_base(rows.column("segment")[0].as_py())
        columns = [
            pa.repeat(pa.scalar(base, pa.int64()), rows.num_rows),
            rows.column("batchPosition"), rows.column("offset"),
            pa.array(hashes, pa.binary()), weight.cast(pa.int64()), pc.equal(value_size, -1),
        ]  # fmt: skip
        yield pa.record_batch(columns, schema=KEY_ROWS)


def count_batches(rows: pa.Table) -> pa.Table:
    """Count per batch the records, and those that are the last of their key, in this process.

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


class Headers(msgspec.Struct, frozen=True):
    """The batches of a partition in offset order, a column each; times in ms, -1 for none.

    `segment` is the index of the batch's file in `segments`, which are names.
    """

    segments: tuple[str, ...]
    segment: Int64Array
    position: Int64Array
    size: Int64Array
    base: Int64Array
    last: Int64Array
    count: Int64Array
    producer: Int64Array
    is_control: BoolArray
    has_horizon: BoolArray
    base_ms: Int64Array
    max_ms: Int64Array


_NUMBERS: Final = {
    "position": "position", "size": "size", "baseOffset": "base", "lastOffset": "last",
    "count": "count", "producerId": "producer",
}  # fmt: skip
_FLAGS: Final = {"isControl": "is_control", "hasDeleteHorizon": "has_horizon"}
_TIMES: Final = {"baseTimestamp": "base_ms", "maxTimestamp": "max_ms"}


def read_headers(pieces: Sequence[Piece], options: Options) -> Headers:
    """Walk the headers of all batches of one partition; the checksums are checked too.

    Args:
        pieces: in offset order.
        options: options with decode=metadata.

    Raises:
        CorruptSegmentError: a damaged batch.
        BadInputError: a file cannot be opened.
    """
    segments: dict[str, int] = {}
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for rows in read_splits(pieces, options, schema_of("metadata", HEADER_COLUMNS)):
        if not rows.num_rows:
            continue
        number = segments.setdefault(rows.column("segment")[0].as_py(), len(segments))
        parts["segment"].append(np.full(rows.num_rows, number, np.int64))
        for column, name in _NUMBERS.items():
            parts[name].append(rows.column(column).to_numpy().astype(np.int64))
        for column, name in _FLAGS.items():
            parts[name].append(rows.column(column).to_numpy(zero_copy_only=False))
        for column, name in _TIMES.items():
            parts[name].append(_milliseconds(rows.column(column)))

    def whole(name: str) -> Any:
        kind = np.bool_ if name in _FLAGS.values() else np.int64
        return np.concatenate([np.empty(0, kind), *parts.pop(name, [])])

    names = Headers.__struct_fields__[1:]
    return Headers(tuple(segments), **{name: whole(name) for name in names})


def _milliseconds(moments: pa.Array) -> Int64Array:
    found: Int64Array = moments.cast(pa.int64()).fill_null(-1000).to_numpy() // 1000
    return found


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Values that a plan needs beside the batches; offsets are exclusive ends."""

    topic: str
    partition: int
    node_id: int | None
    cleanable_end: int  # start of the active segment, or of that with the last stable offset
    first_dirty: int
    now_ms: int


def plan_partition(headers: Headers, counts: pa.Table, facts: PartitionFacts) -> list[PlanRow]:
    """Plan one partition, a row per segment in order.

    Args:
        headers: headers of all its batches.
        counts: BATCH_COUNTS of those below `cleanable_end`; aborted batches have none.
        facts: facts of the partition.
    """
    base, size = headers.base, headers.size
    dirty = int(size[(base >= facts.first_dirty) & (base < facts.cleanable_end)].sum())
    clean = int(size[base < facts.first_dirty].sum())
    ratio = round(dirty / (clean + dirty), 6) if clean + dirty else 0.0
    per_batch = _after(headers, _aligned(headers, counts), facts)
    totals = {}
    for name in _TOTALS:
        totals[name] = np.zeros(len(headers.segments), np.int64)
        np.add.at(totals[name], headers.segment, per_batch[name])
    rows = []
    for index, segment in enumerate(headers.segments):
        values = {name: int(column[index]) for name, column in totals.items()}
        rows.append(
            PlanRow(
                topic=facts.topic, partition=facts.partition, node_id=facts.node_id,
                segment=segment, dirty_ratio=ratio, action=_action(values), **values,
            )
        )  # fmt: skip
    return rows


_TOTALS: Final = (
    "bytes_before", "bytes_after", "records_before", "records_after", "tombstones",
    "tombstones_removable", "superseded", "null_keys", "markers_removable",
)  # fmt: skip


def _action(totals: dict[str, int]) -> str:
    if totals["bytes_after"] == 0:
        return "delete"
    return "keep" if totals["bytes_after"] == totals["bytes_before"] else "clean"


def _aligned(headers: Headers, counts: pa.Table) -> dict[str, Int64Array]:
    """Counts of each batch in the order of the headers, 0 where there are none."""
    names = BATCH_COUNTS.names[2:]
    found = {name: np.zeros(len(headers.base), np.int64) for name in names}
    if not counts.num_rows or not len(headers.base):
        return found
    bases = np.array([segment_base(name) for name in headers.segments], np.int64)
    stride = int(headers.position.max()) + 1
    by_base = np.argsort(bases)
    wanted = counts.column("segment").to_numpy()
    number = by_base[np.minimum(np.searchsorted(bases[by_base], wanted), len(bases) - 1)]
    keys = headers.segment * stride + headers.position
    order = np.argsort(keys, kind="stable")
    key = number * stride + counts.column("position").to_numpy()
    at = order[np.minimum(np.searchsorted(keys[order], key), len(keys) - 1)]
    known = (keys[at] == key) & (bases[number] == wanted)  # a live log changes between two reads
    for name in names:
        found[name][at[known]] = counts.column(name).to_numpy()[known]
    return found


def _after(
    headers: Headers, counts: dict[str, Int64Array], facts: PartitionFacts
) -> dict[str, Any]:
    """Contribution of each batch to the totals of its segment."""
    size, count = headers.size, headers.count
    is_below = headers.base < facts.cleanable_end
    is_data = is_below & ~headers.is_control
    has_passed = headers.has_horizon & (headers.base_ms <= facts.now_ms)
    marker_goes = is_below & headers.is_control & has_passed & ~_follows_data(headers, is_below)
    removable = np.where(is_data & has_passed, counts["kept_tombstones"], 0)
    kept = counts["kept"] - removable
    weight = counts["kept_weight"] - np.where(has_passed, counts["kept_tombstone_weight"], 0)
    share = (size - HEADER_BYTES) * weight / np.maximum(counts["weight"], 1)
    emptied = np.where(_is_last_of_producer(headers), HEADER_BYTES, 0)
    left = np.select(
        [marker_goes, ~is_data | (kept == count), kept > 0],
        [emptied, size, HEADER_BYTES + np.rint(share).astype(np.int64)],
        emptied,
    )
    return {
        "bytes_before": size, "bytes_after": left, "records_before": count,
        "records_after": np.where(is_data, kept, np.where(marker_goes, 0, count)),
        "tombstones": counts["tombstones"] * is_data, "tombstones_removable": removable,
        "superseded": (counts["records"] - counts["kept"] - counts["null_keys"]) * is_data,
        "null_keys": counts["null_keys"] * is_data, "markers_removable": marker_goes,
    }  # fmt: skip


def _follows_data(headers: Headers, is_below: BoolArray) -> BoolArray:
    """Mask of batches after a data batch of the same producer that is below the end too."""
    below = np.flatnonzero(is_below)
    ordered = below[np.argsort(headers.producer[below], kind="stable")]
    producer = headers.producer[ordered]
    found = np.zeros(len(headers.base), np.bool_)
    found[ordered[1:]] = (producer[1:] == producer[:-1]) & ~headers.is_control[ordered[:-1]]
    return found


def _is_last_of_producer(headers: Headers) -> BoolArray:
    """Mask of batches that end where the last one of their idempotent producer does."""
    producers, number = np.unique(headers.producer, return_inverse=True)
    newest = np.empty(len(producers), np.int64)
    newest[number] = headers.last  # of equal numbers the last one counts
    found: BoolArray = (newest[number] == headers.last) & (headers.producer >= 0)
    return found


def offset_map(keys: int, buffer_bytes: int) -> dict[str, int]:
    """Memory that the cleaner needs for so many keys, and its passes with a given buffer.

    Args:
        keys: different keys of the log.
        buffer_bytes: at least BUFFER_BYTES_MIN.
    """
    needed = -(-keys * KEY_BYTES * 10 // 9)
    per_pass = int(buffer_bytes * LOAD / KEY_BYTES)
    return {"offset_map_bytes": needed, "cleaner_passes": max(1, -(-keys // per_pass))}


def retention_row(headers: Headers, policy: Policy, now_ms: int) -> dict[str, Any]:
    """Segments that a policy deletes: from the oldest on, never the active one.

    Returns:
        segments_deleted, bytes_freed, new_log_start, oldest_ts (ms, None for an empty log).
    """
    if not len(headers.base):
        return {"segments_deleted": 0, "bytes_freed": 0, "new_log_start": 0, "oldest_ts": None}
    starts = _segment_starts(headers, policy.segment_bytes)
    ends = np.cumsum(np.add.reduceat(headers.size, starts))
    newest = np.maximum(np.maximum.reduceat(headers.max_ms, starts), -1)
    goes = np.zeros(len(starts), np.bool_)
    if policy.ms is not None:
        goes |= now_ms - newest > policy.ms
    if policy.bytes is not None:
        goes |= ends[-1] - policy.bytes - ends >= 0
    goes[-1] = False
    deleted = int(np.argmin(goes))  # the first that stays
    return {
        "segments_deleted": deleted,
        "bytes_freed": int(ends[deleted - 1]) if deleted else 0,
        "new_log_start": int(headers.base[starts[deleted]]),
        "oldest_ts": int(newest[deleted]),
    }


def _segment_starts(headers: Headers, segment_bytes: int | None) -> Int64Array:
    """First batches of the segments as they are, or as rolled at another size."""
    if segment_bytes is None:
        return np.flatnonzero(np.diff(headers.segment, prepend=-1))
    ends = np.cumsum(headers.size)
    starts = [0]
    while True:
        before = int(ends[starts[-1] - 1]) if starts[-1] else 0
        following = int(np.searchsorted(ends, before + segment_bytes, "right"))
        following = max(following, starts[-1] + 1)
        if following >= len(ends):
            return np.array(starts, np.int64)
        starts.append(following)
