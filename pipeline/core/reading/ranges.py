"""Options to ranges: the offsets to read of each partition, and its aborted transactions."""

import itertools
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from pipeline.core.errors import BadInputError, DataLossError
from pipeline.core.reading.discovery import Listing, PartitionFiles, SegmentFile
from pipeline.core.reading.index import offset_entries, time_entries
from pipeline.core.reading.named_partitions import check_named
from pipeline.core.reading.opening import open_segment
from pipeline.core.reading.options import EARLIEST, LATEST, Options, Positions
from pipeline.core.reading.transactions import transaction_state
from pipeline.core.records.batches import Fault, scan
from pipeline.core.records.decode import RowSelection, decode_batch_py
from wire.errors import CorruptBatchError

CUT_TAILS: Final = ("short_header", "partial_tail", "zero_tail")


class PartitionRange(msgspec.Struct, frozen=True):
    """A partition, the selected rows of it, and the files that can hold them."""

    partition: PartitionFiles
    selection: RowSelection
    files: tuple[SegmentFile, ...]


def resolve_ranges(
    listing: Listing, options: Options, limits: Mapping[str, int | None]
) -> tuple[list[PartitionRange], list[str], list[str]]:
    """Resolve the range of each copy that is read, warnings about missing data, and cut tails.

    Args:
        listing: everything found below the paths.
        options: options of the read.
        limits: directory -> exclusive end (None: all) of the copies that are read.

    Raises:
        DataLossError: a start below the log's start or a gap between segments, unless
            failOnDataLoss is false.
        BadInputError: no record at or after a starting time, with strategy error; an option names
            a partition that does not exist.
    """
    check_named([(one.topic, one.partition) for one in listing.partitions], options)
    found: list[PartitionRange] = []
    warnings: list[str] = []
    cut_tails: list[str] = []
    for partition in listing.partitions:
        if partition.directory not in limits:
            continue
        start = wanted_start(partition, options)
        end = _lower(_end(partition, options), limits[partition.directory])
        for problem in _losses(partition, start):
            if options.fail_on_data_loss:
                raise DataLossError(f"{problem}; failOnDataLoss=false reads what is there")
            warnings.append(problem)
        aborted: tuple[tuple[int, int, int], ...] = ()
        if options.isolation == "read_committed":
            state = transaction_state(partition.segments)
            aborted, stable = state.aborted, state.last_stable_offset
            end = _lower(end, stable)
        selection = RowSelection(
            start=partition.log_start_offset if start is None else start,
            end=end,
            include_control=options.include_control,
            aborted=aborted,
        )
        judged, cut = partition, None
        if set(partition.segments[-1:]) & set(_files(partition, selection)):
            judged, cut = judge_tail(partition)
        cut_tails += [] if cut is None else [cut]
        found.append(PartitionRange(judged, selection, _files(judged, selection)))
    return found, warnings, cut_tails


def _lower(end: int | None, other: int | None) -> int | None:
    """The lower of two exclusive ends; None is no end."""
    if end is None or other is None:
        return other if end is None else end
    return min(end, other)


def log_end_offset(file: SegmentFile) -> int:
    """Exclusive end offset of a segment, by its last batches; its base offset when it is empty."""
    return _tail(file)[0]


def judge_tail(partition: PartitionFiles) -> tuple[PartitionFiles, str | None]:
    """Find what a node would cut behind the last batch: a torn batch, or zeros to the end.

    Below the recovery point it is damage: the file is then no longer one that may end so.

    Returns:
        The partition as it is to be read, and what will be left out of it, None for nothing.
    """
    if not partition.segments:
        return partition, None
    *others, last = partition.segments
    try:
        end, fault = _tail(msgspec.structs.replace(last, is_last=False))
    except OSError:
        return partition, None  # the reader reports it, by its mode
    if fault is None or fault.reason not in CUT_TAILS:
        return partition, None
    if end < partition.recovery_point:
        damaged = msgspec.structs.replace(last, is_last=False)
        return msgspec.structs.replace(partition, segments=(*others, damaged)), None
    return partition, (
        f"{last.path}:{fault.position} {fault.reason}: {fault.length} bytes behind offset {end}"
        " are left out, as a node cuts them when it starts"
    )


def gap_between(before: SegmentFile, after: SegmentFile) -> str | None:
    """Describe the offsets missing between two neighbouring segments; None without any.

    Damage at the end of the first one is reported by the reader instead.
    """
    end, fault = _tail(before)
    if end >= after.base_offset or fault is not None:
        return None
    return f"{before.path}: ends at {end}, the next segment begins at {after.base_offset}"


def _tail(file: SegmentFile) -> tuple[int, Fault | None]:
    """Exclusive end offset, and the damage that follows the last batch."""
    entries = offset_entries(file)
    starts = [position for _, position in entries[-1:]] if entries else []
    for start in [*starts, 0]:
        end, fault = None, None
        with open_segment(file.path) as descriptor:
            for table in scan(
                descriptor, start, file.size, frozen_size=file.size, validate="header",
                is_last=file.is_last,
                reads_old_formats=True,
            ):  # fmt: skip
                if len(table):
                    end = int(table.last_offsets[-1]) + 1
                fault = table.fault
        if end is not None or start == 0:
            return file.base_offset if end is None else end, fault
    raise AssertionError("the begin of the file is always tried")


def offset_of_time(partition: PartitionFiles, timestamp_ms: int) -> int | None:
    """Offset of the first record whose time is at or after the given one; None without one.

    The time index only excludes segments; the answer comes from the batches.
    """
    for file in partition.segments:
        entries = time_entries(file)
        if entries and not file.is_last and entries[-1][0] < timestamp_ms:
            continue
        found = _first_at(file, timestamp_ms)
        if found is not None:
            return found
    return None


def _first_at(file: SegmentFile, timestamp_ms: int) -> int | None:
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, 0, file.size, frozen_size=file.size, is_last=file.is_last,
            validate="header",
            reads_old_formats=True,
        ):  # fmt: skip
            for index in np.flatnonzero(table.column("max_timestamp_ms") >= timestamp_ms).tolist():
                try:
                    records = decode_batch_py(table, index)
                except CorruptBatchError:
                    return int(table.column("base_offset")[index])  # the reader reports it
                for record in records:
                    if record.timestamp_ms >= timestamp_ms:
                        return int(record.offset)
    return None


def wanted_start(partition: PartitionFiles, options: Options) -> int | None:
    """First offset wanted; None for the log's start."""
    time = _time(partition, options.starting_timestamp, options.starting_offsets_by_timestamp)
    if time is not None:
        offset = offset_of_time(partition, time)
        if offset is not None:
            return offset
        if options.starting_offsets_by_timestamp_strategy == "error":
            raise BadInputError(
                f"{partition.directory}: no record at or after {time} ms;"
                " startingOffsetsByTimestampStrategy=latest starts at the end instead"
            )
        return _log_end(partition)
    at = _offset(partition, options.starting_offsets, EARLIEST)
    if at == EARLIEST:
        return None
    return _log_end(partition) if at == LATEST else at


def _end(partition: PartitionFiles, options: Options) -> int | None:
    """Exclusive end; None for all offsets."""
    time = _time(partition, options.ending_timestamp, options.ending_offsets_by_timestamp)
    if time is not None:
        return offset_of_time(partition, time)
    at = _offset(partition, options.ending_offsets, LATEST)
    if at == LATEST:
        return None
    return partition.log_start_offset if at == EARLIEST else at


def _time(partition: PartitionFiles, common: int | None, each: Positions | None) -> int | None:
    if common is not None or each is None:
        return common
    return each.get(partition.topic, {}).get(partition.partition)


def _offset(partition: PartitionFiles, given: int | Positions, default: int) -> int:
    if isinstance(given, int):
        return given
    return given.get(partition.topic, {}).get(partition.partition, default)


def _log_end(partition: PartitionFiles) -> int:
    return log_end_offset(partition.segments[-1]) if partition.segments else 0


def _losses(partition: PartitionFiles, start: int | None) -> list[str]:
    """Describe requested records that are gone, and gaps between segments."""
    problems: list[str] = []
    log_start = partition.log_start_offset
    if start is not None and start < log_start:
        problems.append(
            f"{partition.directory}: start {start} is below the log's start {log_start}"
        )
    if partition.is_cleaned:
        return problems
    for before, after in itertools.pairwise(partition.segments):
        gap = gap_between(before, after) if after.base_offset > log_start else None
        if gap is not None:
            problems.append(gap)
    return problems


def _files(partition: PartitionFiles, selection: RowSelection) -> tuple[SegmentFile, ...]:
    """Segments that can hold a selected offset, and the snapshots."""
    segments = partition.segments
    kept = []
    for index, file in enumerate(segments):
        # the end of a segment is known only by the base of the next one
        if index + 1 < len(segments) and segments[index + 1].base_offset <= selection.start:
            continue
        if selection.end is not None and file.base_offset >= selection.end:
            continue
        kept.append(file)
    return (*kept, *partition.snapshots)
