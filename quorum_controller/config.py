"""Settings of the controller, with Kafka's defaults; the kernel fills them from server.properties.

Source: apache/kafka: metadata/.../controller/QuorumController.java (Builder), KRaftConfigs.java.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from metadata.features import CONTROLLER_FEATURES
from metadata.records import Record
from quorum_controller.security.authorization import AccessRules

PENDING_REQUESTS_MAX: Final = 10_000
"""Limit of requests that wait for commits; others get REQUEST_TIMED_OUT, which clients retry."""


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of delegation tokens (KIP-48, KIP-900); times in ms."""

    secret_key: str | None = None
    """delegation.token.secret.key; None: tokens are disabled."""
    max_lifetime_ms: int = 7 * 24 * 3_600_000
    """delegation.token.max.lifetime.ms"""
    expiry_ms: int = 24 * 3_600_000
    """delegation.token.expiry.time.ms: lifetime of a token without renewal."""
    sweep_interval_ms: int = 3_600_000
    """delegation.token.expiry.check.interval.ms"""


class ElectionIntervals(msgspec.Struct, frozen=True, kw_only=True):
    """Delays before the controller elects leaders without a request; None: it does not."""

    preferred_ms: int | None = 300_000
    """leader.imbalance.check.interval.seconds, None with auto.leader.rebalance.enable=false."""
    unclean_ms: int | None = 300_000
    """unclean.leader.election.interval.ms"""


class MutationWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Windows of the controller mutation quota: together the time whose rate may come at once."""

    count: int = 11
    """controller.quota.window.num"""
    size_seconds: int = 1
    """controller.quota.window.size.seconds"""

    @property
    def burst_seconds(self) -> int:
        """Capacity of a token bucket, in seconds of its rate."""
        return self.count * self.size_seconds


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One node's controller settings; times in ms."""

    cluster_id: str
    node_id: int
    bootstrap_records: tuple[Record, ...]
    """Data records of bootstrap.checkpoint; one of them sets metadata.version."""
    session_timeout_ms: int = 9_000
    """broker.session.timeout.ms"""
    max_idle_interval_ms: int = 500
    """metadata.max.idle.interval.ms: interval of NoOpRecords; 0 disables them."""
    default_replication_factor: int = 1
    """default.replication.factor"""
    default_partition_count: int = 1
    """num.partitions"""
    delete_topic_enable: bool = True
    """delete.topic.enable"""
    properties: dict[str, str] = {}
    """The node's server.properties: static defaults of topic configs."""
    supported_features: Mapping[str, tuple[int, int]] = msgspec.field(
        default_factory=lambda: CONTROLLER_FEATURES
    )
    """Inclusive ranges of levels that this software supports, by feature."""
    voter_ids: tuple[int, ...] = ()
    """Controllers that must be registered before a feature level changes."""
    access: AccessRules | None = None
    """The authorizer's settings; None without `authorizer.class.name`: everything is allowed."""
    tokens: TokenSettings = TokenSettings()
    """Settings of delegation tokens."""
    elections: ElectionIntervals = ElectionIntervals()
    """Delays of elections without a request."""
    mutations: MutationWindow = MutationWindow()
    """Of controller_mutation_rate."""
    pending_requests_max: int = PENDING_REQUESTS_MAX
