"""The partitions of a follower's session to which nothing happens: its requests pass them by.

A Fetch names all partitions that a follower has here, by its session, and most have nothing new.
One that was read twice at the same end, in the same state, is held: later requests of the session
do not look at it, until something happens to it. Who follows what happens to partitions, as a
parked Fetch does, calls `release`; the parked one then takes it as if it had been named.

What a held partition depends on beside such events is the basis of the session: it is looked at by
each request, and by another one all are read again. So they are after `LOOK_MS`, for what no event
tells: a segment that was closed without a record.

apache/kafka: core/.../server/FetchSession.scala (a response has no row of an unchanged partition),
ReplicaManager.scala (`fetchMessages` reads all of them)
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from replication.leader.session_partition import SessionPartition
from wire.types import BrokerEpoch, NodeId, TopicId, TopicIdPartition

if TYPE_CHECKING:
    from replication.leader.fetches import ParkedFetch
    from replication.leader.fetching import PartitionRead

LOOK_MS: Final = 1_000
"""Time after which a request reads all partitions again."""


class Basis(msgspec.Struct, frozen=True):
    """Facts that the held partitions of a session have in common."""

    replica_id: NodeId
    """The follower."""
    replica_epoch: BrokerEpoch | None
    """Of its requests."""
    image_number: int
    """Of the metadata, counted by this broker."""


class Held(msgspec.Struct, frozen=True):
    """A partition that requests pass by."""

    read: "PartitionRead"
    """The last, at the end of its log."""
    since: int
    """Requests of the session before the first that passed it by."""


class QuietPartitions:
    """Those of one session.

    Args:
        partitions: of the session.
        looked_at: those that requests look at, in order; a partition that is released is the last.
    """

    __slots__ = (
        "_looked_at",
        "_looked_ms",
        "_partitions",
        "basis",
        "held",
        "last_fetch_ms",
        "missed",
        "parked",
        "passed",
        "request_count",
    )

    def __init__(
        self,
        partitions: Mapping[tuple[str | bytes, int], SessionPartition],
        looked_at: dict[tuple[str | bytes, int], SessionPartition],
    ) -> None:
        self._partitions = partitions
        self._looked_at = looked_at
        self.basis: Basis | None = None
        self.held: dict[TopicIdPartition, Held] = {}
        self.parked: ParkedFetch | None = None
        """The last request, from the time on that events reach it; None before, and for one that
        was answered at once."""
        self.missed: list[PartitionRead] = []
        """Reads of held partitions to which something happened while that is None."""
        self.request_count = 0
        self.last_fetch_ms = 0
        """Instant of the last request."""
        self.passed: dict[TopicId, int] = {}
        """By topic of partitions that were held: requests that passed each by, in sum."""
        self._looked_ms = 0

    def begin(self, basis: Basis | None, now_ms: int) -> None:
        """Take another request; None for one that may hold nothing."""
        if basis != self.basis or now_ms - self._looked_ms >= LOOK_MS:
            for key in tuple(self.held):
                self.release(key)
            self.basis, self._looked_ms = basis, now_ms
        self.parked = None
        self.missed.clear()
        self.request_count += 1
        self.last_fetch_ms = now_ms

    def hold(self, read: "PartitionRead") -> bool:
        """Hold a partition whose read repeats the one before; False if its row is to be sent."""
        assert self.basis is not None, "who may not follow reads nothing"
        row = read.row
        known = self._partitions.get((row.topic, row.partition))
        if known is None or known.is_changed(row):
            return False
        key = read.wanted.key
        self.held[key] = Held(read, self.request_count)
        self._looked_at.pop(key, None)
        return True

    def release(self, key: TopicIdPartition) -> Held | None:
        """Let requests look at a partition again; None if they do."""
        held = self.held.pop(key, None)
        if held is not None:
            passed = self.passed
            passed[key[0]] = passed.get(key[0], 0) + self.request_count - held.since
            self._looked_at[key] = self._partitions[key]
        return held
