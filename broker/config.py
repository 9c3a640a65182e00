"""Settings of the records of a broker; the driver makes them from those of the node.

The name of a field is Kafka's key, with the unit as suffix; the defaults are Kafka's. The keys of
topics are read from the image with `properties` below them (`topic_settings`).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from coordinator.group.config import GroupCoordinatorConfig
from coordinator.transaction.config import TransactionsConfig
from network.sampled_rate import QuotaWindow
from quorum_controller.security.authorization import AccessRules
from replication.follower.follower_broker import ReplicaFetchConfig
from wire.types import DirectoryId, NodeId

FETCH_BYTES_MAX: Final = 55 * 1024 * 1024


class UpkeepConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Intervals at which logs are looked after."""

    initial_delay_ms: int = 30_000
    """`log.initial.task.delay.ms`: before the first of each."""
    retention_check_ms: int = 300_000
    """`log.retention.check.interval.ms`"""
    flush_check_ms: int = (1 << 63) - 1
    """`log.flush.scheduler.interval.ms`"""
    recovery_point_ms: int = 60_000
    """`log.flush.offset.checkpoint.interval.ms`"""
    log_start_ms: int = 60_000
    """`log.flush.start.offset.checkpoint.interval.ms`"""
    high_watermark_ms: int = 5_000
    """`replica.high.watermark.checkpoint.interval.ms`"""
    producer_check_ms: int = 600_000
    """`producer.id.expiration.check.interval.ms`"""
    recovery_threads: int = 2
    """`num.recovery.threads.per.data.dir`"""
    producer_expiration_ms: int = 86_400_000
    """`producer.id.expiration.ms`"""


class RecordsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the records of one broker."""

    node_id: NodeId
    log_dirs: tuple[str, ...]
    directory_ids: Mapping[str, DirectoryId]
    """Id of every log directory, by path."""
    inter_broker_listener: str
    properties: tuple[tuple[str, str], ...] = ()
    """Every key and value of the node as given, sorted by key."""
    access: AccessRules | None = None
    rack: str | None = None
    request_bytes_max: int = 100 * 1024 * 1024
    """`socket.request.max.bytes`"""
    idle_ms_max: int = 600_000
    """`connections.max.idle.ms`, by which the kernel closes connections; 0 for no limit."""
    queued_bytes_max: int = 64 * 1024 * 1024
    """`queued.max.request.bytes`; its default -1 means this bound."""
    replica_lag_ms_max: int = 30_000
    """`replica.lag.time.max.ms`"""
    fetch_bytes_max: int = FETCH_BYTES_MAX
    """`fetch.max.bytes`: of a response, above which no request may ask."""
    reads_in_rack: bool = False
    """True for a `replica.selector.class` that sends consumers to a replica in their rack."""
    fetch_session_slots: int = 1000
    """`max.incremental.fetch.session.cache.slots`"""
    move_threads: int | None = None
    """`num.replica.alter.log.dirs.threads`; None for the number of log directories."""
    move_window: QuotaWindow = QuotaWindow()
    """`alter.log.dirs.replication.quota.window.num`, `...window.size.seconds`"""
    quota_window: QuotaWindow = QuotaWindow()
    """`quota.window.num`, `quota.window.size.seconds`"""
    replication_window: QuotaWindow = QuotaWindow()
    """`replication.quota.window.num`, `replication.quota.window.size.seconds`"""
    replica_fetch: ReplicaFetchConfig = ReplicaFetchConfig()
    upkeep: UpkeepConfig = UpkeepConfig()
    groups: GroupCoordinatorConfig = GroupCoordinatorConfig()
    transactions: TransactionsConfig = TransactionsConfig()

    def __post_init__(self) -> None:
        """Assert the invariants that all users of the value rely on."""
        assert self.log_dirs, "a broker without a log directory"
        assert self.directory_ids.keys() == set(self.log_dirs), f"{self.directory_ids=}"
