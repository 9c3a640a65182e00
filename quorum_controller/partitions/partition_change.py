"""Change of one partition: election of a leader, ISR and ELR, completion of a reassignment.

`change_record` returns the one record that changes a partition to a target, None when nothing
changes. Only this module builds PartitionChangeRecords; each adds 1 to the partition epoch, and 1
to the leader epoch if it contains a leader.
Source: apache/kafka: metadata/.../controller/PartitionChangeBuilder.java; the numbers of the steps
are those of that file.

Unlike here, Kafka keeps a replica that a reassignment removes in the ELR of the partition, and may
elect it as the last known leader.
"""

from enum import Enum
from typing import TypedDict

import msgspec

from metadata.features import (
    LEVEL_DIRECTORIES,
    LEVEL_ELR,
    LEVEL_NO_EPOCH_BUMP_ON_SHRINK,
    LEVEL_RECOVERY_STATE,
)
from metadata.image import LEADER_RECOVERING, NO_LEADER, Image, Partition
from metadata.records import PartitionChangeRecord
from quorum_controller.partitions.electorate import (
    ElectionPolicy,
    default_directory,
    is_active,
    unclean_election,
)
from quorum_controller.partitions.elr import effective_min_isr, is_elr_enabled
from wire.types import DirectoryId, NodeId, TopicIdPartition

Replicas = tuple[NodeId, ...]


class Election(Enum):
    """The kind of an election."""

    ONLINE = "any of the ISR, the present one if it can"
    PREFERRED = "the first replica if it is in the ISR"
    UNCLEAN = "any replica that is alive, the ISR first"


class Target(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The target of a change; None leaves a field unchanged."""

    isr: Replicas | None = None
    replicas: Replicas | None = None
    removing_replicas: Replicas | None = None
    adding_replicas: Replicas | None = None
    leader_recovery_state: int | None = None
    directory: tuple[NodeId, DirectoryId] | None = None
    """The new directory of one replica."""
    unclean_shutdown: NodeId | None = None
    """A replica that may have lost data: it is removed from the ELR too."""
    election: Election | None = None
    """None: UNCLEAN if the topic allows it, else ONLINE."""


class ChangedFields(TypedDict, total=False):
    """The fields of a PartitionChangeRecord that are set."""

    isr: tuple[NodeId, ...]
    leader: NodeId
    replicas: tuple[NodeId, ...]
    removing_replicas: tuple[NodeId, ...]
    adding_replicas: tuple[NodeId, ...]
    leader_recovery_state: int
    directories: tuple[DirectoryId, ...]
    eligible_leader_replicas: tuple[NodeId, ...]
    last_known_elr: tuple[NodeId, ...]


def change_record(
    image: Image, topic_partition: TopicIdPartition, target: Target, policy: ElectionPolicy
) -> PartitionChangeRecord | None:
    """The record that changes a partition of the image to the target, None without a change."""
    topic_id, partition_id = topic_partition
    topic = image.topics[topic_id]
    changes = changed_fields(image, topic.name, topic.partitions[partition_id], target, policy)
    if not changes:
        return None
    return PartitionChangeRecord(partition_id=partition_id, topic_id=topic_id, **changes)


def changed_fields(
    image: Image, topic_name: str, partition: Partition, target: Target, policy: ElectionPolicy
) -> ChangedFields:
    """The fields of the record that changes a partition to the target; empty without a change.

    They depend on the partition, on features, brokers and configs of the image, and with ELR on the
    replication factor of the topic's partition 0.
    """
    return _Builder(image, topic_name, partition, target, policy).build()


class _Builder:
    """Builder of one change; `build` follows the steps of Kafka's builder in order."""

    __slots__ = (
        "adding",
        "elr",
        "has_elr",
        "image",
        "isr",
        "level",
        "partition",
        "policy",
        "removing",
        "replicas",
        "target",
        "topic_name",
    )

    def __init__(
        self,
        image: Image,
        topic_name: str,
        partition: Partition,
        target: Target,
        policy: ElectionPolicy,
    ) -> None:
        self.image = image
        self.topic_name = topic_name
        self.level = level = image.metadata_version
        self.has_elr = level >= LEVEL_ELR and is_elr_enabled(image)
        self.partition = partition
        self.target = target
        self.policy = policy
        isr, replicas = target.isr, target.replicas
        removing, adding = target.removing_replicas, target.adding_replicas
        self.isr = partition.isr if isr is None else isr
        self.replicas = partition.replicas if replicas is None else replicas
        self.removing = partition.removing_replicas if removing is None else removing
        self.adding = partition.adding_replicas if adding is None else adding
        self.elr = partition.elr

    def build(self) -> ChangedFields:
        """Return the set fields of the record; empty when nothing changes."""
        changes = ChangedFields()
        self._complete_reassignment()
        if self.has_elr:
            self._fill_elr()
        self._elect(changes)
        partition = self.partition
        loses_replica = self.replicas is not partition.replicas and not set(
            partition.replicas
        ) <= set(self.replicas)
        if loses_replica and "leader" not in changes:
            changes["leader"] = partition.leader  # removing a replica needs a new leader epoch
        self._change_elr(changes)
        self._change_isr(changes)
        if self.has_elr:
            self._change_last_known_leader(changes)
        self._change_replicas(changes)
        state = self.target.leader_recovery_state
        if state is not None and state != partition.leader_recovery_state:
            changes["leader_recovery_state"] = state
        return changes

    def _complete_reassignment(self) -> None:
        """Step 1: complete a reassignment once every remaining replica is in the ISR."""
        if not self.removing and not self.adding:
            return
        isr = tuple(r for r in self.isr if r not in self.removing)
        replicas = tuple(r for r in self.replicas if r not in self.removing)
        if isr and replicas and set(replicas) <= set(isr):
            self.isr, self.replicas = isr, replicas
            self.removing = self.adding = ()

    def _fill_elr(self) -> None:
        """Step 2: add replicas that leave an ISR below its minimum to the ELR (KIP-966)."""
        minimum = effective_min_isr(self.image, self.topic_name, self.policy.defaults)
        if len(self.isr) >= minimum:
            self.elr = ()
            return
        gone = self.target.unclean_shutdown
        candidates = {*self.elr, *self.partition.isr}.intersection(self.replicas)
        self.elr = tuple(sorted(r for r in candidates if r not in self.isr and r != gone))

    def _elect(self, changes: ChangedFields) -> None:
        """Steps 3 and 4: elect the leader, with the ISR and recovery state that it implies."""
        leader, is_unclean = self._leader()
        partition = self.partition
        if leader == partition.leader:
            return
        changes["leader"] = leader
        if leader in self.elr:
            self.isr = (leader,)
            self.elr = tuple(replica for replica in self.elr if replica != leader)
        if is_unclean:
            self.isr = (leader,)
            changes["isr"] = self.isr
            is_marked = partition.leader_recovery_state == LEADER_RECOVERING
            if self.level >= LEVEL_RECOVERY_STATE and not is_marked:
                changes["leader_recovery_state"] = LEADER_RECOVERING

    def _leader(self) -> tuple[NodeId, bool]:
        """Return the leader, and True if it may lack committed data."""
        election = self.target.election
        candidates = (self.partition.leader, *self.replicas)
        if election is Election.PREFERRED:
            candidates = (self.replicas[0], *candidates)
        for replica in candidates:
            if self._is_valid(replica):
                return replica, False
        last_known = self.partition.last_known_elr
        has_no_eligible = self.has_elr and not self.isr and not self.elr
        is_candidate = len(last_known) == 1 and last_known[0] in self.replicas
        if has_no_eligible and is_candidate and self._is_acceptable(last_known[0]):
            return last_known[0], True
        is_allowed = election is Election.UNCLEAN or (
            election is None and unclean_election(self.image, self.topic_name, self.policy)
        )
        if is_allowed:
            for replica in self.replicas:
                if self._is_acceptable(replica):
                    return replica, True
        return NO_LEADER, False

    def _is_valid(self, replica: NodeId) -> bool:
        """True if the replica has all committed records and may lead."""
        has_data = replica in self.isr or (not self.isr and replica in self.elr)
        return has_data and self._is_acceptable(replica)

    def _is_acceptable(self, replica: NodeId) -> bool:
        policy = self.policy
        if replica == policy.never:
            return False
        if replica != policy.always and not is_active(self.image, replica):
            return False
        partition = self.partition
        if self.level < LEVEL_DIRECTORIES or replica not in partition.replicas:
            return True
        return self.image.brokers[replica].has_online_directory(partition.directory(replica))

    def _change_elr(self, changes: ChangedFields) -> None:
        """Step 6: set a changed ELR; empty after an unclean election and with ELR disabled."""
        elr = self.elr if self.has_elr and "isr" not in changes else ()
        if elr != self.partition.elr:
            changes["eligible_leader_replicas"] = elr

    def _change_isr(self, changes: ChangedFields) -> None:
        """Steps 7 and 8: set a changed ISR; without ELR the last member of an ISR stays in it."""
        partition = self.partition
        if "isr" not in changes and self.isr != partition.isr and (self.isr or self.has_elr):
            changes["isr"] = self.isr
        shrinks = "isr" in changes and not set(partition.isr) <= set(self.isr)
        if self.level < LEVEL_NO_EPOCH_BUMP_ON_SHRINK and shrinks and "leader" not in changes:
            changes["leader"] = partition.leader

    def _change_last_known_leader(self, changes: ChangedFields) -> None:
        """Step 9: set the last known leader if the ISR becomes empty, clear it with a leader."""
        partition = self.partition
        leader = changes.get("leader", partition.leader)
        if changes.get("isr") == ():
            if partition.leader != NO_LEADER and partition.last_known_elr != (partition.leader,):
                changes["last_known_elr"] = (partition.leader,)
        elif leader != NO_LEADER and partition.last_known_elr:
            changes["last_known_elr"] = ()

    def _change_replicas(self, changes: ChangedFields) -> None:
        """Step 10: set replicas with their directories, and the two lists of a reassignment."""
        partition = self.partition
        if self.replicas is not partition.replicas or self.target.directory is not None:
            if self.level >= LEVEL_DIRECTORIES:
                directories = self._directories()
                if directories != partition.directories:
                    changes["directories"] = directories
            if self.replicas != partition.replicas:
                changes["replicas"] = self.replicas
        if self.removing != partition.removing_replicas:
            changes["removing_replicas"] = self.removing
        if self.adding != partition.adding_replicas:
            changes["adding_replicas"] = self.adding

    def _directories(self) -> tuple[DirectoryId, ...]:
        """Return the directory of each replica of the target, for new ones the default."""
        partition = self.partition
        known = dict(zip(partition.replicas, partition.directories, strict=True))
        if self.target.directory is not None:
            replica, directory = self.target.directory
            known[replica] = directory
        return tuple(
            known[replica] if replica in known else default_directory(self.image, replica)
            for replica in self.replicas
        )
