"""What managers of partitions share: who may lead, default directories, topic-wide defaults.

The one maker of change records is `partition_change.py`.
"""

from collections.abc import Mapping

import msgspec

from metadata.image import CONFIG_TOPIC, Image
from wire.types import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    DirectoryId,
    NodeId,
    TopicId,
)

TopicPartition = tuple[TopicId, int]


class PartitionDefaults(msgspec.Struct, frozen=True, gc=False):
    """What holds for topics that say nothing themselves, from broker configs and properties."""

    unclean_election: bool = False
    """unclean.leader.election.enable"""
    min_insync_replicas: int = 1
    """min.insync.replicas"""


class ElectionPolicy(msgspec.Struct, frozen=True, gc=False):
    """Who may lead: overrides while a broker is leaving or coming, and the defaults of topics."""

    never: NodeId | None = None
    always: NodeId | None = None
    """Counts as active although the image still says fenced; its directories must be online."""
    defaults: PartitionDefaults = PartitionDefaults()


def is_active(image: Image, broker_id: NodeId) -> bool:
    """Whether the broker is registered, unfenced and not shutting down."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def default_directory(image: Image, broker_id: NodeId) -> DirectoryId:
    """The directory of a new replica as far as the controller knows it (KIP-858)."""
    broker = image.brokers.get(broker_id)
    if broker is None or len(broker.log_dirs) > 1:
        return DIRECTORY_UNASSIGNED
    return broker.log_dirs[0] if broker.log_dirs else DIRECTORY_MIGRATING


def unclean_election(image: Image, topic_name: str, policy: ElectionPolicy) -> bool:
    """Whether this topic may elect a leader outside its ISR."""
    configs: Mapping[str, str] = image.config(CONFIG_TOPIC, topic_name)
    value = configs.get("unclean.leader.election.enable")
    return policy.defaults.unclean_election if value is None else value.strip().lower() == "true"
