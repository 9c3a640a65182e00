"""A broker as its fetchers see it, with the settings of their fetches."""

from collections.abc import Callable

import msgspec

from network.clock import Clock
from network.effects import LogSink
from network.turn_budget import TurnBudget
from replication.counters import Counters
from replication.follower.follower_session import SessionRequest
from replication.partition import Partition
from replication.throttle import ReplicationQuota
from wire.messages.replica_fetch import ReplicaFetchRequest
from wire.types import BrokerEpoch, NodeId, TopicIdPartition


class ReplicaFetchConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Settings of the fetches of a follower; the keys are Kafka's."""

    wait_ms_max: int = 500
    """`replica.fetch.wait.max.ms`"""
    bytes_min: int = 1
    """`replica.fetch.min.bytes`"""
    bytes_max: int = 1024 * 1024
    """`replica.fetch.max.bytes`, of a partition."""
    response_bytes_max: int = 10 * 1024 * 1024
    """`replica.fetch.response.max.bytes`"""
    backoff_ms: int = 1000
    """`replica.fetch.backoff.ms`"""
    fetchers: int = 1
    """`num.replica.fetchers`: fetchers of each leader, with a connection each."""
    socket_timeout_ms: int = 30_000
    """`replica.socket.timeout.ms`, after which the connection closes that did not answer."""


class FollowerBroker(msgspec.Struct, frozen=True, kw_only=True):
    """This broker, as its fetchers see it."""

    node_id: NodeId
    config: ReplicaFetchConfig
    clock: Clock
    effects: LogSink
    budget: TurnBudget
    broker_epoch: Callable[[], BrokerEpoch | None]
    partition_of: Callable[[TopicIdPartition], Partition | None]
    counters: Counters
    is_added: Callable[[TopicIdPartition], bool]
    """True for a partition to which a reassignment adds the replica here."""
    quota: ReplicationQuota
    took: Callable[[TopicIdPartition, bool], None]
    """Called after an append or a truncation, with True if the high watermark was raised."""
    disk_failed: Callable[[TopicIdPartition, Exception], None]
    """Called for a partition that has failed by its disk, with the OSError, OutOfSpaceError or
    FsyncError."""

    def replicated(self, key: TopicIdPartition, records_bytes: int) -> None:
        """Count records that were appended."""
        self.counters.replicated(records_bytes, is_added=self.is_added(key))
        if self.quota.is_throttled(key):
            self.quota.record(records_bytes)

    def fetch_request(self, part: SessionRequest) -> ReplicaFetchRequest:
        """The Fetch of the next part of a session."""
        config = self.config
        return ReplicaFetchRequest(
            replica_id=self.node_id,
            replica_epoch=self.broker_epoch(),
            max_wait_ms=config.wait_ms_max,
            min_bytes=config.bytes_min,
            max_bytes=config.response_bytes_max,
            session_id=part.session_id,
            session_epoch=part.epoch,
            rows=part.rows,
            forgotten=part.forgotten,
        )
