"""The requests of one kind that wait for partitions, and how they end.

apache/kafka: core/.../server/DelayedOperation.scala (`DelayedOperationPurgatory`)
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

from network.clock import Clock
from replication.leader.purgatory import Attempt, DelayedOperation, Purgatory, Watched
from wire.types import TopicIdPartition

Withdraw = Callable[[], None]
"""Ends a request that waits, whose client has gone: it is not answered."""
WAIT_MS_MAX: Final = 600_000
"""Longest wait of a request, whatever it asks for: Kafka closes its connection as idle by then
(`connections.max.idle.ms`). A connection that is not read does not tell when its client goes."""

Operation = TypeVar("Operation", bound=DelayedOperation[TopicIdPartition])


class Waiting(Generic[Operation]):
    """Requests of one kind.

    Args:
        clock: of the broker.
        end: answers a request whose wait is over.
        due: takes those whose wait is over by an event or its deadline, which are to be answered
            soon; None to answer them at once.
    """

    def __init__(
        self,
        clock: Clock,
        end: Callable[[Operation], None],
        due: deque[Operation] | None = None,
    ) -> None:
        self._clock = clock
        self._end = end
        self._due = due
        self._end_later = end if due is None else due.append
        self._purgatory: Purgatory[TopicIdPartition, Operation] = Purgatory()

    @property
    def delayed_count(self) -> int:
        """Requests that wait."""
        return self._purgatory.delayed_count

    @property
    def watched_count(self) -> int:
        """Requests that wait, once for each of their partitions."""
        return self._purgatory.watched_count

    def add(
        self, operation: Operation, keys: Iterable[TopicIdPartition], wait_ms: int
    ) -> Withdraw | None:
        """End a request that is complete; else let it wait. None if it has ended.

        Args:
            operation: the request.
            keys: its partitions.
            wait_ms: after which it ends as it is.
        """
        deadline_ms = self._clock.now_ms + min(wait_ms, WAIT_MS_MAX)
        watched = self._purgatory.try_complete_else_watch(operation, keys, deadline_ms)
        if watched is None:
            self._end(operation)
            return None
        return partial(self.cancel, watched)

    def add_extended(
        self, operation: Operation, keys: Iterable[TopicIdPartition], wait_ms: int
    ) -> Watched[TopicIdPartition, Operation] | None:
        """As `add`, of a request that `extend` may bring partitions; what to `cancel`."""
        deadline_ms = self._clock.now_ms + min(wait_ms, WAIT_MS_MAX)
        watched = self._purgatory.try_complete_else_watch(
            operation, keys, deadline_ms, is_extended=True
        )
        if watched is None:
            self._end(operation)
        return watched

    def extend(
        self, watched: Watched[TopicIdPartition, Operation], key: TopicIdPartition
    ) -> Operation | None:
        """Let a request wait for one more partition; None if it does, or its wait is over."""
        return watched.operation if self._purgatory.extend(watched, key) else None

    def open(self, operation: Operation) -> Watched[TopicIdPartition, Operation]:
        """Take a request whose partitions come one after the other, and then `close`."""
        return self._purgatory.open(operation)

    def watch(
        self, watched: Watched[TopicIdPartition, Operation], keys: Sequence[TopicIdPartition]
    ) -> None:
        """Let an open request look at more of its partitions, and follow them."""
        self._purgatory.watch(watched, keys)

    def close(
        self,
        watched: Watched[TopicIdPartition, Operation],
        wait_ms: int,
        *,
        is_extended: bool = False,
    ) -> Withdraw | None:
        """End an open request that is complete; else let it wait from now on, as `add`."""
        deadline_ms = self._clock.now_ms + min(wait_ms, WAIT_MS_MAX)
        if self._purgatory.close(watched, deadline_ms, is_extended=is_extended):
            self._end(watched.operation)
            return None
        return partial(self.cancel, watched)

    def cancel(self, watched: Watched[TopicIdPartition, Operation]) -> None:
        """End a request without an answer; nothing if it is answered."""
        if self._due is not None and not watched.is_watched and watched.operation in self._due:
            self._due.remove(watched.operation)
        self._purgatory.cancel(watched)

    def is_watched(self, key: TopicIdPartition) -> bool:
        """True if a request waits for a partition."""
        return self._purgatory.is_watched(key)

    def check(self, key: TopicIdPartition, attempt: Attempt[Operation] | None = None) -> None:
        """Try those that wait for a partition, by `attempt` or as for any event."""
        for operation in self._purgatory.check(key, attempt):
            self._end_later(operation)

    def check_all(self, keys: Iterable[TopicIdPartition]) -> None:
        """As `check`, of the partitions of one image: each request is tried once."""
        for operation in self._purgatory.check_all(keys):
            self._end_later(operation)

    def expire(self) -> list[Operation]:
        """End those whose deadline has come; return them."""
        expired = self._purgatory.expire(self._clock.now_ms)
        for operation in expired:
            self._end_later(operation)
        return expired

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, None if no request waits."""
        return self._purgatory.next_deadline_ms()
