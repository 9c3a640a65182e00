"""A replica of this broker as a value, for those who look at it from another thread.

Times are milliseconds since 1970, offsets are half-open ends. Long lists are cut to the newest, so
that to make a value takes the thread of the records a millisecond at most; nothing is read from the
disk for it.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, Literal

import msgspec

from network.clock import Clock
from replication.leader import isr
from replication.leader.isr import PendingExpandIsr, PendingShrinkIsr
from replication.leader.leadership import Leadership
from replication.leader.replica import ReplicaState
from replication.partition import Partition
from replication.roles import Following, Offline
from storage.logs.unified_log import UnifiedLog
from storage.producers.producer_entry import ProducerStateEntry
from wire.errors import ErrorCode
from wire.types import NodeId

SEGMENTS_MAX: Final = 500
PRODUCERS_MAX: Final = 500


class SegmentView(msgspec.Struct, frozen=True, kw_only=True):
    """A segment of a log."""

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int | None
    """Of its records; None while its indexes have not been read."""


class ProducerView(msgspec.Struct, frozen=True, kw_only=True):
    """An idempotent producer that wrote to a log."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None
    """First offset of its open transaction."""


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """The log of a replica."""

    log_dir: str | None
    log_start_offset: int
    high_watermark: int
    """At a follower what its leader told it."""
    last_stable_offset: int
    log_end_offset: int
    size_bytes: int
    segment_count: int
    segments: list[SegmentView]
    """The newest 500, in order."""
    producer_count: int
    producers: list[ProducerView]
    """The 500 that began to write last, by id."""


class FollowerView(msgspec.Struct, frozen=True, kw_only=True):
    """A follower at its leader; None for what it has not told yet."""

    id: int
    is_in_sync: bool
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    """Number of records up to the log end of the leader."""
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class LeadershipView(msgspec.Struct, frozen=True, kw_only=True):
    """The ISR of a partition and its followers, at the leader."""

    isr: list[int]
    """As the controller has it, by id."""
    pending: Literal["expand", "shrink"] | None
    """Change of the ISR that the controller has not answered."""
    maximal_isr: list[int]
    """With the replica that a pending change adds, by id."""
    min_insync_replicas: int
    """Of the topic, at most the number of replicas."""
    is_under_min_isr: bool
    epoch_start_offset: int
    followers: list[FollowerView]
    """By id."""


class ReplicaFetchView(msgspec.Struct, frozen=True, kw_only=True):
    """The fetching of a follower from its leader."""

    lag: int | None
    """Number of records up to the leader's high watermark; None before the first answer."""
    failure: str | None
    """Reason for which it has stopped until the leader epoch changes."""


class FutureLogView(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a log in the log directory that its replica moves to, behind its last step."""

    log_dir: str
    log_end_offset: int
    size_bytes: int
    lag: int
    """Number of records up to the end of the log; -1 while that is not open."""
    is_assigned: bool
    """True once the controller was told of the log directory."""


class LocalReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """The replica of a partition at this node."""

    role: Literal["leader", "follower", "offline"]
    error: str | None
    """Of an offline replica."""
    leader_id: int | None
    leader_epoch: int | None
    partition_epoch: int | None
    log: LogView | None
    """None while it is not open, or when its log directory has failed."""
    future_log: FutureLogView | None
    """None unless it moves to another log directory."""
    leadership: LeadershipView | None
    """None unless it leads."""
    fetching: ReplicaFetchView | None
    """None unless it follows."""


def replica_view(
    partition: Partition,
    node_id: NodeId,
    clock: Clock,
    *,
    log_dir: str | None,
    future_log: FutureLogView | None,
    fetching: ReplicaFetchView,
) -> LocalReplicaView:
    """View of a replica.

    Args:
        partition: of this broker.
        node_id: of this broker.
        clock: of the broker.
        log_dir: of the log, None if it is offline.
        future_log: copy of the log, None without one.
        fetching: what its fetcher knows, if it follows.
    """
    role, log = partition.role, partition.log
    leadership, leader_id = None, None
    name: Literal["leader", "follower", "offline"] = "offline"
    if isinstance(role, Leadership):
        assert log is not None, "a leader has a log"
        name, leader_id = "leader", node_id
        leadership = leadership_view(role, log.end_offset, clock)
    elif isinstance(role, Following):
        name, leader_id = "follower", role.leader_id
    return LocalReplicaView(
        role=name,
        error=_error_name(role.code) if isinstance(role, Offline) else None,
        leader_id=leader_id,
        leader_epoch=_or_none(partition.leader_epoch),
        partition_epoch=_or_none(partition.partition_epoch),
        log=None if log is None else log_view(log, log_dir),
        future_log=future_log,
        leadership=leadership,
        fetching=fetching if isinstance(role, Following) else None,
    )


def log_view(log: UnifiedLog, log_dir: str | None) -> LogView:
    """View of an open log."""
    segments, producers = log.log.segments, log.producers
    return LogView(
        log_dir=log_dir,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_end_offset=log.end_offset,
        size_bytes=log.log.size_bytes,
        segment_count=len(segments),
        segments=[
            SegmentView(
                base_offset=segment.base_offset,
                size_bytes=segment.size_bytes,
                largest_timestamp_ms=segment.known_largest_timestamp_ms,
            )
            for segment in islice(segments, max(0, len(segments) - SEGMENTS_MAX), None)
        ],
        producer_count=len(producers),
        producers=_producers(
            islice(producers.entries(), max(0, len(producers) - PRODUCERS_MAX), None)
        ),
    )


def _producers(entries: Iterable[ProducerStateEntry]) -> list[ProducerView]:
    views = [
        ProducerView(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp_ms=entry.last_timestamp_ms,
            transaction_start_offset=_or_none(entry.current_transaction_first_offset),
        )
        for entry in entries
    ]
    return sorted(views, key=lambda view: view.producer_id)


def leadership_view(role: Leadership, log_end_offset: int, clock: Clock) -> LeadershipView:
    """View of a partition at its leader."""
    pending: Literal["expand", "shrink"] | None = None
    if isinstance(role.state, PendingExpandIsr):
        pending = "expand"
    elif isinstance(role.state, PendingShrinkIsr):
        pending = "shrink"
    return LeadershipView(
        isr=sorted(isr.committed_isr(role.state)),
        pending=pending,
        maximal_isr=sorted(isr.maximal_isr(role.state)),
        min_insync_replicas=role.effective_min_isr,
        is_under_min_isr=role.is_under_min_isr,
        epoch_start_offset=role.epoch_start_offset,
        followers=[
            _follower(
                replica_id,
                state,
                clock,
                is_in_sync=role.is_in_sync(replica_id),
                log_end_offset=log_end_offset,
            )
            for replica_id, state in sorted(role.replicas.items())
        ],
    )


def _follower(
    replica_id: NodeId, state: ReplicaState, clock: Clock, *, is_in_sync: bool, log_end_offset: int
) -> FollowerView:
    end = None if state.log_end is None else state.log_end.offset
    return FollowerView(
        id=replica_id,
        is_in_sync=is_in_sync,
        log_start_offset=state.log_start_offset,
        log_end_offset=end,
        lag=None if end is None else max(0, log_end_offset - end),
        last_fetch_ms=_wall_ms(state.last_fetch_ms, clock),
        last_caught_up_ms=_wall_ms(state.last_caught_up_ms, clock),
    )


def _wall_ms(at_ms: int | None, clock: Clock) -> int | None:
    """Wall clock at a monotonic instant."""
    return None if at_ms is None else clock.wall_ms - (clock.now_ms - at_ms)


def _error_name(code: ErrorCode) -> str:
    return code.name.upper()


def _or_none(number: int | None) -> int | None:
    """A number of the protocol, where -1 is none."""
    return None if number is None or number < 0 else number
