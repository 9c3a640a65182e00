"""Batches to Arrow: one row per record, or one per batch.

The fast path reads the fields of all records of a group of batches at once (`sections.py`). When
anything does not fit, the group is decoded again batch by batch with the slow and
obvious reader, `decode_batch_py`, which alone decides if a batch is sound, and its records.
So there is one definition of a batch, `wire.batches.batch`, and a damaged one never spoils its
neighbours.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from pipeline.core.records import arrays
from pipeline.core.records.batches import BATCH_BYTES_MAX, BatchTable, Fault
from pipeline.core.records.codecs import CODEC_MASK, plain_section, plain_sections
from pipeline.core.records.old_messages import old_records, old_sections
from pipeline.core.records.rows import LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, RowContext, assemble
from pipeline.core.records.sections import RECORD_BYTES_MIN, Fields, read_fields, read_headers
from pipeline.core.records.varints import Int64Array, SuspectError
from wire.batches.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    Batch,
    RecordView,
    encode_records,
    parse_batch_header,
)
from wire.batches.compression import Codec
from wire.errors import CorruptBatchError

_INT32_MAX: Final = (1 << 31) - 1
_RESERVED_BITS: Final = 0xFF80


class RowSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Wanted records: offsets in [start, end), end None for all; without aborted ones.

    `aborted` holds (producer id, first offset, last offset), both inclusive.
    """

    start: int = 0
    end: int | None = None
    include_control: bool = False
    aborted: tuple[tuple[int, int, int], ...] = ()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a record batch, and of the decompressed size of one batch of the log."""

    size_bytes: int = 16 << 20
    rows: int = 65_536
    batch_bytes_max: int = BATCH_BYTES_MAX


DEFAULT_LIMITS: Final = Limits()

# key and value of some records -> further columns by name (decode=json)
Describe = Callable[["Group", pa.Array, pa.Array], dict[str, pa.Array]]


class Group:
    """Some batches with the fields of their records."""

    __slots__ = ("_headers", "content", "data", "fields", "is_control", "table", "topic")

    def __init__(self, table: BatchTable, data: bytes, fields: Fields, topic: str) -> None:
        self.table = table
        self.data = data
        self.content = np.frombuffer(data, np.uint8)
        self.fields = fields
        self.topic = topic
        control = (table.headers["attributes"] & CONTROL_BIT) != 0
        self.is_control: Any = control[fields.batch]
        self._headers: pa.Array = None

    def per_record(self, name: str) -> Int64Array:
        """Return a header field, repeated for each record of its batch."""
        return self.table.column(name)[self.fields.batch]

    def offsets(self) -> Int64Array:
        """Return the offset of each record."""
        return self.per_record("base_offset") + self.fields.offset_delta

    def timestamps_ms(self) -> Int64Array:
        """Return the time of each record; -1 for none."""
        appended = (self.per_record("attributes") & LOG_APPEND_TIME_BIT) != 0
        created = self.per_record("base_timestamp_ms") + self.fields.timestamp_delta
        return np.where(appended, self.per_record("max_timestamp_ms"), created)

    def keys(self) -> pa.Array:
        """Return the keys, with nulls."""
        fields = self.fields
        return arrays.slices(self.data, fields.key_start, fields.key_length)

    def values(self) -> pa.Array:
        """Return the values, with nulls."""
        fields = self.fields
        return arrays.slices(self.data, fields.value_start, fields.value_length)

    def headers(self) -> pa.Array:
        """Return the headers of the records.

        Raises:
            SuspectError: they do not fill their records exactly.
        """
        if self._headers is None:
            found = read_headers(self.content, self.fields)
            self._headers = arrays.headers(self.data, self.fields, found)
        return self._headers


def decode_batch_py(
    table: BatchTable, index: int, bytes_max: int = BATCH_BYTES_MAX
) -> list[RecordView]:
    """Decode the records of one batch by the slow reader, the oracle of the fast one.

    Raises:
        CorruptBatchError: the batch is damaged; the text has the reason.
    """
    position = int(table.positions[index])
    if table.is_old:
        return old_records(table.buffer, position)
    header = parse_batch_header(table.buffer, position)
    end = position + header.size_bytes
    section = table.buffer[position + HEADER_BYTES : end]
    plain = plain_section(header.codec, section, bytes_max)
    if header.records_count < 0 or header.records_count * RECORD_BYTES_MIN > len(plain):
        raise CorruptBatchError(f"{header.records_count} records in {len(plain)} bytes")
    plain_header = msgspec.structs.replace(header, attributes=header.attributes & ~CODEC_MASK)
    view = memoryview(bytes(HEADER_BYTES) + plain)
    return Batch(plain_header, view, 0).records()


def decode_batches(
    table: BatchTable,
    schema: pa.Schema,
    context: RowContext,
    selection: RowSelection | None = None,
    *,
    validate: str = "crc",
    describe: Describe | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch | Fault]:
    """Yield the records of the table's batches in order; damaged batches as faults in between.

    Args:
        table: sound headers; the caller has checked the checksums.
        schema: the columns wanted, names of `schema.columns_of`.
        context: the constant columns.
        selection: wanted records; None for all but control records.
        validate: `full` also checks counts, offsets and times against the header.
        describe: makes the columns of decode=json.
        limits: size at which a record batch is yielded.
    """
    wanted = selection or RowSelection()
    table = select_batches(table, wanted)
    target = _Target(schema, context, wanted, validate, describe, limits)
    for group in _groups(table, limits):
        yield from _decode_group(group, target)


class _Target(msgspec.Struct, frozen=True):
    schema: pa.Schema
    context: RowContext
    selection: RowSelection
    validate: str
    describe: Describe | None
    limits: Limits


def select_batches(
    table: BatchTable, selection: RowSelection, *, with_control: bool = False
) -> BatchTable:
    """Return the batches that can hold wanted records; with `with_control` also control batches."""
    if not len(table):
        return table
    mask = table.last_offsets >= selection.start
    if selection.end is not None:
        mask &= table.column("base_offset") < selection.end
    if not (selection.include_control or with_control):
        mask &= (table.headers["attributes"] & CONTROL_BIT) == 0
    if selection.aborted:
        mask &= ~_is_aborted(table, selection.aborted)
    return table if bool(mask.all()) else table.select(mask)


def _is_aborted(table: BatchTable, aborted: Sequence[tuple[int, int, int]]) -> Any:
    """Return a mask of the batches in an aborted transaction of their producer."""
    found = np.zeros(len(table), np.bool_)
    attributes = table.column("attributes")
    candidates = (attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)) == TRANSACTIONAL_BIT
    producers, bases = table.column("producer_id"), table.column("base_offset")
    low, high = int(bases.min()), int(bases.max())
    for producer_id, first, last in aborted:
        if first <= high and last >= low:
            found |= candidates & (producers == producer_id) & (bases >= first) & (bases <= last)
    return found


def _groups(table: BatchTable, limits: Limits) -> Iterator[BatchTable]:
    """Yield parts of the table below the limits, compressed batches by their compressed size."""
    counts = np.clip(table.column("records_count"), 0, table.sizes)
    rows, size = np.cumsum(counts), np.cumsum(table.sizes)
    if len(table) and rows[-1] * 4 <= limits.rows * 5 and size[-1] <= limits.size_bytes:
        yield table  # no small rest behind a full group
        return
    done = 0
    while done < len(table):
        rows_before = int(rows[done - 1]) if done else 0
        size_before = int(size[done - 1]) if done else 0
        by_rows = int(np.searchsorted(rows, rows_before + limits.rows, "right"))
        by_size = int(np.searchsorted(size, size_before + limits.size_bytes, "right"))
        stop = max(min(by_rows, by_size), done + 1)
        part = slice(done, stop)
        yield BatchTable(table.buffer, table.origin, table.positions[part], table.headers[part])
        done = stop


def _decode_group(table: BatchTable, target: _Target) -> Iterator[pa.RecordBatch | Fault]:
    done = 0
    while done < len(table):
        rest = table if done == 0 else table.select(np.arange(len(table)) >= done)
        rows, used = _fast_rows(rest, target)
        done += used
        if rows is None:
            yield from _decode_one_by_one(rest, target)
        elif rows.num_rows:
            yield rows


def _fast_rows(table: BatchTable, target: _Target) -> tuple[pa.RecordBatch | None, int]:
    """Return the rows of the first batches, and the number of these batches.

    None in place of rows: some batch needs the slow reader.
    """
    limits = target.limits
    try:
        if bool((table.column("attributes") & _RESERVED_BITS).any()):
            return None, len(table)
        if table.is_old:
            data, starts, ends = old_sections(table.buffer, table.positions.tolist())
        else:
            data, starts, ends = plain_sections(table, limits.batch_bytes_max, limits.size_bytes)
        if len(starts) < len(table):
            table = table.select(np.arange(len(table)) < len(starts))
        content = np.frombuffer(data, np.uint8)
        fields = read_fields(content, data, starts, ends, table.column("records_count"))
        group = Group(table, data, fields, target.context.topic)
        if bool(fields.headers_count.any()):
            group.headers()  # their names must be sound, wanted or not
        if target.validate == "full":
            _check_against_header(group)
    except (SuspectError, CorruptBatchError, pa.ArrowInvalid):
        return None, len(table)
    return _record_rows(group, target), len(table)


def _decode_one_by_one(table: BatchTable, target: _Target) -> Iterator[pa.RecordBatch | Fault]:
    for index in range(len(table)):
        one = table.select(np.arange(len(table)) == index)
        try:
            records = decode_batch_py(one, 0, target.limits.batch_bytes_max)
        except CorruptBatchError as error:
            rows, _ = _fast_rows(one, target)  # the fast path accepts names that are not UTF-8
            if rows is None:
                yield _fault(one, _reason(one), str(error))
            elif rows.num_rows:
                yield rows
            continue
        fault = _full_fault(one, records) if target.validate == "full" else None
        if fault is None:
            fault = _header_fault(one, records)
        if fault is not None:
            yield fault
            continue
        rows, _ = _fast_rows(one, target)
        if rows is None:
            rows = _record_rows(_canonical_group(one, records, target.context.topic), target)
        if rows.num_rows:
            yield rows


def _header_fault(one: BatchTable, records: list[RecordView]) -> Fault | None:
    attributes, base = int(one.column("attributes")[0]), int(one.column("base_offset")[0])
    if attributes & _RESERVED_BITS:
        return _fault(one, "reserved_attr_bits", f"attributes {attributes & 0xFFFF:#x}")
    if any(record.offset < base for record in records):
        return _fault(one, "offset_not_monotone", f"an offset below {base}")
    return None


def _canonical_group(one: BatchTable, records: list[RecordView], topic: str) -> Group:
    """The records of one batch, encoded again in the form that the fast reader takes."""
    header = parse_batch_header(one.buffer, int(one.positions[0]))
    plain = msgspec.structs.replace(header, attributes=header.attributes & ~CODEC_MASK)
    section = encode_records(plain, records)[HEADER_BYTES:]
    bounds = np.array([0], np.int64), np.array([len(section)], np.int64)
    content = np.frombuffer(section, np.uint8)
    fields = read_fields(content, section, *bounds, np.array([len(records)], np.int64))
    return Group(one, section, fields, topic)


def _reason(one: BatchTable) -> str:
    codec = int(one.column("attributes")[0]) & CODEC_MASK
    return "unknown_codec" if codec > Codec.ZSTD else "bad_records"


def _fault(one: BatchTable, reason: str, detail: str) -> Fault:
    return Fault(
        reason=reason,
        position=int(one.positions[0]) + one.origin,
        length=int(one.sizes[0]),
        base_offset=int(one.column("base_offset")[0]),
        detail=detail,
    )


def _check_against_header(group: Group) -> None:
    """Do the checks of validate=full over all batches at once."""
    table, delta = group.table, group.fields.offset_delta
    if not len(delta):
        return
    first = np.diff(group.fields.batch, prepend=-1) != 0
    if bool((np.diff(delta, prepend=-1)[~first] <= 0).any()):
        raise SuspectError("offsets do not grow")
    if int(delta.min()) < 0 or bool((delta > group.per_record("last_offset_delta")).any()):
        raise SuspectError("an offset outside its batch")
    last_deltas = table.column("last_offset_delta")
    if bool((table.column("records_count") > last_deltas + 1).any()):
        raise SuspectError("more records than offsets")
    if bool((group.timestamps_ms() > group.per_record("max_timestamp_ms")).any()):
        raise SuspectError("a time above the maximum")


def _full_fault(one: BatchTable, records: list[RecordView]) -> Fault | None:
    """Return the fault in the header of a readable batch, None without one."""
    base, last = int(one.column("base_offset")[0]), int(one.last_offsets[0])
    if len(records) > last - base + 1:
        detail = f"{len(records)} records for {last - base + 1} offsets"
        return _fault(one, "record_count_mismatch", detail)
    before = base - 1
    for record in records:
        if not before < record.offset <= last:
            detail = f"offset {record.offset} after {before} in [{base}, {last}]"
            return _fault(one, "offset_not_monotone", detail)
        before = record.offset
    maximum = int(one.column("max_timestamp_ms")[0])
    newest = max((record.timestamp_ms for record in records), default=maximum)
    if newest > maximum:
        return _fault(one, "ts_gt_max", f"{newest} is above the batch's maximum {maximum}")
    return None


def _record_rows(group: Group, target: _Target) -> pa.RecordBatch:
    fields = group.fields
    made = _record_columns(group)
    extra: dict[str, pa.Array] = {}
    if target.describe is not None:
        extra = target.describe(group, group.keys(), group.values())
    rows = assemble(target.schema, made, target.context, len(fields.batch), extra)
    selection = target.selection
    if not len(fields.batch):
        return rows
    offsets = group.offsets()
    end = selection.end
    if int(offsets.min()) >= selection.start and (end is None or int(offsets.max()) < end):
        return rows
    mask = offsets >= selection.start
    if end is not None:
        mask &= offsets < end
    return rows.filter(pa.array(mask))


def _record_columns(group: Group) -> dict[str, Callable[[], pa.Array]]:
    fields, table = group.fields, group.table

    def attribute(bit: int) -> Any:
        return ((table.column("attributes") & bit) != 0)[fields.batch]

    return {
        "key": group.keys,
        "value": group.values,
        "keySize": lambda: arrays.int32(fields.key_length),
        "valueSize": lambda: arrays.int32(fields.value_length),
        "offset": lambda: pa.array(group.offsets()),
        "timestamp": lambda: arrays.timestamps(group.timestamps_ms()),
        "timestampType": lambda: arrays.int32(table.timestamp_types[fields.batch]),
        "headers": group.headers,
        "leaderEpoch": lambda: arrays.int32(group.per_record("leader_epoch")),
        "producerId": lambda: pa.array(group.per_record("producer_id")),
        "producerEpoch": lambda: arrays.int16(group.per_record("producer_epoch")),
        "sequence": lambda: arrays.int32(_sequences(group)),
        "isTransactional": lambda: pa.array(attribute(TRANSACTIONAL_BIT)),
        "isControl": lambda: pa.array(attribute(CONTROL_BIT)),
        "codec": lambda: arrays.codec_names(group.per_record("attributes")),
        "batchBaseOffset": lambda: pa.array(group.per_record("base_offset")),
        "batchPosition": lambda: pa.array((table.positions + table.origin)[fields.batch]),
        "batchSize": lambda: arrays.int32(table.sizes[fields.batch]),
    }


def _sequences(group: Group) -> Int64Array:
    base = group.per_record("base_sequence")
    # wraps from 2^31-1 to 0
    return np.where(base < 0, -1, (base + group.fields.offset_delta) & _INT32_MAX)
