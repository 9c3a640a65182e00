"""Settings of the controller, with Kafka's defaults; the kernel fills them from server.properties.

Source: apache/kafka: metadata/.../controller/QuorumController.java (Builder), KRaftConfigs.java.
"""

from typing import Final

import msgspec

from metadata.records import Record

PENDING_REQUESTS_MAX: Final = 10_000
"""Requests that wait for commits; more are answered REQUEST_TIMED_OUT, which clients retry."""


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One node's controller settings; times in ms."""

    cluster_id: str
    node_id: int
    bootstrap_records: tuple[Record, ...]
    """Data records of bootstrap.checkpoint; one of them sets metadata.version."""
    session_timeout_ms: int = 9_000
    """broker.session.timeout.ms"""
    max_idle_interval_ms: int = 500
    """metadata.max.idle.interval.ms: a NoOpRecord that often; 0 turns it off."""
    default_replication_factor: int = 1
    """default.replication.factor"""
    default_partition_count: int = 1
    """num.partitions"""
    delete_topic_enable: bool = True
    """delete.topic.enable"""
    properties: dict[str, str] = {}
    """The node's server.properties: static defaults of topic configs."""
    pending_requests_max: int = PENDING_REQUESTS_MAX
