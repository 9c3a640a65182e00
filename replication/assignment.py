"""Assignment of a partition: its replicas, and those that a reassignment adds and removes.

apache/kafka: core/.../cluster/Partition.scala (AssignmentState)
"""

import msgspec

from wire.types import NodeId


class Assignment(msgspec.Struct, frozen=True):
    """Replicas of a partition, all of them: also those that are being added or removed."""

    replicas: tuple[NodeId, ...] = ()
    adding: tuple[NodeId, ...] = ()
    removing: tuple[NodeId, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        """True while replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def replication_factor(self) -> int:
        """Number of replicas, without those that are being added."""
        return sum(replica not in self.adding for replica in self.replicas)
