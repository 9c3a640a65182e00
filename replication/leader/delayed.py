"""Conditions on partitions that Produce with acks=-1, Fetch and DeleteRecords wait for.

Each condition is a function of a status and of what the partition looks like now; each operation
holds the statuses of one request and is watched in a `purgatory.Purgatory` under its partitions.
`request` is what the caller answers when the operation ends; it is not looked at here.

Partitions are seen through functions that the caller gives: they answer with the error code where
there is none to look at (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR).

apache/kafka: core/.../server/Delayed{Produce,Fetch,DeleteRecords}.scala, Partition.scala
(checkEnoughReplicasReachOffset), ReplicaManager.scala (fetchMessages)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from replication.leader.fetch_session import FetchPartition
from replication.leader.replica_selector import Reader
from replication.log_offsets import LogOffsetMetadata, LogOffsetSnapshot
from storage.logs.unified_log import FetchIsolation
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition
from wire.types import BrokerEpoch, LeaderEpoch, NodeId, Offset, OffsetAndEpoch, TopicIdPartition

Request = TypeVar("Request")
Result = TypeVar("Result")


class Leader(Protocol):
    """A partition that this broker leads."""

    @property
    def high_watermark(self) -> Offset:
        """End of what is committed."""
        ...

    @property
    def low_watermark(self) -> Offset | None:
        """Smallest log start offset of the live replicas, None while one has not fetched."""
        ...

    @property
    def maximal_isr_size(self) -> int:
        """Number of replicas in the maximal ISR."""
        ...

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, at most the number of replicas."""
        ...


LeaderOf = Callable[[TopicIdPartition], Leader | ErrorCode]


class AwaitedOffset(msgspec.Struct, frozen=True, gc=False):
    """Offset that a partition must reach for a request, or the error of the partition."""

    required_offset: Offset
    """Any beside an error."""
    code: ErrorCode = ErrorCode.none


class DeletedRecords(msgspec.Struct, frozen=True, gc=False):
    """Result of DeleteRecords at a partition; the low watermark is None beside an error."""

    code: ErrorCode
    low_watermark: Offset | None = None


def produce_code(required_offset: Offset, leader: Leader | ErrorCode) -> ErrorCode | None:
    """Result of a Produce whose records end at an offset; None while it must wait.

    Records that are committed, while the ISR became too small, are answered with
    NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    """
    if isinstance(leader, ErrorCode):
        return leader
    if leader.high_watermark < required_offset:
        return None
    if leader.maximal_isr_size < leader.effective_min_isr:
        return ErrorCode.not_enough_replicas_after_append
    return ErrorCode.none


def delete_records_result(
    required_offset: Offset, leader: Leader | ErrorCode
) -> DeletedRecords | None:
    """Result of a DeleteRecords up to an offset; None while a live replica starts below it."""
    if isinstance(leader, ErrorCode):
        return DeletedRecords(leader)
    low_watermark = leader.low_watermark
    if low_watermark is None or low_watermark < required_offset:
        return None
    return DeletedRecords(ErrorCode.none, low_watermark)


class _Delayed(Generic[Request, Result]):
    """A request that waits until each of its partitions has a result."""

    __slots__ = ("_condition", "_leader_of", "_pending", "request", "results")

    def __init__(
        self,
        request: Request,
        statuses: Mapping[TopicIdPartition, AwaitedOffset],
        leader_of: LeaderOf,
        condition: Callable[[Offset, Leader | ErrorCode], Result | None],
        failed: Callable[[ErrorCode], Result],
    ) -> None:
        self.request = request
        self._leader_of = leader_of
        self._condition = condition
        self._pending: dict[TopicIdPartition, Offset] = {}
        self.results: dict[TopicIdPartition, Result] = {}
        """Result by partition: REQUEST_TIMED_OUT while there is none."""
        for partition, status in statuses.items():
            if status.code is ErrorCode.none:
                self._pending[partition] = status.required_offset
                self.results[partition] = failed(ErrorCode.request_timed_out)
            else:
                self.results[partition] = failed(status.code)

    @property
    def pending(self) -> Sequence[TopicIdPartition]:
        """Partitions without a result, for ExpiresPerSec."""
        return tuple(self._pending)

    def try_complete(self) -> bool:
        """True if each partition has a result; one that has it keeps it."""
        for partition, required_offset in tuple(self._pending.items()):
            result = self._condition(required_offset, self._leader_of(partition))
            if result is not None:
                self.results[partition] = result
                del self._pending[partition]
        return not self._pending


class DelayedProduce(_Delayed[Request, ErrorCode]):
    """A Produce with acks=-1 that waits until its records are committed."""

    __slots__ = ()

    def __init__(
        self,
        request: Request,
        statuses: Mapping[TopicIdPartition, AwaitedOffset],
        leader_of: LeaderOf,
    ) -> None:
        super().__init__(request, statuses, leader_of, produce_code, lambda code: code)


class DelayedDeleteRecords(_Delayed[Request, DeletedRecords]):
    """A DeleteRecords that waits until every live replica has deleted."""

    __slots__ = ()

    def __init__(
        self,
        request: Request,
        statuses: Mapping[TopicIdPartition, AwaitedOffset],
        leader_of: LeaderOf,
    ) -> None:
        super().__init__(request, statuses, leader_of, delete_records_result, DeletedRecords)


# --- Fetch


class FetchParams(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Parameters of a Fetch for all its partitions."""

    replica_id: NodeId | None
    """The follower; None for consumers."""
    replica_epoch: BrokerEpoch | None = None
    """Registration of the follower's broker; None if it does not say."""
    max_wait_ms: int
    min_bytes: int
    isolation: FetchIsolation
    is_leader_only: bool
    """False for consumers that may read from followers."""
    reader: Reader | None = None
    """The consumer, if another replica may be preferred for it."""


class FetchStatus(msgspec.Struct, frozen=True, gc=False):
    """A partition of a Fetch that found too little to read."""

    start: LogOffsetMetadata | None
    """Place of the fetch offset; None if the read did not get so far."""
    request: FetchPartition


class FetchedLogs(Protocol):
    """The partitions of this broker as a Fetch sees them."""

    def offset_snapshot(
        self,
        partition: TopicIdPartition,
        current_leader_epoch: LeaderEpoch | None,
        *,
        is_leader_only: bool,
    ) -> LogOffsetSnapshot | ErrorCode:
        """The ends of the log, or why it may not be read."""
        ...

    def end_of_epoch(
        self,
        partition: TopicIdPartition,
        current_leader_epoch: LeaderEpoch | None,
        epoch: LeaderEpoch,
    ) -> OffsetAndEpoch | None:
        """Largest epoch up to the one given, with its end offset; None if unknown, or an error."""
        ...

    def is_throttled(self, partition: TopicIdPartition, replica_id: NodeId) -> bool:
        """True if the replication quota is used up that the replica counts against here."""
        ...


def is_answered_at_once(params: FetchParams, rows: Sequence[FetchedPartition]) -> bool:
    """True if a Fetch that read these rows does not wait for more."""
    return (
        params.max_wait_ms <= 0
        or not rows
        or sum(row.records_bytes for row in rows) >= params.min_bytes
        or any(
            row.code is not ErrorCode.none
            or row.diverging_epoch is not None
            or row.preferred_read_replica != -1
            for row in rows
        )
    )


def fetchable_bytes(
    params: FetchParams, partition: TopicIdPartition, status: FetchStatus, logs: FetchedLogs
) -> int | None:
    """Bytes that a parked Fetch could read of a partition; None if it is to be answered.

    It is answered if the log may not be read (another leader, epoch, directory) or was cut below
    the fetch offset, if the offset lies on another segment than the end, or if the follower has to
    truncate. A throttled follower reads nothing, and no segment is a reason to answer it.
    """
    start, request = status.start, status.request
    if start is None:
        return 0
    snapshot = logs.offset_snapshot(
        partition, request.current_leader_epoch, is_leader_only=params.is_leader_only
    )
    if isinstance(snapshot, ErrorCode):
        return None
    end = _end(snapshot, params.isolation)
    if start.offset > end.offset or _must_truncate(partition, request, logs):
        return None
    replica_id = params.replica_id
    if start.offset == end.offset or (
        replica_id is not None and logs.is_throttled(partition, replica_id)
    ):
        return 0
    readable = _bytes_between(start, end)
    return None if readable is None else min(readable, request.max_bytes)


def _must_truncate(partition: TopicIdPartition, request: FetchPartition, logs: FetchedLogs) -> bool:
    """True if the log of the follower diverges, or the end of its last epoch is unknown."""
    last_fetched_epoch = request.last_fetched_epoch
    if last_fetched_epoch is None:
        return False
    known = logs.end_of_epoch(partition, request.current_leader_epoch, last_fetched_epoch)
    return known is None or known.epoch < last_fetched_epoch or known.offset < request.fetch_offset


def _end(snapshot: LogOffsetSnapshot, isolation: FetchIsolation) -> LogOffsetMetadata:
    match isolation:
        case FetchIsolation.LOG_END:
            return snapshot.log_end
        case FetchIsolation.HIGH_WATERMARK:
            return snapshot.high_watermark
        case FetchIsolation.TXN_COMMITTED:
            return snapshot.last_stable


def _bytes_between(start: LogOffsetMetadata, end: LogOffsetMetadata) -> int | None:
    """Bytes up to the end, 0 if unknown; None if they are not on one segment in this order.

    The start was looked up when the Fetch arrived: behind it the log of a follower may have been
    cut and grown again.
    """
    if start.place is None or end.place is None:
        return 0
    (start_segment, start_position), (end_segment, end_position) = start.place, end.place
    if start_segment != end_segment or start_position > end_position:
        return None
    return end_position - start_position


class DelayedFetch(Generic[Request]):
    """A Fetch that waits until its partitions have `min_bytes`, or one is reason to answer."""

    __slots__ = ("_logs", "_statuses", "params", "request")

    def __init__(
        self,
        request: Request,
        params: FetchParams,
        statuses: Mapping[TopicIdPartition, FetchStatus],
        logs: FetchedLogs,
    ) -> None:
        self.request = request
        self.params = params
        self._statuses = statuses
        self._logs = logs

    def try_complete(self) -> bool:
        """True if the request is to be read and answered."""
        readable = 0
        for partition, status in self._statuses.items():
            of_partition = fetchable_bytes(self.params, partition, status, self._logs)
            if of_partition is None:
                return True
            readable += of_partition
        return readable >= self.params.min_bytes
