"""Counts of partitions in the metadata, computed once for each image."""

from typing import NamedTuple

from inspection.running_node import RunningNode
from inspection.views import min_insync_replicas
from metadata.image import Image


class Counts(NamedTuple):
    """Counts from one pass over all partitions."""

    partitions: int = 0
    offline: int = 0
    imbalanced: int = 0
    led_here: int = 0
    hosted_here: int = 0
    under_replicated_here: int = 0
    under_min_isr_here: int = 0
    at_min_isr_here: int = 0
    reassigning_here: int = 0


class PartitionCounts:
    """Counts of the newest image of a node."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._counted: tuple[Image, Counts] | None = None

    def newest(self) -> Counts:
        """Return the counts of the newest image, computed once per image."""
        image = self._node.image
        known = self._counted
        if known is not None and known[0] is image:
            return known[1]
        if known is not None and _same_counts(known[0], image):
            counts = known[1]
        else:
            counts = count(image, self._node.config.node_id, self._node.min_insync_default)
        self._counted = (image, counts)
        return counts


def count(image: Image, node_id: int, min_insync_default: int) -> Counts:
    """Count in one pass over all partitions."""
    partitions = offline = imbalanced = led = hosted = under = under_min = at_min = moving = 0
    for topic in image.topics.values():
        minimum = min_insync_replicas(image, topic.name, min_insync_default)
        for partition in topic.partitions.values():
            partitions += 1
            offline += not partition.has_leader
            imbalanced += not partition.has_preferred_leader
            hosted += node_id in partition.replicas
            if partition.leader == node_id:
                led += 1
                in_sync, replicas = len(partition.isr), len(partition.replicas)
                under += in_sync < replicas
                under_min += in_sync < min(minimum, replicas)
                at_min += in_sync == min(minimum, replicas)
                moving += partition.is_reassigning
    return Counts(partitions, offline, imbalanced, led, hosted, under, under_min, at_min, moving)


def _same_counts(one: Image, other: Image) -> bool:
    return one.topics is other.topics and one.configs is other.configs
