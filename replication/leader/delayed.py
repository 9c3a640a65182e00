"""Conditions on partitions that Produce with acks=-1 and DeleteRecords wait for.

Each condition is a function of an offset and of what the partition looks like now; each operation
holds the offsets of one request and is watched in a `purgatory.Purgatory` under its partitions.
`request` is what the caller answers when the operation ends; it is not looked at here.

Partitions are seen through a function that the caller gives: it answers with the error code where
there is none to look at (NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR).

apache/kafka: core/.../server/Delayed{Produce,DeleteRecords}.scala, Partition.scala
(checkEnoughReplicasReachOffset)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
from typing_extensions import override

from wire.errors import ErrorCode
from wire.types import Offset, TopicIdPartition

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


Awaited = Mapping[TopicIdPartition, AwaitedOffset]


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


class _Delayed(ABC, Generic[Request, Result]):
    """A request that waits until each of its partitions has a result."""

    __slots__ = ("_leader_of", "_pending", "request", "results")

    def __init__(self, request: Request, awaited: Awaited, leader_of: LeaderOf) -> None:
        self.request = request
        self._leader_of = leader_of
        self._pending: dict[TopicIdPartition, Offset] = {}
        self.results: dict[TopicIdPartition, Result] = {}
        """Result by partition: REQUEST_TIMED_OUT while there is none."""
        self.add(awaited)

    def add(self, awaited: Awaited) -> None:
        """Take more partitions."""
        for partition, each in awaited.items():
            if each.code is ErrorCode.none:
                self._pending[partition] = each.required_offset
                self.results[partition] = self._failed(ErrorCode.request_timed_out)
            else:
                self.results[partition] = self._failed(each.code)

    @abstractmethod
    def _result(self, required_offset: Offset, leader: Leader | ErrorCode) -> Result | None:
        """Result of a partition; None while the request must wait for it."""

    @abstractmethod
    def _failed(self, code: ErrorCode) -> Result:
        """Result of a partition with an error."""

    @property
    def pending(self) -> Sequence[TopicIdPartition]:
        """Partitions without a result, for ExpiresPerSec."""
        return tuple(self._pending)

    def try_complete(self, changed: Iterable[TopicIdPartition]) -> bool:
        """True if each partition has a result; one that has it keeps it.

        Args:
            changed: the partitions to look at; the others are as they were.
        """
        for partition in changed:
            required_offset = self._pending.get(partition)
            if required_offset is None:
                continue
            result = self._result(required_offset, self._leader_of(partition))
            if result is not None:
                self.results[partition] = result
                del self._pending[partition]
        return not self._pending


class DelayedProduce(_Delayed[Request, ErrorCode]):
    """A Produce with acks=-1 that waits until its records are committed."""

    __slots__ = ()

    @override
    def _result(self, required_offset: Offset, leader: Leader | ErrorCode) -> ErrorCode | None:
        return produce_code(required_offset, leader)

    @override
    def _failed(self, code: ErrorCode) -> ErrorCode:
        return code


class DelayedDeleteRecords(_Delayed[Request, DeletedRecords]):
    """A DeleteRecords that waits until every live replica has deleted."""

    __slots__ = ()

    @override
    def _result(self, required_offset: Offset, leader: Leader | ErrorCode) -> DeletedRecords | None:
        return delete_records_result(required_offset, leader)

    @override
    def _failed(self, code: ErrorCode) -> DeletedRecords:
        return DeletedRecords(code)
