"""Stream of live partitions: offsets, limits, guards. The Spark stream is a thin wrapper of this.

An offset is JSON, stored by Spark in its checkpoint:

    {"v": 1, "topics": {"orders": {"id": "<topic id>", "p": {"0": {"o": 123, "e": 7}}}}}

`o` is the next offset to read, `e` the leader epoch of the batch before it (-1 at a log's start).
Spark itself does not notice an offset that goes backwards or a log that was replaced, so every call
compares the offset with the files on disk (`check_start`).
"""

import itertools
from typing import Any, Final

import msgspec

from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.copies import choose_one, unknown_watermark
from pipeline.core.reading.discovery import Listing, PartitionFiles, SegmentFile, discover
from pipeline.core.reading.log_positions import (
    Boundary,
    end_boundary,
    epoch_before,
    locate,
    tail_fault,
    walk_from,
)
from pipeline.core.reading.named_partitions import check_named
from pipeline.core.reading.node_watermark import ask_nodes
from pipeline.core.reading.options import Options
from pipeline.core.reading.ranges import gap_between, wanted_start
from pipeline.core.reading.reader import Piece
from pipeline.core.reading.split import Split, plan_splits
from pipeline.core.reading.transactions import transaction_state
from pipeline.core.reading.watermark import committed_copies, watermark_of_nodes
from pipeline.core.records.decode import RowSelection
from wire.types import METADATA_TOPIC_NAME

VERSION: Final = 1
NO_EPOCH: Final = -1
StreamOffset = dict[str, Any]


class Point(msgspec.Struct, frozen=True):
    """Position up to which a partition has been read."""

    topic: str
    partition: int
    topic_id: str
    offset: int
    epoch: int


class Replica(msgspec.Struct, frozen=True):
    """The copy of a partition that is read, and its readable end: exclusive, a batch boundary."""

    files: PartitionFiles
    end: Boundary

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition of the replica."""
        return self.files.topic, self.files.partition


class Limit(msgspec.Struct, frozen=True):
    """Limit of one micro-batch; None for any amount."""

    rows: int | None = None
    size_bytes: int | None = None


class Problem(msgspec.Struct, frozen=True):
    """Reason why a partition cannot continue at its point, and the point to resume at instead."""

    topic: str
    partition: int
    reason: str
    detail: str
    resume: Point | None


def encode_offset(points: dict[tuple[str, int], Point]) -> StreamOffset:
    """Encode points as an offset for Spark's checkpoint."""
    topics: dict[str, Any] = {}
    for (topic, partition), point in sorted(points.items()):
        entry = topics.setdefault(topic, {"id": point.topic_id, "p": {}})
        entry["p"][str(partition)] = {"o": point.offset, "e": point.epoch}
    return {"v": VERSION, "topics": topics}


def decode_offset(offset: StreamOffset) -> dict[tuple[str, int], Point]:
    """Decode an offset of `encode_offset`.

    Raises:
        BadInputError: another version or shape: the checkpoint is not of this source.
    """
    if offset.get("v") != VERSION:
        raise BadInputError(f"stream offset has version {offset.get('v')}, known is {VERSION}")
    points = {}
    try:
        for topic, entry in offset["topics"].items():
            for number, at in entry["p"].items():
                point = Point(topic, int(number), str(entry["id"]), int(at["o"]), int(at["e"]))
                points[topic, int(number)] = point
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInputError(f"stream offset can not be read: {offset!r}") from error
    return points


def replicas(options: Options) -> dict[tuple[str, int], Replica]:
    """The wanted partitions, each with the copy to read and its readable end.

    Raises:
        BadInputError: the input cannot be used, or a high watermark is not known, or a
            node in `inspect` gives no answer.
        CorruptSegmentError: in mode FAILFAST, damage between the last sound batch and the
            high watermark.
    """
    return replicas_in(discover(options.paths, include_hidden=options.include_hidden), options)


def replicas_in(
    listing: Listing, options: Options, *, needs_watermark: bool = True
) -> dict[tuple[str, int], Replica]:
    """Choose in a listing as `replicas` does.

    Args:
        listing: everything found below the paths.
        options: options of the query.
        needs_watermark: refuse a partition whose high watermark is to be its end and is not known;
            else it is read to its end.
    """
    grouped: dict[tuple[str, int], list[PartitionFiles]] = {}
    for found in listing.partitions:
        if found.segments and options.wants(found.topic, found.partition):
            grouped.setdefault((found.topic, found.partition), []).append(found)
    committed: dict[int, int] = {}
    if options.inspect and options.ends_at_high_watermark:
        committed = ask_nodes(options.inspect, listing.cluster_id)
    chosen = {}
    for key, every in grouped.items():
        limit, copies = None, every
        if options.ends_at_high_watermark and committed and key[0] == METADATA_TOPIC_NAME:
            limit, copies = watermark_of_nodes(every, committed)
        elif options.ends_at_high_watermark:
            limit, copies = committed_copies(every)
            if limit is None and needs_watermark:
                raise unknown_watermark(copies[0])
        files, limit = choose_one(every, copies, limit)
        end, committed_end = _readable_end(files, limit, options)
        if options.mode == "FAILFAST" and (committed_end is None or end.offset < committed_end):
            _check_tail(files, end, options, is_below_committed=committed_end is not None)
        chosen[key] = Replica(files, end)
    return chosen


def _check_tail(
    files: PartitionFiles, end: Boundary, options: Options, *, is_below_committed: bool
) -> None:
    """Raise for damage without a sound batch after it, which no range would contain."""
    fault = tail_fault(files, end, options.validate)
    is_lost = is_below_committed or end.offset < files.recovery_point
    if fault is not None and (is_lost or fault.reason != "zero_tail"):
        file = max((one for one in files.segments if one.base_offset <= end.offset),
                   key=lambda one: one.base_offset)  # fmt: skip
        reason = f"{fault.reason}: {fault.detail}"
        raise CorruptSegmentError(file.path, fault.position, fault.base_offset, reason)


def initial_offset(options: Options) -> StreamOffset:
    """Start of a new query; the same as long as the files are.

    A start below the log's start is kept: the guards of the first micro-batch report it.

    Raises:
        BadInputError: as `replicas`, and an option names a partition that does not exist.
    """
    listed = discover(options.paths, include_hidden=options.include_hidden).partitions
    check_named([(found.topic, found.partition) for found in listed], options)
    points = {}
    for key, replica in replicas(options).items():
        points[key] = _first_point(replica, options)
    return encode_offset(points)


def latest_offset(
    start: StreamOffset,
    options: Options,
    limit: Limit,
    targets: dict[tuple[str, int], int] | None = None,
) -> tuple[StreamOffset, list[Problem]]:
    """End of the next micro-batch: at batch boundaries, within the limit.

    Args:
        start: end of the last one.
        options: options of the query.
        limit: shared among the partitions in proportion to their lag; at least one batch each.
        targets: exclusive ends that must not be passed (trigger AvailableNow); partitions without
            one are not read.

    Returns:
        The end, and the skipped ranges (failOnDataLoss=false).

    Raises:
        DataLossError: a guard failed and failOnDataLoss is true.
    """
    current = replicas(options)
    points, problems = check_start(decode_offset(start), current, options)
    for key, replica in current.items():
        if key not in points and (targets is None or key in targets):
            points[key] = log_start_point(replica)  # a new partition is read from its start
    ends = {}
    for key, point in points.items():
        end = current[key].end.offset if key in current else point.offset
        if targets is not None:
            end = min(end, targets.get(key, point.offset))
        ends[key] = max(end, point.offset)
    lag = sum(ends[key] - point.offset for key, point in points.items())
    for key, point in points.items():
        behind = ends[key] - point.offset
        if behind > 0:
            share = _share(limit, behind, lag)
            points[key] = _advance(current[key], point, ends[key], share, options)
    return encode_offset(points), problems


def offset_count(start: StreamOffset, end: StreamOffset, options: Options) -> int:
    """Number of offsets of a micro-batch; a partition that is new in it begins at its log start."""
    starts = {key: point.offset for key, point in decode_offset(start).items()}
    ends = decode_offset(end)
    if ends.keys() - starts.keys():
        begins = {key: one.files.log_start_offset for key, one in replicas(options).items()}
        starts = begins | starts
    return sum(point.offset - starts.get(key, point.offset) for key, point in ends.items())


def check_start(
    start: dict[tuple[str, int], Point],
    current: dict[tuple[str, int], Replica],
    options: Options,
) -> tuple[dict[tuple[str, int], Point], list[Problem]]:
    """The points to continue from, after comparing them with the files on disk.

    Raises:
        DataLossError: truncation, retention, another topic or another history below a point, and
            failOnDataLoss is true.
    """
    points: dict[tuple[str, int], Point] = {}
    problems = []
    for key, point in start.items():
        problem = _problem(point, current.get(key), options.validate)
        if problem is None:
            points[key] = point
            continue
        if options.fail_on_data_loss:
            raise DataLossError(
                f"{point.topic}-{point.partition}: {problem.detail};"
                " failOnDataLoss=false skips what is missing"
            )
        problems.append(problem)
        if problem.resume is not None:
            points[key] = problem.resume
    return points, problems


def plan_batch(
    start: StreamOffset, end: StreamOffset, options: Options
) -> tuple[list[tuple[Piece, ...]], list[Problem]]:
    """The tasks of a micro-batch: whole batches of [start, end), the same at every replay.

    Raises:
        DataLossError: a guard failed, records are missing between two segments, or the log no
            longer reaches to the end.
    """
    current = replicas(options)
    first, problems = check_start(decode_offset(start), current, options)
    packs, gaps = packs_between(first, decode_offset(end), current, options)
    return packs, [*problems, *gaps]


def packs_between(
    first: dict[tuple[str, int], Point],
    end: dict[tuple[str, int], Point],
    current: dict[tuple[str, int], Replica],
    options: Options,
) -> tuple[list[tuple[Piece, ...]], list[Problem]]:
    """The tasks of whole batches between points, and the gaps between segments there.

    Args:
        first: points that `check_start` has passed; a partition without one begins at its log's
            start.
        end: ends, exclusive.
        current: the partitions.
        options: options of the query.

    Raises:
        DataLossError: as `plan_batch`, but for the guards.
    """
    packs: list[tuple[Piece, ...]] = []
    problems: list[Problem] = []
    for key, until in end.items():
        replica = current.get(key)
        if replica is None:
            continue  # check_start has reported it
        begin = first.get(key) or log_start_point(replica)
        if until.offset <= begin.offset:
            continue
        if replica.end.offset < until.offset and options.fail_on_data_loss:
            raise DataLossError(
                f"{replica.files.directory}: ends at {replica.end.offset}, below {until.offset}"
                " which was planned: the log was truncated"
            )
        for gap in _gaps(replica, begin.offset, until.offset):
            if options.fail_on_data_loss:
                raise DataLossError(f"{gap.detail}; failOnDataLoss=false skips what is missing")
            problems.append(gap)
        aborted: tuple[tuple[int, int, int], ...] = ()
        if options.isolation == "read_committed":
            aborted = transaction_state(replica.files.segments).aborted
        selection = RowSelection(include_control=options.include_control, aborted=aborted)
        packs += _packs(replica.files, begin.offset, until.offset, selection, options)
    return packs, problems


def _packs(
    files: PartitionFiles, start: int, end: int, selection: RowSelection, options: Options
) -> list[tuple[Piece, ...]]:
    """One task per segment part; it ends at the start of the batch at `end`, whatever follows.

    A segment with a successor at or below the end is read to its last byte. Only a start inside a
    batch selects by offset, all else by bytes: a batch with a wrong offset is not lost.
    """
    packs: list[tuple[Piece, ...]] = []
    segments = files.segments
    for index, file in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else None
        if (following is not None and following <= start) or file.base_offset >= end:
            continue
        first = locate(file, start, options.validate)
        is_whole = following is not None and following <= end
        last = file.size if is_whole else locate(file, end, options.validate)
        if first >= last:
            continue
        begin = next(walk_from(file, first, last, options.validate), None)
        is_inside = begin is not None and begin.base < start
        wanted = msgspec.structs.replace(selection, start=start if is_inside else 0)
        for low, high in _cut(first, last, file, options):
            packs.append((Piece(Split(file, low, high, start), wanted),))
    return packs


def _gaps(replica: Replica, start: int, end: int) -> list[Problem]:
    """Find records of [start, end) whose segment is missing."""
    found = []
    topic, partition = replica.key
    for before, after in itertools.pairwise(replica.files.segments):
        if replica.files.is_cleaned or not start < after.base_offset <= end:
            continue
        detail = gap_between(before, after)
        if detail is not None:
            resume = _point(replica, after.base_offset, NO_EPOCH)
            found.append(Problem(topic, partition, "gap", detail, resume))
    return found


def _cut(first: int, last: int, file: SegmentFile, options: Options) -> list[tuple[int, int]]:
    """Cut bytes of a file as a batch read cuts it: by its index, without reading them."""
    splits = plan_splits([file], options.max_split_bytes)
    cuts = [(max(first, one.start), min(last, one.end)) for one in splits]
    return [(low, high) for low, high in cuts if low < high]


def _readable_end(
    files: PartitionFiles, limit: int | None, options: Options
) -> tuple[Boundary, int | None]:
    """The last readable batch boundary, and the offset that limits it.

    It is the lower of `limit` and, for committed data, the last stable offset; else None.
    """
    if options.isolation == "read_committed":
        stable = transaction_state(files.segments).last_stable_offset
        if stable is not None:
            limit = stable if limit is None else min(limit, stable)
    return end_boundary(files, limit, options.validate), limit


def _first_point(replica: Replica, options: Options) -> Point:
    files = replica.files
    start = wanted_start(files, options)
    if start is None or start == files.log_start_offset:
        return log_start_point(replica)
    if start < files.log_start_offset:
        return _point(replica, start, NO_EPOCH)
    if start >= replica.end.offset:
        return _point(replica, replica.end.offset, replica.end.epoch)
    return _point(replica, start, epoch_before(files, start, options.validate))


def log_start_point(replica: Replica) -> Point:
    """The point before the first record that is not deleted."""
    return _point(replica, replica.files.log_start_offset, NO_EPOCH)


def _point(replica: Replica, offset: int, epoch: int) -> Point:
    topic, partition = replica.key
    return Point(topic, partition, replica.files.topic_id or "", offset, epoch)


def _problem(point: Point, replica: Replica | None, validate: str) -> Problem | None:
    """Reason why the partition cannot continue from its point; None if it can."""
    if replica is None:
        return Problem(point.topic, point.partition, "deleted", "the partition is gone", None)
    files, start = replica.files, log_start_point(replica)
    log_start = files.log_start_offset
    end = end_boundary(files, None, validate)
    found: tuple[str, str, Point] | None = None
    if files.topic_id is not None and point.topic_id and files.topic_id != point.topic_id:
        detail = f"topic id {point.topic_id} became {files.topic_id}: another topic of this name"
        found = "recreated", detail, start
    elif point.offset < log_start:
        detail = f"offset {point.offset} is below the log's start {log_start}: retention"
        found = "retention", detail, _point(replica, log_start, NO_EPOCH)
    elif point.offset > end.offset:
        detail = f"offset {point.offset} is above the log's end {end.offset}: truncation"
        found = "truncation", detail, _point(replica, end.offset, end.epoch)
    elif point.epoch != NO_EPOCH and point.offset > log_start:
        epoch = epoch_before(files, point.offset, validate)
        # the cleaner may have removed the batches of the last epochs before the point
        is_other = epoch > point.epoch if files.is_cleaned else epoch != point.epoch
        if is_other and epoch != NO_EPOCH:
            detail = (
                f"the record before offset {point.offset} has leader epoch {epoch}, not"
                f" {point.epoch}: the log was replaced by another history"
            )
            found = "divergence", detail, _point(replica, point.offset, epoch)
    return None if found is None else Problem(point.topic, point.partition, *found)


def _share(limit: Limit, behind: int, lag: int) -> Limit:
    """A partition's part of the limit, in proportion to its lag."""
    rows = None if limit.rows is None else max(1, limit.rows * behind // lag)
    size = None if limit.size_bytes is None else max(1, limit.size_bytes * behind // lag)
    return Limit(rows, size)


def _advance(replica: Replica, point: Point, end: int, share: Limit, options: Options) -> Point:
    """The furthest batch boundary within the share, at least one batch on."""
    whole = _point(replica, end, replica.end.epoch) if end == replica.end.offset else None
    if share.rows is None and share.size_bytes is None and whole is not None:
        return whole
    reached: Point | None = None
    size = 0
    segments = replica.files.segments
    for index, file in enumerate(segments):
        if file.base_offset >= end:
            break
        if index + 1 < len(segments) and segments[index + 1].base_offset <= point.offset:
            continue
        start = locate(file, point.offset, options.validate)
        for boundary in walk_from(file, start, file.size, options.validate):
            size += boundary.size
            over = boundary.offset > end
            over |= share.rows is not None and boundary.offset - point.offset > share.rows
            over |= share.size_bytes is not None and size > share.size_bytes
            if over and reached is not None:
                return reached
            if boundary.offset > end:
                return point
            reached = _point(replica, boundary.offset, boundary.epoch)
            if over:
                return reached
    return whole or reached or point
