"""Input of `history`: one copy of the metadata log, and a snapshot if the log starts later.

Before anything is decoded the log is scanned once for records that affect others: the markers
of metadata transactions and the leader changes. Both are few, so the driver holds them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from metadata.control_records import (
    LEADER_CHANGE,
    SNAPSHOT_HEADER,
    LeaderChange,
    SnapshotHeader,
    control_type,
    decode_control,
)
from metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from metadata.schema import MetadataRecordError
from pipeline.core.audit.findings import ERROR, Finding, in_file
from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.discovery import Listing, PartitionFiles, SegmentFile, discover
from pipeline.core.reading.log_positions import Boundary, end_boundary
from pipeline.core.reading.opening import input_errors
from pipeline.core.reading.options import Options, parse_options
from pipeline.core.reading.ranges import log_end_offset
from pipeline.core.reading.reader import Piece, plan_read, read_splits
from pipeline.core.reading.watermark import committed_copies
from pipeline.core.records.batches import Fault
from pipeline.core.records.schema import schema_of
from wire.types import METADATA_TOPIC_NAME

NO_POSITION: Final = -1  # of damage that is known by its offset
_NO_VALUE: Final = "a metadata record without a value"
OnFault = Callable[[SegmentFile, Fault], None]
COLUMNS: Final = "offset,batchBaseOffset,leaderEpoch,timestamp,isControl,key,value"
_MARKERS: Final = (
    BeginTransactionRecord.api_key,
    EndTransactionRecord.api_key,
    AbortTransactionRecord.api_key,
)


class Transaction(msgspec.Struct, frozen=True):
    """A metadata transaction that has ended: records with begin < offset < end belong to it.

    `batch_offset` and `time` (microseconds) are those of its last record, where it takes effect.
    """

    begin: int
    end: int
    batch_offset: int
    time: int | None
    is_aborted: bool


class LeaderStart(msgspec.Struct, frozen=True):
    """A LeaderChange control record."""

    offset: int
    epoch: int
    leader: int
    time: datetime | None
    voters: tuple[int, ...]
    granting: tuple[int, ...]


class Marker(msgspec.Struct, frozen=True):
    """One record of a transaction's frame; `time` in microseconds."""

    offset: int
    batch_offset: int
    api_key: int
    time: int | None


class Scanned(msgspec.Struct, frozen=True):
    """Results of the first scan of some splits."""

    records: int = 0
    no_ops: int = 0
    end_offset: int = 0
    markers: tuple[Marker, ...] = ()
    leaders: tuple[LeaderStart, ...] = ()
    damage: tuple[Finding, ...] = ()


class LogChoice(msgspec.Struct, frozen=True):
    """The copy of the metadata log to read, and its range of offsets.

    The range is [start, end); `seed` is the snapshot at `start`, None if the log starts there;
    `others` are its snapshots up to the end, ascending; for a new history those after `start`;
    `bypassed` names the damage that was read around, `has_others` is True beside other copies.
    `mode` is the source's; unless it is FAILFAST, damage that nothing replaces is left out, and
    `damage` has what the scan of the log does not find: that of the seed.
    """

    partition: PartitionFiles
    start: int
    end: int
    seed: SegmentFile | None
    others: tuple[SegmentFile, ...]
    is_end_committed: bool
    cluster_id: str | None
    bypassed: tuple[str, ...] = ()
    has_others: bool = False
    mode: str = "FAILFAST"
    damage: tuple[Finding, ...] = ()


@input_errors()
def choose_log(
    inputs: Sequence[str], continue_at: int | None = None, without: frozenset[str] = frozenset()
) -> LogChoice:
    """Choose the copy that reaches back furthest, then the newest: by its last epoch, then its end.

    Only copies with the known committed end qualify; to continue an archive, only those
    with its next offset, preferably also with the record before it.

    Args:
        inputs: paths as `discover` takes them.
        continue_at: the offset at which an archive continues; None for a new history.
        without: partition directories and snapshots that are not to be read.

    Raises:
        BadInputError: no metadata log, or one whose beginning is in no snapshot.
        DataLossError: no log has the offset at which the archive continues.
    """
    listing: Listing = discover(inputs, include_snapshots=True)
    copies = [found for found in listing.partitions if found.topic == METADATA_TOPIC_NAME]
    with_log = [found for found in copies if found.segments]
    if not with_log:
        raise BadInputError(f"{', '.join(inputs)}: no segments of {METADATA_TOPIC_NAME}")
    committed, holding = committed_copies(with_log)
    holding = [_without(found, without) for found in holding if found.directory not in without]
    if not holding:
        raise BadInputError(f"{', '.join(inputs)}: every copy of {METADATA_TOPIC_NAME} is damaged")
    ends = {found.directory: _end_of(found) for found in holding}
    if continue_at is None:
        best, start = _beginning(holding, ends)
        seed = next((one for one in best.snapshots if one.base_offset == start), None)
    else:
        best, start, seed = _continuation(holding, ends, continue_at), continue_at, None
    end = ends[best.directory].offset
    end = max(end if committed is None else min(committed, end), start)
    above = 0 if continue_at is not None else start
    others = tuple(one for one in best.snapshots if above < one.base_offset <= end)
    return LogChoice(
        best, start, end, seed, others, committed is not None, listing.cluster_id,
        has_others=len(holding) > 1,
    )  # fmt: skip


def _without(copy: PartitionFiles, paths: frozenset[str]) -> PartitionFiles:
    kept = tuple(one for one in copy.snapshots if one.path not in paths)
    return msgspec.structs.replace(copy, snapshots=kept)


def _beginning(
    copies: Sequence[PartitionFiles], ends: Mapping[str, Boundary]
) -> tuple[PartitionFiles, int]:
    """The copy for a new history, and its begin."""
    reach = {found.directory: _first_usable(found) for found in copies}
    usable = [found for found in copies if reach[found.directory] is not None]
    if not usable:
        first = copies[0]
        raise BadInputError(
            f"{first.directory}: the log starts at offset {first.first_offset}"
            " and no snapshot holds what was before"
        )
    best = min(usable, key=lambda found: (reach[found.directory], *_age(ends[found.directory])))
    start = reach[best.directory]
    assert start is not None
    return best, start


def _continuation(
    copies: Sequence[PartitionFiles], ends: Mapping[str, Boundary], offset: int
) -> PartitionFiles:
    """The copy that continues an archive with a given end."""
    newest = min(copies, key=lambda found: _age(ends[found.directory]))
    usable = [
        found for found in copies if found.first_offset <= offset <= ends[found.directory].offset
    ]
    if usable:
        return min(usable, key=lambda one: (one.first_offset == offset, *_age(ends[one.directory])))
    if offset < newest.first_offset:
        raise DataLossError(
            f"{newest.directory}: the log starts at offset {newest.first_offset},"
            f" offsets from {offset} on are gone"
        )
    raise DataLossError(
        f"{newest.directory}: the log ends at offset {ends[newest.directory].offset}, the archive"
        f" at {offset}: the log was cut, or it is another one"
    )


def _end_of(copy: PartitionFiles) -> Boundary:
    """End and last epoch of a copy, even if damage precedes the end."""
    return Boundary(log_end_offset(copy.segments[-1]), end_boundary(copy, None).epoch)


def _age(end: Boundary) -> tuple[int, int]:
    """Sort key with the newest log first, as voters compare logs."""
    return -end.epoch, -end.offset


def _first_usable(copy: PartitionFiles) -> int | None:
    """The first offset from which every later state can be built."""
    if copy.first_offset == 0:
        return 0
    known = [one.base_offset for one in copy.snapshots if one.base_offset >= copy.first_offset]
    return min(known, default=None)


def log_options(choice: LogChoice, end: int | None = None) -> Options:
    """Options that read the chosen range, control records included."""
    ranges = {METADATA_TOPIC_NAME: {"0": choice.start}}
    stop = {METADATA_TOPIC_NAME: {"0": choice.end if end is None else end}}
    return parse_options(
        {
            "path": choice.partition.directory,
            "replicas": "all",  # one was chosen, with its end
            "subscribe": METADATA_TOPIC_NAME,
            "startingOffsets": msgspec.json.encode(ranges).decode(),
            "endingOffsets": msgspec.json.encode(stop).decode(),
            "columns": COLUMNS,
            "includeControl": "true",
            "mode": choice.mode,
        }
    )


def snapshot_options(file: SegmentFile, mode: str = "FAILFAST") -> Options:
    """Options that read one snapshot."""
    given = {"path": file.path, "columns": COLUMNS, "includeControl": "true"}
    return parse_options(given | {"mode": mode})


def snapshot_pieces(file: SegmentFile) -> list[Piece]:
    """The one or more splits of a snapshot."""
    plan = plan_read(snapshot_options(file))
    return [piece for pack in plan.packs for piece in pack]


def log_rows(
    pieces: Sequence[Piece], options: Options, on_fault: OnFault | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the pieces with the columns `COLUMNS`, without what is damaged.

    Args:
        pieces: of a plan with these options.
        options: their mode FAILFAST ends the read at damage.
        on_fault: called for all that is left out.

    Raises:
        CorruptSegmentError: a damaged batch, or a record without a value, in mode FAILFAST.
    """
    schema = schema_of("records", COLUMNS)
    for file, rows in (
        (piece.split.file, rows)
        for piece in pieces for rows in read_splits((piece,), options, schema, on_fault)
    ):  # fmt: skip
        is_empty = pc.and_(pc.invert(rows.column("isControl")), pc.is_null(rows.column("value")))
        for offset in rows.column("offset").filter(is_empty).to_pylist():
            if options.mode == "FAILFAST":
                raise CorruptSegmentError(file.path, NO_POSITION, offset, _NO_VALUE)
            if on_fault is not None:
                fault = Fault(reason="no_value", position=NO_POSITION, length=0,
                              base_offset=offset, detail=_NO_VALUE)  # fmt: skip
                on_fault(file, fault)
        sound = rows.filter(pc.invert(is_empty))  # nor the nulls that PERMISSIVE gives for damage
        if sound.num_rows:
            yield sound


def damage_finding(file: SegmentFile, fault: Fault) -> Finding:
    """Damage of a log as a finding."""
    return in_file(file, ERROR, fault.reason, fault.position, length=fault.length,
                   offset=fault.base_offset, detail=fault.detail)  # fmt: skip


def scan_pieces(pieces: Sequence[Piece], options: Options) -> Scanned:
    """Find markers, leader changes and the end, at the speed of the vector reader."""
    records = no_ops = end = 0
    markers: list[Marker] = []
    leaders: list[LeaderStart] = []
    damage: list[Finding] = []

    def add(file: SegmentFile, fault: Fault) -> None:
        damage.append(damage_finding(file, fault))

    for rows in log_rows(pieces, options, add):
        records += rows.num_rows
        end = int(rows.column("offset")[-1].as_py()) + 1
        api_keys = pc.binary_slice(rows.column("value"), 1, 2)
        plain = pc.invert(rows.column("isControl"))
        no_op = pc.and_(plain, pc.equal(api_keys, bytes([NoOpRecord.api_key])))
        no_ops += pc.sum(no_op).as_py() or 0
        wanted = pa.array([bytes([key]) for key in _MARKERS], pa.binary())
        marked = pc.and_(plain, pc.is_in(api_keys, value_set=wanted))
        chosen = rows.filter(pc.fill_null(marked, False))  # noqa: FBT003
        times = chosen.column("timestamp").view(pa.int64()).to_pylist()
        markers += [
            Marker(row["offset"], row["batchBaseOffset"], row["value"][1], time)
            for row, time in zip(chosen.to_pylist(), times, strict=True)
        ]
        for row in rows.filter(rows.column("isControl")).to_pylist():
            leaders += _leader_change(row)
    return Scanned(records, no_ops, end, tuple(markers), tuple(leaders), tuple(damage))


def merge_scans(found: Iterable[Scanned]) -> Scanned:
    """Combine the results of all tasks, in offset order."""
    records = no_ops = end = 0
    markers: list[Marker] = []
    leaders: list[LeaderStart] = []
    damage: dict[tuple[str, int], Finding] = {}  # of a place at the end of a split each side says
    for one in found:
        records += one.records
        no_ops += one.no_ops
        end = max(end, one.end_offset)
        markers += one.markers
        leaders += one.leaders
        damage.update({(place.path, place.position): place for place in one.damage})
    markers.sort(key=lambda one: one.offset)
    leaders.sort(key=lambda one: one.offset)
    places = tuple(damage[key] for key in sorted(damage))
    return Scanned(records, no_ops, end, tuple(markers), tuple(leaders), places)


def transactions_of(
    markers: Sequence[Marker], *, has_gaps: bool = False
) -> tuple[list[Transaction], int | None]:
    """The ended transactions, and the begin offset of an open one.

    Args:
        markers: in offset order.
        has_gaps: damaged batches were left out, so markers may be missing: a transaction whose
            end is gone counts as aborted, an end without a begin is left out.

    Raises:
        BadInputError: contradictory markers, without gaps.
    """
    found: list[Transaction] = []
    begin: int | None = None
    for marker in markers:
        if marker.api_key == BeginTransactionRecord.api_key:
            if begin is not None and not has_gaps:
                raise BadInputError(
                    f"offset {marker.offset}: a transaction begins inside that of offset {begin}"
                )
            if begin is not None:
                found.append(_ended(begin, marker, is_aborted=True))
            begin = marker.offset
            continue
        if begin is None and has_gaps:
            continue
        if begin is None:
            raise BadInputError(f"offset {marker.offset}: a transaction ends that never began")
        is_aborted = marker.api_key == AbortTransactionRecord.api_key
        found.append(_ended(begin, marker, is_aborted=is_aborted))
        begin = None
    return found, begin


def _ended(begin: int, marker: Marker, *, is_aborted: bool) -> Transaction:
    return Transaction(begin, marker.offset, marker.batch_offset, marker.time, is_aborted)


def snapshot_time(
    rows: Iterator[pa.RecordBatch],
) -> tuple[int | None, Iterator[pa.RecordBatch]]:
    """Append time (microseconds) of the last record in a snapshot, and the rows of the snapshot."""
    for first in rows:
        found: int | None = None
        for row in first.filter(first.column("isControl")).to_pylist():
            if control_type(row["key"]) == SNAPSHOT_HEADER:
                header: Any = decode_control(SNAPSHOT_HEADER, row["value"])
                assert isinstance(header, SnapshotHeader)
                found = int(header.last_contained_log_timestamp) * 1000
        return found, chain((first,), rows)
    return None, iter(())


def _leader_change(row: dict[str, Any]) -> list[LeaderStart]:
    try:
        if control_type(row["key"]) != LEADER_CHANGE:
            return []
        change = decode_control(LEADER_CHANGE, row["value"])
    except MetadataRecordError:
        return []
    assert isinstance(change, LeaderChange)
    voters = tuple(int(one.voter_id) for one in change.voters)
    granting = tuple(int(one.voter_id) for one in change.granting_voters)
    return [LeaderStart(row["offset"], row["leaderEpoch"], int(change.leader_id),
                        row["timestamp"], voters, granting)]  # fmt: skip
