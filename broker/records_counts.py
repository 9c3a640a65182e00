"""Counts of a broker's records as a value, for metrics that are read on another thread."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from broker.cleaning.cleaner_counts import CleanerCounts
from broker.clients.client_quotas import ClientQuotas, ClientRate
from broker.clients.request_metrics import KindCounts
from broker.coordinators.figures import GroupFigures, TransactionFigures
from replication.counters import Counters
from replication.leader.fetch_session import FetchSessionCache
from replication.throttle import ReplicationQuotas
from storage.checkpoints.recovery_points import TopicAndPartition
from storage.logs.unified_log import UnifiedLog

LOGS_MAX: Final = 250
"""Number of logs above which the sizes of each are not told: a series for each would be too many,
and to make them would hold up the thread of the records."""

CLIENTS_MAX: Final = 250
"""Number of clients of a quota whose rates are told."""


class DelayedCount(msgspec.Struct, frozen=True, gc=False):
    """Requests of one kind that wait."""

    watched: int
    """Once for each of their partitions (PurgatorySize)."""
    delayed: int
    """NumDelayedOperations."""


class SessionCount(msgspec.Struct, frozen=True, gc=False):
    """Fetch sessions."""

    open: int
    partitions: int
    evicted: int
    """Since the start."""


class LogSize(msgspec.Struct, frozen=True, gc=False):
    """One open log."""

    topic: str
    partition: int
    size_bytes: int
    log_start_offset: int
    log_end_offset: int
    segment_count: int
    producer_count: int


class QuotaRates(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of what has quotas."""

    clients: tuple[ClientRate, ...] = ()
    """At most 250 of each quota: those who were served last."""
    exempt_percent: float | None = None
    """Of a thread, for requests that are not throttled; None while time has no quota."""
    leader: float | None = None
    """Bytes per second of throttled replicas that followers fetch; None without a throttle."""
    follower: float | None = None
    """The same, that followers here fetch."""


class RecordsCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the start, and numbers of what there is now."""

    counters: Counters
    """A copy."""
    requests: Mapping[tuple[int, int], int]
    """Requests about records since the start, by API key and version."""
    request_times: Mapping[int, KindCounts]
    """Those that were answered, by kind: API key, or FETCH_FOLLOWER."""
    request_errors: Mapping[tuple[int, int], int]
    """Errors in answers since the start, by API key and code; 0 is no error."""
    connections: Mapping[str, int]
    """Open ones by listener."""
    accepted: Mapping[str, int]
    """Those since the start, by listener."""
    queued_bytes: int
    """Bytes of requests that count for `queued.max.request.bytes`, those being received too."""
    queued_bytes_max: int
    """`queued.max.request.bytes`."""
    depleted_ns: int
    """Time since the start for which any connection waited for those bytes."""
    queued_requests: int
    """Requests that were received and not begun."""
    sessions: SessionCount
    offline_replicas: int
    offline_log_dirs: int
    remaining_logs: Mapping[str, int]
    """Logs that a start has not opened yet, by log directory."""
    remaining_segments: Mapping[tuple[str, int], int]
    """Segments that the recovery of a log has not checked yet, by log directory and thread."""
    produce: DelayedCount
    fetch: DelayedCount
    delete_records: DelayedCount
    replica_lag_max: int
    """Records that the replica which is furthest behind its leader lacks; 0 without one."""
    failed_partitions: int
    """Followers that do not fetch until their leader epoch changes."""
    late_transactions: int
    """Partitions led here with a transaction that should have been ended long ago."""
    quotas: QuotaRates
    cleaner: CleanerCounts
    groups: GroupFigures
    transactions: TransactionFigures
    logs: tuple[LogSize, ...] | None
    """Sorted; None for more than 250."""
    longest_turn_ns: float = math.nan
    """CPU of the longest turn of the driver in the last 30 to 60 s, which it adds; NaN without."""
    longest_turn_ever_ns: int = 0
    """The same, since the start."""


def session_count(sessions: FetchSessionCache) -> SessionCount:
    """Numbers of fetch sessions."""
    return SessionCount(len(sessions), sessions.partition_count, sessions.eviction_count)


def quota_rates(clients: ClientQuotas, throttles: ReplicationQuotas) -> QuotaRates:
    """Rates of the clients served last, and of throttled replication."""
    leader, follower = throttles.leader, throttles.follower
    return QuotaRates(
        clients=tuple(clients.rates(CLIENTS_MAX)),
        exempt_percent=clients.exempt_percent,
        leader=leader.per_second if leader.is_used else None,
        follower=follower.per_second if follower.is_used else None,
    )


def log_sizes(logs: Iterable[tuple[TopicAndPartition, UnifiedLog]]) -> tuple[LogSize, ...]:
    """Sizes of open logs, by topic and number."""
    return tuple(
        LogSize(
            *name,
            size_bytes=log.log.size_bytes,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.end_offset,
            segment_count=len(log.log.segments),
            producer_count=len(log.producers),
        )
        for name, log in sorted(logs, key=lambda each: each[0])
    )
