"""The condition that a Fetch waits for: `min_bytes` to read, or a partition to be answered.

What each partition had to read is kept: an event of one of a thousand partitions looks at one.

apache/kafka: core/.../server/DelayedFetch.scala, ReplicaManager.scala (fetchMessages)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from replication.leader.fetch_params import FetchParams
from replication.leader.fetch_session import FetchPartition
from replication.leader.fetching import (
    IsThrottled,
    PartitionOf,
    PartitionRead,
    WantedPartition,
)
from replication.log_offsets import LogOffsetMetadata
from replication.partition import Partition
from storage.logs.unified_log import FetchIsolation
from wire.errors import ErrorCode
from wire.messages.fetch_response import FetchedPartition
from wire.types import OffsetAndEpoch, TopicIdPartition

Request = TypeVar("Request")


class FetchStatus(msgspec.Struct, frozen=True, gc=False):
    """A partition of a Fetch that found too little to read."""

    start: LogOffsetMetadata | None
    """Place of the fetch offset; None if the read did not get so far."""
    request: FetchPartition


def is_answered_at_once(
    params: FetchParams,
    rows: Sequence[FetchedPartition],
    before_bytes: int = 0,
    *,
    passes_by: bool = False,
) -> bool:
    """True if a Fetch that read these rows, and records before them, does not wait for more.

    Without any row it waits if it passes other partitions by, to which nothing happened.
    """
    if params.max_wait_ms <= 0 or not (rows or passes_by):
        return True
    records_bytes = before_bytes
    for row in rows:
        if (
            row.code is not ErrorCode.none
            or row.diverging_epoch is not None
            or row.preferred_read_replica != -1
        ):
            return True
        records_bytes += row.records_bytes
    return records_bytes >= params.min_bytes


def fetchable_bytes(
    params: FetchParams,
    partition: Partition | ErrorCode,
    status: FetchStatus,
    *,
    is_throttled: bool,
) -> int | None:
    """Bytes that a parked Fetch could read of a partition; None if it is to be answered.

    It is answered if the log may not be read (another leader, epoch, directory) or was cut below
    the fetch offset, if the offset lies on another segment than the end, or if the follower has to
    truncate. A throttled follower reads nothing, and no segment is a reason to answer it.
    """
    start, request = status.start, status.request
    if start is None:
        return 0
    if isinstance(partition, ErrorCode):
        return None
    end = partition.end(
        params.isolation, request.current_leader_epoch, is_leader_only=params.is_leader_only
    )
    if isinstance(end, ErrorCode):
        return None
    if start.offset > end.offset or _must_truncate(partition, request):
        return None
    if start.offset == end.offset or is_throttled:
        return 0
    readable = _bytes_between(start, end)
    return None if readable is None else min(readable, request.max_bytes)


def _must_truncate(partition: Partition, request: FetchPartition) -> bool:
    """True if the log of the follower diverges, or the end of its last epoch is unknown.

    The end of the last epoch is that of the log, above which the follower is not.
    """
    epoch = request.last_fetched_epoch
    if epoch is None or partition.is_last_epoch(epoch):
        return False
    known = partition.end_of_epoch(request.current_leader_epoch, epoch, is_leader_only=False)
    if not isinstance(known, OffsetAndEpoch):
        return True
    return known.epoch < epoch or known.offset < request.fetch_offset


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
    """A Fetch that waits until its partitions have `min_bytes`, or one is reason to answer.

    Args:
        request: what the caller answers.
        params: of the Fetch.
        statuses: its partitions.
        partition_of: a partition of this broker, or why there is none.
        is_throttled: tells whether a follower gets no records of a partition now.
    """

    __slots__ = (
        "_bytes_of",
        "_is_throttled",
        "_just_read",
        "_partition_of",
        "_statuses",
        "_throttled",
        "added",
        "held",
        "is_complete",
        "params",
        "readable_bytes",
        "request",
    )

    def __init__(
        self,
        request: Request,
        params: FetchParams,
        statuses: dict[TopicIdPartition, FetchStatus],
        partition_of: PartitionOf,
        is_throttled: IsThrottled,
    ) -> None:
        self.request = request
        self.params = params
        self._statuses = statuses
        self._partition_of = partition_of
        self._is_throttled = is_throttled
        self.held: dict[TopicIdPartition, PartitionRead] = {}
        """Reads of other partitions, at whose log end nothing has happened since."""
        self.added: list[WantedPartition] = []
        """Partitions that came behind those of the request."""
        self.is_complete = False
        """True from the try that found it so; its deadline may have come before."""
        self._just_read: Mapping[TopicIdPartition, PartitionRead] = {}
        """Those of them that were read in this step; the next try does not look at them."""
        self.readable_bytes = 0
        """Bytes that could be read when each partition was looked at last."""
        self._bytes_of: dict[TopicIdPartition, int] = {}
        """They by partition, where there are any."""
        self._throttled: dict[TopicIdPartition, None] = {}
        """Partitions of which the follower gets nothing until the quota has room: no event."""

    def add(
        self,
        statuses: Mapping[TopicIdPartition, FetchStatus],
        held: Mapping[TopicIdPartition, PartitionRead],
        just_read: Mapping[TopicIdPartition, PartitionRead] | None = None,
    ) -> None:
        """Take more partitions, which have just been read; they are tried next.

        Args:
            statuses: of those that are looked at.
            held: the reads of those at whose log end there is nothing more to read.
            just_read: of those at the end of what the request may read; None for `held`.
        """
        self._statuses.update(statuses)
        self.held.update(held)
        self._just_read = held if just_read is None else just_read

    def hold(self, read: PartitionRead) -> None:
        """Take a partition that the request passed by; what happens to it is tried next."""
        self.held[read.wanted.key] = read
        self.added.append(read.wanted)

    def try_complete(self, changed: Iterable[TopicIdPartition]) -> bool:
        """True if the request is to be read and answered.

        Args:
            changed: the partitions to look at; the others are as they were.
        """
        just_read, self._just_read = self._just_read, {}
        for key in (*changed, *self._released()):
            if key in just_read:
                continue
            self._let_go(key)
            readable = fetchable_bytes(
                self.params,
                self._partition_of(key),
                self._statuses[key],
                is_throttled=self._note_throttle(key),
            )
            if readable is None:
                self.is_complete = True
                break
            self.readable_bytes += readable - self._bytes_of.pop(key, 0)
            if readable:
                self._bytes_of[key] = readable
        self.is_complete |= self.readable_bytes >= self.params.min_bytes
        return self.is_complete

    def appended(self, key: TopicIdPartition) -> bool:
        """As `try_complete`, behind an append to a partition: what is committed did not change."""
        return self.params.isolation is FetchIsolation.LOG_END and self.try_complete((key,))

    def committed(self, key: TopicIdPartition) -> bool:
        """As `try_complete`, behind a rise of its high watermark: the log end did not change."""
        if self.params.isolation is FetchIsolation.LOG_END and not self._throttled:
            self._let_go(key)  # its row tells the watermark
            return False
        return self.try_complete((key,))

    def _let_go(self, key: TopicIdPartition) -> None:
        """Let a partition be looked at, and read again."""
        read = self.held.pop(key, None)
        if read is not None:
            self._statuses[key] = FetchStatus(read.start, read.wanted.request)

    def _note_throttle(self, key: TopicIdPartition) -> bool:
        replica_id = self.params.replica_id
        if replica_id is None or not self._is_throttled(key, replica_id):
            self._throttled.pop(key, None)
            return False
        self._throttled[key] = None
        return True

    def _released(self) -> Sequence[TopicIdPartition]:
        """The throttled partitions, if the first is throttled no more: they share the quota."""
        first, replica_id = next(iter(self._throttled), None), self.params.replica_id
        if first is None or replica_id is None or self._is_throttled(first, replica_id):
            return ()
        return tuple(self._throttled)
