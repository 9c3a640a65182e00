"""Names and types of topic configurations: what kafka-topics checks before it sends anything.

The controller checks again; this list only makes the message that of Kafka's tool.
(apache/kafka: storage/.../LogConfig.java)
"""

from typing import Final

from cli.client import ClusterError

_LONG: Final = (
    "delete.retention.ms file.delete.delay.ms flush.messages flush.ms local.retention.bytes "
    "local.retention.ms max.compaction.lag.ms message.timestamp.after.max.ms "
    "message.timestamp.before.max.ms min.compaction.lag.ms retention.bytes retention.ms "
    "segment.jitter.ms segment.ms"
)
_INT: Final = (
    "compression.gzip.level compression.lz4.level compression.zstd.level index.interval.bytes "
    "max.message.bytes min.insync.replicas segment.bytes segment.index.bytes "
    "internal.segment.bytes"
)
_OTHER: Final = (
    "cleanup.policy compression.type follower.replication.throttled.replicas "
    "leader.replication.throttled.replicas message.timestamp.type min.cleanable.dirty.ratio "
    "preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable "
    "unclean.leader.election.enable"
)
TYPES: Final[dict[str, str]] = {
    **dict.fromkeys(_LONG.split(), "LONG"),
    **dict.fromkeys(_INT.split(), "INT"),
    **dict.fromkeys(_OTHER.split(), ""),
}
SMALLEST: Final = {
    "segment.bytes": 1024 * 1024,
    "min.insync.replicas": 1,
    "retention.ms": -1,
    "max.message.bytes": 0,
}


def check_config(name: str, value: str) -> None:
    """Refuses what Kafka's own tool refuses without asking the cluster.

    Raises:
        ClusterError: no such name, or not a value of its type.
    """
    if name not in TYPES:
        raise ClusterError(f"Unknown topic config name: {name}")
    if not TYPES[name]:
        return
    try:
        number = int(value)
    except ValueError:
        raise ClusterError(
            f"Invalid value {value} for configuration {name}: Not a number of type {TYPES[name]}"
        ) from None
    if number < SMALLEST.get(name, number):
        raise ClusterError(
            f"Invalid value {value} for configuration {name}: "
            f"Value must be at least {SMALLEST[name]}"
        )
