"""Steps of a read from options to rows, as a Spark task, a test or a command line runs them.

`plan_read` lists, resolves and cuts; `read_splits` reads some of the splits. Only values that can
be pickled pass between the two. Damage is handled by mode: FAILFAST raises, PERMISSIVE gives one
row with `_corrupt_batch`, DROPMALFORMED leaves it out; the latter two can write it to `errorsPath`.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from pipeline.core.errors import BadInputError, CorruptSegmentError
from pipeline.core.reading.copies import choose_copies
from pipeline.core.reading.discovery import Listing, SegmentFile, discover
from pipeline.core.reading.opening import input_errors, open_segment
from pipeline.core.reading.options import Options
from pipeline.core.reading.ranges import resolve_ranges
from pipeline.core.reading.split import Split, pack_splits, plan_splits, total_bytes
from pipeline.core.records.batches import BatchTable, Fault, scan
from pipeline.core.records.decode import (
    Describe,
    Limits,
    RowSelection,
    decode_batches,
    select_batches,
)
from pipeline.core.records.json_records import describe_records
from pipeline.core.records.rows import RowContext, batch_rows, corrupt_row
from pipeline.core.records.schema import schema_of


class Piece(msgspec.Struct, frozen=True):
    """A split and the selected rows of it."""

    split: Split
    selection: RowSelection


class ReadPlan(msgspec.Struct, frozen=True):
    """Packs of pieces that a read will process, one per task, and warnings for the user.

    `notes` say what is left out without being missing.
    `cut_tails` names torn batches and zeros at ends of logs: no loss, so no warning of one.
    """

    packs: tuple[tuple[Piece, ...], ...]
    warnings: tuple[str, ...]
    listing: Listing
    notes: tuple[str, ...] = ()
    cut_tails: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes that all tasks together will read."""
        return total_bytes([piece.split for pack in self.packs for piece in pack])


def read_schema(options: Options) -> pa.Schema:
    """The Arrow schema of the rows."""
    return schema_of(
        options.decode,
        options.columns,
        include_headers=options.include_headers,
        corrupt=options.mode == "PERMISSIVE",
    )


@input_errors()
def plan_read(options: Options) -> ReadPlan:
    """List the input and cut it into tasks.

    Raises:
        BadInputError: the input cannot be used.
        DataLossError: wanted records are missing, unless failOnDataLoss is false.
    """
    listing = discover(
        options.paths,
        include_hidden=options.include_hidden,
        include_snapshots=options.include_snapshots,
        strict=options.mode == "FAILFAST",
    )
    choice = choose_copies(listing.partitions, options)
    ranges, warnings, cut_tails = resolve_ranges(listing, options, choice.limits)
    size = sum(file.size for found in ranges for file in found.files)
    max_split = options.max_split_bytes
    if options.min_partitions is not None:
        max_split = max(1, min(max_split, size // options.min_partitions))
    pieces: list[Piece] = []
    for found in ranges:
        splits = plan_splits(found.files, max_split, max_records=options.max_records_per_partition)
        pieces += [Piece(split, _selection(split.file, found.selection)) for split in splits]
    packs = _pack(pieces, options, max_split)
    problems = (*listing.problems, *warnings)
    return ReadPlan(packs, problems, listing, choice.notes, tuple(cut_tails))


def read_splits(
    pieces: Sequence[Piece], options: Options, schema: pa.Schema | None = None,
    on_fault: Callable[[SegmentFile, Fault], None] | None = None,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield the rows of the pieces in order.

    Args:
        pieces: pieces of a plan made with these options.
        options: options of the read.
        schema: the columns to read, if not those of the options.
        on_fault: called for all damage that does not end the read.

    Raises:
        CorruptSegmentError: a damaged batch, in mode FAILFAST.
        BadInputError: a file cannot be opened, in mode FAILFAST.
    """
    reader = _Reader(options, read_schema(options) if schema is None else schema, on_fault)
    try:
        for piece in pieces:
            yield from reader.rows(piece)
        reader.errors.publish()
    finally:
        reader.errors.discard()


def read_table(options: Options) -> pa.Table:
    """Read everything into one table in this process."""
    schema = read_schema(options)
    batches = [
        rows for pack in plan_read(options).packs for rows in read_splits(pack, options, schema)
    ]
    return pa.Table.from_batches(batches, schema)


def _selection(file: SegmentFile, selection: RowSelection) -> RowSelection:
    """The selection for a file; a snapshot has offsets of its own, so ranges do not apply to it."""
    if not file.is_snapshot:
        return selection
    return RowSelection(include_control=selection.include_control)


def _pack(pieces: list[Piece], options: Options, max_split: int) -> tuple[tuple[Piece, ...], ...]:
    if options.max_records_per_partition is not None:
        return tuple((piece,) for piece in pieces)
    open_cost = options.open_cost_bytes
    if options.min_partitions is not None:
        open_cost = min(open_cost, max_split)
    packs = pack_splits([piece.split for piece in pieces], max_split, open_cost)
    left = iter(pieces)
    return tuple(tuple(next(left) for _ in pack) for pack in packs)


class _Reader:
    """Reader of pieces, one after the other, in the mode of the options."""

    def __init__(
        self, options: Options, schema: pa.Schema,
        on_fault: Callable[[SegmentFile, Fault], None] | None,
    ) -> None:  # fmt: skip
        self.options = options
        self.schema = schema
        self._on_fault = on_fault
        self.errors = _ErrorsFile(options.errors_path)
        self._limits = Limits(batch_bytes_max=options.max_batch_bytes)
        self._describe: Describe | None = describe_records if options.decode == "json" else None

    def rows(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        split, file = piece.split, piece.split.file
        context = RowContext(
            topic=file.topic, partition=file.partition, segment=file.name,
            node_id=file.node_id, topic_id=file.topic_id,
        )  # fmt: skip
        reached: int | None = None
        try:
            with open_segment(file.path) as descriptor:
                for table in scan(
                    descriptor, split.start, split.end, frozen_size=split.frozen_size,
                    is_last=file.is_last, validate=self.options.validate,
                    reads_old_formats=True,
                ):  # fmt: skip
                    if len(table):
                        reached = int(table.last_offsets[-1]) + 1
                    is_above = reached is not None and _is_above(piece.selection, reached)
                    yield from self._table_rows(table, piece, context, is_above=is_above)
        except OSError as error:
            fault = Fault(
                reason="vanished" if isinstance(error, FileNotFoundError) else "unreadable",
                position=split.start, length=split.size, detail=str(error.strerror),
            )  # fmt: skip
            yield from self._damage(fault, file, context, None)

    def _table_rows(
        self, table: BatchTable, piece: Piece, context: RowContext, *, is_above: bool
    ) -> Iterator[pa.RecordBatch]:
        file = piece.split.file
        checked = self.options.validate in ("crc", "full")
        if self.options.decode in ("metadata", "raw"):
            wanted = select_batches(table, piece.selection, with_control=True)
            if len(wanted):
                yield batch_rows(wanted, self.schema, context, crc_ok=True if checked else None)
        else:
            for rows in decode_batches(
                table, self.schema, context, piece.selection, validate=self.options.validate,
                describe=self._describe, limits=self._limits,
            ):  # fmt: skip
                if isinstance(rows, Fault):
                    yield from self._damage(rows, file, context, None)
                else:
                    yield rows
        if table.fault is not None and not is_above and not is_cut(table.fault, file):
            yield from self._damage(table.fault, file, context, table.damaged)

    def _damage(
        self, fault: Fault, file: SegmentFile, context: RowContext, damaged: BatchTable | None
    ) -> Iterator[pa.RecordBatch]:
        if self.options.mode == "FAILFAST":
            reason = f"{fault.reason}: {fault.detail}" if fault.detail else fault.reason
            if fault.reason in ("vanished", "unreadable"):
                raise BadInputError(f"{file.path}:{fault.position}: {reason}")
            raise CorruptSegmentError(file.path, fault.position, fault.base_offset, reason)
        self.errors.add(file, fault)
        if self._on_fault is not None:
            self._on_fault(file, fault)
        if self.options.mode == "PERMISSIVE":
            is_batch = self.options.decode in ("metadata", "raw")
            if is_batch and damaged is not None:
                yield batch_rows(damaged, self.schema, context, crc_ok=False, fault=fault)
                return
            column = "position" if is_batch else "batchPosition"
            yield corrupt_row(self.schema, context, fault, position_column=column)


def _is_above(selection: RowSelection, reached: int) -> bool:
    """Return True if nothing behind this exclusive end offset is selected."""
    return selection.end is not None and reached >= selection.end


def is_cut(fault: Fault, file: SegmentFile) -> bool:
    """Return True for zeros at the end of a log: a node cuts them when it starts."""
    return file.is_last and fault.reason == "zero_tail"


class _ErrorsFile:
    """JSON lines of damage that was left out; the file gets its name when the task is done."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._lines: list[str] = []
        self._first = ""

    def add(self, file: SegmentFile, fault: Fault) -> None:
        if self._folder is None:
            return
        first = f"{file.topic}-{file.partition}-{file.name}-{fault.position}"
        self._first = self._first or first
        known = {"path": file.path, "topic": file.topic, "partition": file.partition}
        self._lines.append(json.dumps(known | msgspec.structs.asdict(fault)) + "\n")

    def publish(self) -> None:
        if self._folder is None or not self._lines:
            return
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        # the same task run again gives the same name and content
        final = folder / f"errors-{self._first}.jsonl"
        temporary = folder / f".{final.name}.{os.getpid()}.tmp"
        temporary.write_text("".join(self._lines), encoding="utf-8")
        temporary.rename(final)
        self._lines.clear()

    def discard(self) -> None:
        self._lines.clear()
