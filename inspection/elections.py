"""Counts how partitions got their leaders: of the ELR, or unclean.

Source: apache/kafka: metadata/.../image/TopicDelta.java (updateElectionStats) and
ControllerMetadataMetrics.java (UncleanLeaderElectionsPerSec, ElectionFromEligibleLeaderReplicas).
"""

from metadata.delta import MetadataDelta
from metadata.image import Image


class Elections:
    """A publisher; what one publication changes twice counts once."""

    def __init__(self) -> None:
        self.unclean = 0
        """New leaders that were neither in the ISR nor in the ELR."""
        self.from_elr = 0
        """New leaders out of the eligible leader replicas (KIP-966)."""

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Compare the leaders of partitions that were there before."""
        if not delta.topics_changed:
            return
        for topic_id, partition_id in delta.partitions_changed:
            if topic_id not in delta.topics_changed:
                continue
            known = before.topics.get(topic_id)  # none in the first image that is published
            old = None if known is None else known.partitions.get(partition_id)
            new = after.topics[topic_id].partitions[partition_id]
            if old is None or new.leader == old.leader or not new.has_leader:
                continue
            if new.leader in old.elr:
                self.from_elr += 1
            elif new.leader not in old.isr:
                self.unclean += 1
