"""State of one follower at its leader, from its fetches: Kafka's ReplicaState.

A follower is caught up at an instant if it had fetched all that the leader had then. It stays in
sync for `replica.lag.time.max.ms` after the last such instant, also when it never reaches an end
that grows all the time: what the leader had at the previous fetch is enough.

apache/kafka: core/.../cluster/Replica.scala
"""

from typing import Protocol

import msgspec

from replication.log_offsets import LogOffsetMetadata
from wire.types import BrokerEpoch, Offset


class Registration(Protocol):
    """A registered broker, as the image has it."""

    @property
    def epoch(self) -> BrokerEpoch:
        """Of the registration."""
        ...

    @property
    def fenced(self) -> bool:
        """True without heartbeats."""
        ...

    @property
    def in_controlled_shutdown(self) -> bool:
        """True while it leaves in order."""
        ...


class ReplicaState(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A follower; as built, it has not fetched from this leader and was never caught up."""

    log_end: LogOffsetMetadata | None = None
    """Fetch offset of its last fetch, None before the first."""
    log_start_offset: Offset | None = None
    leader_end_offset: Offset | None = None
    """Log end offset of the leader at the last fetch."""
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None
    broker_epoch: BrokerEpoch | None = None
    """Of its last fetch, None if that had none."""

    def is_caught_up(self, leader_end_offset: Offset, now_ms: int, lag_ms_max: int) -> bool:
        """True if it has all, or had at some instant of the last `lag_ms_max`."""
        if self.log_end is not None and self.log_end.offset == leader_end_offset:
            return True
        caught_up_ms = self.last_caught_up_ms
        return caught_up_ms is not None and now_ms - caught_up_ms <= lag_ms_max

    def after_fetch(
        self,
        fetch_offset: LogOffsetMetadata,
        log_start_offset: Offset | None,
        *,
        leader_end_offset: Offset,
        broker_epoch: BrokerEpoch | None,
        now_ms: int,
    ) -> "ReplicaState":
        """State after a fetch, which acknowledges all below its offset.

        Args:
            fetch_offset: the log end of the follower.
            log_start_offset: of the follower, None if it does not say.
            leader_end_offset: log end of the leader when the fetch was read.
            broker_epoch: of the request, None if it has none; `is_stale` must be False for it.
            now_ms: instant of the request.
        """
        caught_up_ms = None
        before = self.leader_end_offset
        if fetch_offset.offset >= leader_end_offset:
            caught_up_ms = now_ms
        elif before is not None and fetch_offset.offset >= before:
            caught_up_ms = self.last_fetch_ms
        return ReplicaState(
            log_end=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=leader_end_offset
            if before is None
            else max(leader_end_offset, before),
            last_fetch_ms=now_ms,
            last_caught_up_ms=_later(caught_up_ms, self.last_caught_up_ms),
            broker_epoch=broker_epoch,
        )

    def reset(self, leader_end_offset: Offset, now_ms: int, *, is_in_sync: bool) -> "ReplicaState":
        """State when the same leader starts another epoch.

        A replica out of the ISR does not hold the high watermark back before it fetches.
        """
        started_ms = now_ms if is_in_sync else None
        return ReplicaState(
            log_end=self.log_end,
            log_start_offset=self.log_start_offset,
            leader_end_offset=leader_end_offset,
            last_fetch_ms=started_ms,
            last_caught_up_ms=started_ms,
            broker_epoch=self.broker_epoch,
        )

    def is_eligible(self, broker: Registration | None) -> bool:
        """True if the controller would take it into the ISR, whatever its log holds.

        Its broker is registered, not fenced and not leaving, and the last fetch is of this very
        registration, unless that fetch had no epoch.
        """
        return (
            self.log_end is not None
            and broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and self.broker_epoch in (None, broker.epoch)
        )


def new_replica(now_ms: int, *, is_in_sync: bool) -> ReplicaState:
    """State of a follower when a leadership starts; who is in the ISR gets the full lag time."""
    return ReplicaState(last_caught_up_ms=now_ms if is_in_sync else None)


def is_stale(broker_epoch: BrokerEpoch | None, broker: Registration | None) -> bool:
    """True for a fetch of an earlier registration: it is answered NOT_LEADER_OR_FOLLOWER."""
    return (
        broker_epoch is not None
        and broker is not None
        and not broker.fenced
        and broker_epoch < broker.epoch
    )


def _later(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return first if second is None else second
    return max(first, second)
