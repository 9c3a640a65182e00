"""Record batches made from columns, and rows for whole batches."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from pipeline.core.records import arrays
from pipeline.core.records.batches import BatchTable, Fault
from pipeline.core.records.schema import CORRUPT_BATCH, CORRUPT_TYPE
from wire.batches.batch import CONTROL_BIT

LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
DELETE_HORIZON_BIT: Final = 0x40


class RowContext(msgspec.Struct, frozen=True, kw_only=True):
    """Common values of all rows of a file; None if unknown."""

    topic: str
    partition: int
    segment: str
    node_id: int | None = None
    topic_id: str | None = None


def batch_rows(
    table: BatchTable,
    schema: pa.Schema,
    context: RowContext,
    *,
    crc_ok: bool | None,
    fault: Fault | None = None,
) -> pa.RecordBatch:
    """One row per batch (decode=metadata, decode=raw); `fault` is the damage of all of them.

    `crc_ok` None: the checksum was not checked.
    """
    attributes = table.column("attributes")
    ends = table.positions + table.sizes
    made: dict[str, Callable[[], pa.Array]] = {
        "baseOffset": lambda: pa.array(table.column("base_offset")),
        "lastOffset": lambda: pa.array(table.last_offsets),
        "leaderEpoch": lambda: arrays.int32(table.column("leader_epoch")),
        "magic": lambda: arrays.int32(table.column("magic")),
        "crc": lambda: pa.array(table.column("crc")),
        "crcOk": lambda: pa.repeat(pa.scalar(crc_ok, pa.bool_()), len(table)),
        "codec": lambda: arrays.codec_names(attributes),
        "timestampType": lambda: arrays.int32(table.timestamp_types),
        "isTransactional": lambda: pa.array((attributes & TRANSACTIONAL_BIT) != 0),
        "isControl": lambda: pa.array((attributes & CONTROL_BIT) != 0),
        "hasDeleteHorizon": lambda: pa.array((attributes & DELETE_HORIZON_BIT) != 0),
        "baseTimestamp": lambda: arrays.timestamps(table.column("base_timestamp_ms")),
        "maxTimestamp": lambda: arrays.timestamps(table.column("max_timestamp_ms")),
        "producerId": lambda: pa.array(table.column("producer_id")),
        "producerEpoch": lambda: arrays.int16(table.column("producer_epoch")),
        "baseSequence": lambda: arrays.int32(table.column("base_sequence")),
        "count": lambda: arrays.int32(table.column("records_count")),
        "position": lambda: pa.array(table.positions + table.origin),
        "size": lambda: arrays.int32(table.sizes),
        "bytes": lambda: arrays.slices(table.buffer, table.positions, ends - table.positions),
    }
    if fault is not None:
        damage = pa.scalar(_corrupt_value(fault), CORRUPT_TYPE)
        made[CORRUPT_BATCH] = lambda: pa.repeat(damage, len(table))
    return assemble(schema, made, context, len(table))


def corrupt_row(
    schema: pa.Schema, context: RowContext, fault: Fault, *, position_column: str
) -> pa.RecordBatch:
    """The one row for a damaged batch in mode PERMISSIVE."""
    known = {
        "topic": context.topic,
        "partition": context.partition,
        "segment": context.segment,
        position_column: fault.position,
        CORRUPT_BATCH: _corrupt_value(fault),
    }
    columns = [pa.array([known.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _corrupt_value(fault: Fault) -> dict[str, Any]:
    return {
        "reason": fault.reason,
        "position": fault.position,
        "length": fault.length,
        "detail": fault.detail,
    }


def assemble(
    schema: pa.Schema,
    made: dict[str, Callable[[], pa.Array]],
    context: RowContext,
    rows: int,
    ready: dict[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """The columns of the schema: ready ones, made ones, constants of the file, else nulls."""
    constants: dict[str, str | int | None] = {
        "topic": context.topic,
        "partition": context.partition,
        "segment": context.segment,
        "nodeId": context.node_id,
        "topicId": context.topic_id,
    }
    columns = []
    for field in schema:
        if ready is not None and field.name in ready:
            columns.append(ready[field.name])
        elif field.name in made:
            columns.append(made[field.name]())
        elif field.name in constants:
            columns.append(_repeated(constants[field.name], field.type, rows))
        else:
            columns.append(pa.nulls(rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _repeated(value: str | int | None, type_: pa.DataType, rows: int) -> pa.Array:
    """A constant column; a large one is a slice of a cached column."""
    if _KEPT_MIN <= rows <= _KEPT_ROWS:
        return _kept(value, type_).slice(0, rows)
    return pa.repeat(pa.scalar(value, type_), rows)


_KEPT_MIN: Final = 16_384
_KEPT_ROWS: Final = 1 << 17


@lru_cache(maxsize=8)
def _kept(value: str | int | None, type_: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), _KEPT_ROWS)
