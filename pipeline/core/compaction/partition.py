"""Plan of one copy of a partition: the work of a task of the job, in this process or elsewhere.

`key_work` selects the records to read, `finished` plans from their counts. Between the two are a
row per record (key and weight) and then a row per batch.
"""

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.core.compaction.plan import (
    BATCH_COUNTS,
    HEADER_COLUMNS,
    KEY_ROWS,
    RECORD_COLUMNS,
    PartitionFacts,
    PlanRow,
    Policy,
    count_batches,
    key_rows,
    plan_partition,
    read_headers,
    retention_row,
)
from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import CLEANER_NAME, PartitionFiles
from pipeline.core.reading.opening import input_errors
from pipeline.core.reading.options import Options, parse_options
from pipeline.core.reading.reader import Piece, plan_read
from pipeline.core.reading.transactions import transaction_state
from storage.checkpoints.checkpoint_files import decode_offsets


class PartitionPlan(msgspec.Struct, frozen=True):
    """Plan for one copy of a partition."""

    rows: list[PlanRow]
    retention: list[dict[str, Any]]
    keys: int


class KeyWork(msgspec.Struct, frozen=True):
    """Records that a cleaner would read: those below `end` (exclusive), in packs."""

    end: int
    options: Options
    packs: tuple[tuple[Piece, ...], ...]


@input_errors()
def key_work(partition: PartitionFiles) -> KeyWork:
    """Walk the headers for transactions and cut the records below the open ones into packs.

    Raises:
        BadInputError: a file is gone or cannot be read.
    """
    active = partition.segments[-1]
    stable = transaction_state(partition.segments).last_stable_offset
    end = active.base_offset if stable is None else min(stable, active.base_offset)
    bases = [each.base_offset for each in partition.segments]
    end = max([each for each in bases if each <= end], default=bases[0])  # whole segments
    ends = msgspec.json.encode({partition.topic: {str(partition.partition): end}}).decode()
    options = _options(
        partition, columns=RECORD_COLUMNS, endingOffsets=ends, isolation="read_committed"
    )
    packs = plan_read(options).packs if end > partition.first_offset else ()
    return KeyWork(end, options, packs)


def plan_one(partition: PartitionFiles, now_ms: int, policies: list[Policy]) -> PartitionPlan:
    """Plan one copy, with at least one segment, in this process.

    Raises:
        CorruptSegmentError: a damaged batch.
        BadInputError: a file is gone or cannot be read.
    """
    work = key_work(partition)
    return finished(partition, work.end, counted(work), now_ms, policies)


def counted(work: KeyWork) -> tuple[pa.Table, int]:
    """Return BATCH_COUNTS and the number of keys, computed in this process."""
    batches = [rows for pack in work.packs for rows in key_rows(pack, work.options)]
    rows = pa.Table.from_batches(batches, KEY_ROWS)
    if not batches:
        return BATCH_COUNTS.empty_table(), 0
    return count_batches(rows), pc.count_distinct(rows.column("hash"), mode="only_valid").as_py()


@input_errors()
def finished(
    partition: PartitionFiles, end: int, counts: tuple[pa.Table, int], now_ms: int,
    policies: list[Policy],
) -> PartitionPlan:  # fmt: skip
    """Plan one copy from the counts of its records.

    Args:
        partition: with at least one segment.
        end: end of its `KeyWork`.
        counts: BATCH_COUNTS of the records below it, and their number of keys.
        now_ms: time of the plan.
        policies: retention policies.

    Raises:
        CorruptSegmentError: a damaged batch.
        BadInputError: a file is gone or cannot be read.
    """
    options = _options(partition, decode="metadata", columns=HEADER_COLUMNS)
    headers = read_headers([one for pack in plan_read(options).packs for one in pack], options)
    facts = PartitionFacts(
        topic=partition.topic, partition=partition.partition, node_id=partition.node_id,
        cleanable_end=end, first_dirty=_first_dirty(partition), now_ms=now_ms,
    )  # fmt: skip
    retention = [
        {"topic": partition.topic, "partition": partition.partition,
         "node_id": partition.node_id, "policy": msgspec.structs.asdict(policy)}
        | retention_row(headers, policy, now_ms)
        for policy in policies
    ]  # fmt: skip
    return PartitionPlan(plan_partition(headers, counts[0], facts), retention, counts[1])


def _options(partition: PartitionFiles, **more: str) -> Options:
    if partition.topic == "unknown":
        raise BadInputError(f"{partition.directory}: its name is not TOPIC-N")
    given = {"path": partition.directory, "replicas": "all", "failOnDataLoss": "false"}
    return parse_options(given | more)


def _first_dirty(partition: PartitionFiles) -> int:
    """Offset at which the cleaner continues, by its checkpoint."""
    path = Path(partition.directory).parent / CLEANER_NAME
    if not path.exists() or not path.stat().st_size:
        return partition.first_offset
    known = decode_offsets(path.read_bytes(), str(path))
    return known.get((partition.topic, partition.partition), partition.first_offset)
