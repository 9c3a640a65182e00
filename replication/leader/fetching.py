"""Reads of the partitions of a Fetch, in order, within the bytes of its response.

apache/kafka: core/.../server/ReplicaManager.scala (readFromLog)
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from replication.leader.appending import DISK_ERRORS
from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.leadership import UNCHANGED, Changed, Leadership
from replication.leader.quiet_reads import QuietRead, Repeats, kept, repeats_of
from replication.leader.replica_selector import ReplicaSelector
from replication.log_offsets import LogOffsetMetadata
from replication.partition import Partition
from replication.reading import Fetched
from replication.throttle import ReplicationQuota
from storage.errors import CorruptLogError
from storage.logs.tail import HeldBatch
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.segments.file_slice import FileSlice
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition
from wire.types import NodeId, TopicIdPartition


class WantedPartition(msgspec.Struct, frozen=True, gc=False):
    """A partition of a Fetch."""

    key: TopicIdPartition
    topic: str | bytes
    """Name or id, as request and response have it."""
    request: FetchPartition


class PartitionRead(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a Fetch response, with the records that stand behind it."""

    wanted: WantedPartition
    row: FetchedPartition
    records: FileSlice | HeldBatch | None = None
    """Records, which are closed by the receiver of the read."""
    start: LogOffsetMetadata | None = None
    """Place of the fetch offset; None beside an error."""
    changed: Changed = UNCHANGED
    is_at_end: bool = False
    """True if the reader has the log to its end: there is nothing to read."""
    failure: Exception | None = None
    """Of `DISK_ERRORS`: the log directory has failed."""


class ReadRules(msgspec.Struct, frozen=True):
    """The replica for a consumer, and the quota of followers."""

    quota: ReplicationQuota
    selector: ReplicaSelector | None = None
    """Of the replicas that consumers read from; None for the leader."""


PartitionOf = Callable[[TopicIdPartition], Partition | ErrorCode]
IsThrottled = Callable[[TopicIdPartition, NodeId], bool]


class ReadFrom(msgspec.Struct, frozen=True):
    """The partitions, replicas and throttles that reads look at."""

    partition_of: PartitionOf
    """A partition of this broker, or why there is none."""
    selector: ReplicaSelector | None
    """Of the replicas that consumers read from; None for the leader."""
    is_throttled: IsThrottled
    """Tells whether a follower gets no records of a partition now."""


def read_partitions(
    read_from: ReadFrom,
    params: FetchParams,
    wanted: Iterable[WantedPartition],
    *,
    max_bytes: int,
    now_ms: int,
    updates_replicas: bool,
    at_least_one: bool = True,
    repeated: list[PartitionRead],
) -> list[PartitionRead]:
    """Read partitions one after the other; the first records may exceed `max_bytes`.

    Args:
        read_from: partitions, other replicas, throttles.
        params: of the request.
        wanted: its partitions.
        max_bytes: of all records.
        now_ms: instant of the request.
        updates_replicas: False when a fetch that has waited is read again.
        at_least_one: False behind records of the same response: none may exceed `max_bytes`.
        repeated: takes the reads that are the one before, at the same end in the same state.
    """
    partition_of, selector = read_from.partition_of, read_from.selector
    reads: list[PartitionRead] = []
    follower_id = params.replica_id
    repeats: Repeats[PartitionRead] | None = (
        repeats_of(params, now_ms, repeated) if updates_replicas else None
    )
    for each in wanted:
        partition = partition_of(each.key)
        if repeats is not None:
            role = None if isinstance(partition, ErrorCode) else partition.role
            again = repeats.read(role, each)
            if again is not None:
                reads.append(again)
                continue
        try:
            read = _read_elsewhere(partition, params, each, selector) or _read(
                partition,
                params,
                each,
                max_bytes=min(max_bytes, each.request.max_bytes),
                at_least_one=at_least_one,
                now_ms=now_ms,
                updates_replica=updates_replicas,
            )
        except CorruptLogError:
            read = _without_read(each, ErrorCode.corrupt_message)
        except DISK_ERRORS as error:
            read = _without_read(each, ErrorCode.kafka_storage_error, error)
        if follower_id is not None:
            if read.records is not None:
                read = _without_throttled(read, follower_id, read_from.is_throttled)
            elif updates_replicas and read.is_at_end and read.changed == UNCHANGED:
                _keep(partition, params, follower_id, replace(read, changed=UNCHANGED))
        reads.append(read)
        if read.row.records_bytes:
            at_least_one = False
            max_bytes = max(0, max_bytes - read.row.records_bytes)
    return reads


def _keep(
    partition: Partition | ErrorCode, params: FetchParams, follower_id: NodeId, read: PartitionRead
) -> None:
    """Keep a read at the end of a log, if it may be repeated."""
    assert isinstance(partition, Partition), f"{partition=} was read"
    leader, wanted = partition.role, read.wanted
    assert isinstance(leader, Leadership), f"{leader=} took a follower's fetch"
    quiet = kept(leader, read, params, wanted)
    if quiet is not None:
        by_follower: dict[NodeId, QuietRead[PartitionRead]] = leader.quiet_reads
        by_follower[follower_id] = quiet


def close_records(reads: Sequence[PartitionRead]) -> None:
    """Close the handles of records that are not sent."""
    for read in reads:
        if read.records is not None:
            read.records.close()


def _without_throttled(
    read: PartitionRead, follower_id: NodeId, is_throttled: IsThrottled
) -> PartitionRead:
    """The read, without its records if the follower is throttled."""
    if not is_throttled(read.wanted.key, follower_id):
        return read
    close_records((read,))
    return replace(read, row=replace(read.row, records_bytes=0), records=None)


def _without_read(
    wanted: WantedPartition, code: ErrorCode, failure: Exception | None = None
) -> PartitionRead:
    row = FetchedPartition(topic=wanted.topic, partition=wanted.key[1], code=code)
    return PartitionRead(wanted=wanted, row=row, failure=failure)


def _read_elsewhere(
    partition: Partition | ErrorCode,
    params: FetchParams,
    wanted: WantedPartition,
    selector: ReplicaSelector | None,
) -> PartitionRead | None:
    """The row that sends a consumer to another replica, without records; None to read here."""
    reader = params.reader
    if selector is None or reader is None or isinstance(partition, ErrorCode):
        return None
    leader, log = partition.leadership, partition.log
    if isinstance(leader, ErrorCode):
        return None
    preferred = selector.preferred(reader, leader, wanted.request.fetch_offset)
    if preferred is None:
        return None
    code = partition.check_current_leader_epoch(wanted.request.current_leader_epoch)
    if code is not ErrorCode.none:
        return _without_read(wanted, code)
    assert log is not None, "a leader has a log"
    row = FetchedPartition(
        topic=wanted.topic,
        partition=wanted.key[1],
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        preferred_read_replica=preferred,
    )
    return PartitionRead(wanted=wanted, row=row)


def _read(
    partition: Partition | ErrorCode,
    params: FetchParams,
    wanted: WantedPartition,
    *,
    max_bytes: int,
    at_least_one: bool,
    now_ms: int,
    updates_replica: bool,
) -> PartitionRead:
    if isinstance(partition, ErrorCode):
        return _without_read(wanted, partition)
    fetched = partition.fetch(
        params,
        wanted.request,
        max_bytes=max_bytes,
        at_least_one=at_least_one,
        now_ms=now_ms,
        updates_replica=updates_replica,
    )
    if isinstance(fetched, ErrorCode):
        return _without_read(wanted, fetched)
    records, diverging = fetched.records, fetched.diverging_epoch
    aborted: tuple[tuple[int, int], ...] | None = None
    if params.isolation is FetchIsolation.TXN_COMMITTED and diverging is None:
        assert partition.log is not None, "what was read has a log"
        aborted = _aborted_transactions(partition.log, wanted.request.fetch_offset, fetched)
    row = FetchedPartition(
        topic=wanted.topic,
        partition=wanted.key[1],
        high_watermark=fetched.high_watermark,
        last_stable_offset=fetched.last_stable_offset,
        log_start_offset=fetched.log_start_offset,
        diverging_epoch=None if diverging is None else (diverging.epoch, diverging.offset),
        aborted_transactions=aborted,
        records_bytes=0 if records is None else records.size_bytes,
    )
    return PartitionRead(
        wanted=wanted,
        row=row,
        records=records,
        start=fetched.start,
        changed=fetched.changed,
        is_at_end=diverging is None and fetched.start.offset == fetched.log_end_offset,
    )


def _aborted_transactions(
    log: UnifiedLog, offset: int, fetched: Fetched
) -> tuple[tuple[int, int], ...]:
    """Producers and first offsets of the aborted transactions that records may belong to.

    The records end at the last stable offset and on one segment, and these are the bounds; Kafka
    looks up a closer one in the offset index. A client ignores transactions behind its records.
    """
    records = fetched.records
    if records is None:
        return ()
    upper_offset = int(fetched.last_stable_offset)
    segments = log.log.segments
    above = bisect_right(segments, records.segment_base_offset, key=lambda each: each.base_offset)
    if above < len(segments):
        upper_offset = min(upper_offset, segments[above].base_offset)
    try:
        aborted = log.aborted_transactions(offset, upper_offset)
    except OSError:
        records.close()
        raise
    return tuple((each.producer_id, each.first_offset) for each in aborted)
