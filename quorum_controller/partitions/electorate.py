"""Eligibility of leaders, default directories and defaults of topics, for partition managers.

Change records are built only in `partition_change.py`.
"""

from collections.abc import Mapping

import msgspec

from metadata.image import CONFIG_TOPIC, Image
from wire.types import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    DirectoryId,
    NodeId,
)


class PartitionDefaults(msgspec.Struct, frozen=True, gc=False):
    """Defaults of topics without configs of their own, from broker configs and properties."""

    unclean_election: bool = False
    """unclean.leader.election.enable"""
    min_insync_replicas: int = 1
    """min.insync.replicas"""


class ElectionPolicy(msgspec.Struct, frozen=True, gc=False):
    """Eligibility of leaders: a broker being fenced or unfenced, and the defaults of topics."""

    never: NodeId | None = None
    """A broker that may not lead although it is active in the image."""
    always: NodeId | None = None
    """A broker that counts as active though fenced in the image; its directory must be online."""
    defaults: PartitionDefaults = PartitionDefaults()


def is_active(image: Image, broker_id: NodeId) -> bool:
    """True if the broker is registered, unfenced and not in controlled shutdown."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def default_directory(image: Image, broker_id: NodeId) -> DirectoryId:
    """The directory of a new replica, a reserved id if the broker has not exactly one (KIP-858)."""
    broker = image.brokers.get(broker_id)
    if broker is None or len(broker.log_dirs) > 1:
        return DIRECTORY_UNASSIGNED
    return broker.log_dirs[0] if broker.log_dirs else DIRECTORY_MIGRATING


def unclean_election(image: Image, topic_name: str, policy: ElectionPolicy) -> bool:
    """True if partitions of this topic may elect a leader outside their ISR."""
    configs: Mapping[str, str] = image.config(CONFIG_TOPIC, topic_name)
    value = configs.get("unclean.leader.election.enable")
    return policy.defaults.unclean_election if value is None else value.strip().lower() == "true"
