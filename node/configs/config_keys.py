"""The keys of `server.properties` that a node acts on; all others have no effect.

The tables are the only list of these keys; `node/configs/config.py` reads them. Every other key of
Kafka (`metadata/config_definitions`) is validated as in Kafka, has no effect, and is logged once
at start if it is set (`configuration_without_effect`). That includes keys that a node only reports
(DescribeConfigs, CreateTopics) or that only limit or describe features without effect here: groups,
tiered storage.

Dynamic configs are always stored and reported: the brokers of a cluster may be of different kinds,
and Kafka's act on them.
"""

from typing import Final, NamedTuple

from broker.cleaning.cleaner_settings import CLEANER_KEYS
from broker.replicas.topic_settings import VALIDATION_KEY, VERIFICATION_KEY
from node.configs.consumer_group_config import CONSUMER_GROUP_KEYS
from node.configs.listeners import ADDRESS_LIMITS_KEY, BOOTSTRAP_KEY, INSPECTION_KEY
from node.configs.record_keys import (
    LONG_MAX,
    OFFSETS_CODEC_KEY,
    RECORDS_KEYS,
    SELECTOR_KEY,
    TOPIC_DEFAULT_KEYS,
)
from quorum_controller.topics.internal_topics import INTERNAL_KEYS

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
HEARTBEAT_INTERVAL_MS_MIN: Final = 10
"""Heartbeat interval used for any shorter setting, 0 or negative too: no busy loop."""
SEGMENT_BYTES_MIN: Final = 12
"""Segment size used for any smaller setting of the internal key: one batch a segment."""


class Whole(NamedTuple):
    """A key with a whole number: its group and field, and the allowed range, inclusive.

    The range is that of Kafka's definition (differences: docs/running.md). `least` is used for any
    lower value, which Kafka takes too but cannot run with, or runs with in a busy loop.
    """

    key: str
    group: str
    field: str
    minimum: int
    maximum: int = INT_MAX
    least: int | None = None


class Flag(NamedTuple):
    """A key with the value true or false."""

    key: str
    group: str
    field: str


NUMBERS: Final = (
    Whole("controller.quorum.election.timeout.ms", "quorum", "election_timeout_ms", 0),
    Whole("controller.quorum.fetch.timeout.ms", "quorum", "fetch_timeout_ms", 0),
    Whole("controller.quorum.election.backoff.max.ms", "quorum", "election_backoff_ms_max", 0),
    Whole("controller.quorum.request.timeout.ms", "quorum", "request_timeout_ms", 0),
    Whole("controller.quorum.retry.backoff.ms", "quorum", "retry_backoff_ms", 0),
    Whole("controller.quorum.fetch.max.bytes", "quorum", "fetch_bytes_max", 1),
    Whole("controller.quorum.fetch.snapshot.max.bytes", "quorum", "fetch_snapshot_bytes_max", 1),
    Whole("metadata.log.segment.bytes", "metadata_log", "segment_bytes", 12),
    Whole(
        "internal.metadata.log.segment.bytes",
        "metadata_log",
        "segment_bytes",
        INT_MIN,
        least=SEGMENT_BYTES_MIN,
    ),
    Whole("metadata.log.segment.ms", "metadata_log", "segment_ms", 1, LONG_MAX),
    Whole(
        "metadata.log.max.record.bytes.between.snapshots",
        "metadata_log",
        "record_bytes_between_snapshots",
        1,
        LONG_MAX,
    ),
    Whole(
        "metadata.log.max.snapshot.interval.ms",
        "metadata_log",
        "snapshot_interval_ms_max",
        0,
        LONG_MAX,
    ),
    Whole("metadata.max.retention.bytes", "metadata_log", "retention_bytes", LONG_MIN, LONG_MAX),
    Whole("metadata.max.retention.ms", "metadata_log", "retention_ms", LONG_MIN, LONG_MAX),
    Whole("metadata.max.idle.interval.ms", "metadata_log", "idle_interval_ms_max", 0),
    Whole("broker.session.timeout.ms", "broker", "session_timeout_ms", 1),
    Whole(
        "broker.heartbeat.interval.ms",
        "broker",
        "heartbeat_interval_ms",
        INT_MIN,
        least=HEARTBEAT_INTERVAL_MS_MIN,
    ),
    Whole(
        "initial.broker.registration.timeout.ms",
        "broker",
        "initial_registration_timeout_ms",
        INT_MIN,
        least=0,
    ),
    Whole("log.dir.failure.timeout.ms", "broker", "directory_report_timeout_ms", 1, LONG_MAX),
    Whole("max.request.partition.size.limit", "broker", "response_partitions_max", 1),
    Whole("leader.imbalance.check.interval.seconds", "elections", "preferred_seconds", 1, LONG_MAX),
    Whole("unclean.leader.election.interval.ms", "elections", "unclean_ms", 1, LONG_MAX),
    Whole("delegation.token.max.lifetime.ms", "tokens", "max_lifetime_ms", 1, LONG_MAX),
    Whole("delegation.token.expiry.time.ms", "tokens", "expiry_ms", 1, LONG_MAX),
    Whole("delegation.token.expiry.check.interval.ms", "tokens", "sweep_interval_ms", 1, LONG_MAX),
    Whole("controller.quota.window.num", "mutations", "count", 1),
    Whole("controller.quota.window.size.seconds", "mutations", "size_seconds", 1),
    Whole("num.partitions", "topics", "partition_count", 1),
    Whole("default.replication.factor", "topics", "replication_factor", INT_MIN),
    Whole("socket.request.max.bytes", "connections", "request_bytes_max", 1),
    Whole("max.connections", "connections", "connections_max", 0),
    Whole("max.connections.per.ip", "connections", "per_address_max", 0),
    Whole("max.connection.creation.rate", "connections", "creation_rate", 0),
    Whole("quota.window.num", "connections", "quota_samples", 1),
    Whole("quota.window.size.seconds", "connections", "quota_seconds", 1),
    Whole("connections.max.idle.ms", "connections", "idle_ms_max", -LONG_MAX - 1, LONG_MAX),
    Whole("inspection.max.connections", "inspection", "connections_max", 1),
    Whole("inspection.connections.max.idle.ms", "inspection", "idle_ms_max", 1),
)
FLAGS: Final = (
    Flag("controller.quorum.auto.join.enable", "quorum", "joins"),
    Flag("controlled.shutdown.enable", "broker", "controlled_shutdown_enable"),
    Flag("auto.leader.rebalance.enable", "elections", "is_balanced"),
    Flag("allow.everyone.if.no.acl.found", "access", "allows_without_acl"),
    Flag("delete.topic.enable", "broker", "delete_topic_enable"),
    Flag("auto.create.topics.enable", "broker", "auto_create_topics_enable"),
)
READ_BY_HAND: Final = frozenset(
    {
        "advertised.listeners",
        "authorizer.class.name",
        "broker.id",
        "broker.rack",
        "controller.listener.names",
        "controller.quorum.voters",
        BOOTSTRAP_KEY,
        "delegation.token.secret.key",
        INSPECTION_KEY,
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        ADDRESS_LIMITS_KEY,
        "metadata.log.dir",
        "node.id",
        "process.roles",
        "security.inter.broker.protocol",
        "super.users",
        "zookeeper.connect",
    }
)
"""Keys that `node/configs/config.py` and `node/configs/listeners.py` read one by one."""
STATIC_DEFAULTS: Final = INTERNAL_KEYS | {
    "cordoned.log.dirs",
    "min.insync.replicas",
    "unclean.leader.election.enable",
}
"""Keys that broker or controller read from the properties, below the dynamic configs if any."""
OLDER_KEYS: Final = frozenset(
    {"leader.imbalance.per.broker.percentage", "metadata.log.segment.min.bytes"}
)
"""Keys of Kafka 3.9 removed in 4.x, without effect here."""
ABOUT_RECORDS: Final = (
    RECORDS_KEYS
    | TOPIC_DEFAULT_KEYS
    | CLEANER_KEYS
    | CONSUMER_GROUP_KEYS
    | {OFFSETS_CODEC_KEY, SELECTOR_KEY, VALIDATION_KEY, VERIFICATION_KEY}
)
ACTED_ON: Final = (
    READ_BY_HAND
    | STATIC_DEFAULTS
    | ABOUT_RECORDS
    | {number.key for number in NUMBERS}
    | {flag.key for flag in FLAGS}
)
assert len({(flag.group, flag.field) for flag in FLAGS}) == len(FLAGS)
