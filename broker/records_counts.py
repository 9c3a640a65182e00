"""Counts of a broker's records as a value, for metrics that are read on another thread."""

import math
from collections.abc import Mapping
from copy import copy
from heapq import nlargest
from typing import Final

import msgspec

from broker.cleaning.cleaner_counts import CleanerCounts
from broker.clients.client_quotas import ClientQuotas, ClientRate
from broker.clients.request_metrics import KindCounts
from broker.coordinators.figures import GroupFigures, TransactionFigures
from broker.largest_logs import LogSizes
from broker.replicas.log_flushes import FlushCounts
from metadata.image import Image
from replication.counters import Counters
from replication.leader.fetch_session import FetchSessionCache
from replication.throttle import ReplicationQuotas
from wire.types import TopicId

TOPICS_MAX: Final = 250
"""Number of topics whose counts are told."""

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


class TopicCounts(msgspec.Struct, frozen=True, gc=False):
    """The counts of one topic, copied."""

    topic: str
    counters: Counters


class TopicsCounted(msgspec.Struct, frozen=True, gc=False):
    """Topics of which anything was counted: those with the most bytes, at most 250."""

    told: tuple[TopicCounts, ...] = ()
    left_out: int = 0
    """Number of the others."""


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
    """A copy, of all topics."""
    topics: TopicsCounted
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
    failed_log_dirs: frozenset[str]
    """Log directories that are offline."""
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
    logs: LogSizes
    flushes: FlushCounts = FlushCounts()
    longest_turn_ns: float = math.nan
    """CPU of the longest turn of the driver in the last 30 to 60 s, which it adds; NaN without."""
    longest_turn_ever_ns: int = 0
    """The same, since the start."""
    idle_of_turns: float = math.nan
    """Share of the time of late in which its thread was in no turn; the driver adds it too."""
    idle_of_cpu: float = math.nan
    """The same, in which it used no CPU."""


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


def topic_counts(counters: Counters, image: Image) -> TopicsCounted:
    """The counts of the topics with the most bytes in and out; those that are gone are dropped.

    What comes behind a deletion, as a read that had waited, may have counted for it once more.
    """
    counters.forget([each for each in counters.topics if each not in image.topics])
    topics = counters.topics.items()
    told = nlargest(TOPICS_MAX, topics, key=_bytes_of) if len(topics) > TOPICS_MAX else topics
    return TopicsCounted(
        tuple(TopicCounts(image.topics[topic_id].name, copy(found)) for topic_id, found in told),
        max(0, len(topics) - TOPICS_MAX),
    )


def _bytes_of(item: tuple[TopicId, Counters]) -> int:
    return item[1].bytes_in + item[1].bytes_out
