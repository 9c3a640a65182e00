"""Counters of the elections of partition leaders: from the ELR, and unclean.

Source: apache/kafka: metadata/.../image/TopicDelta.java (updateElectionStats) and
ControllerMetadataMetrics.java (UncleanLeaderElectionsPerSec, ElectionFromEligibleLeaderReplicas).
"""

from metadata.delta import MetadataDelta
from metadata.image import Image


class Elections:
    """Publisher that counts elections; two changes within one publication count once."""

    def __init__(self) -> None:
        self.unclean = 0
        """New leaders that were neither in the ISR nor in the ELR."""
        self.from_elr = 0
        """New leaders from the eligible leader replicas (KIP-966)."""

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Compare the leaders of partitions that exist in both images."""
        if not delta.topics_changed:
            return
        for topic_id, partition_id in delta.partitions_changed:
            if topic_id not in delta.topics_changed:
                continue
            known = before.topics.get(topic_id)  # None in the first published image
            old = None if known is None else known.partitions.get(partition_id)
            new = after.topics[topic_id].partitions[partition_id]
            if old is None or new.leader == old.leader or not new.has_leader:
                continue
            if new.leader in old.elr:
                self.from_elr += 1
            elif new.leader not in old.isr:
                self.unclean += 1
