"""Groups and transactions of this broker, for those who look at them from another thread.

Images are immutable and handed out whole; what else is asked, of some groups or partitions, is
copied. Each call takes the thread of the records well below a millisecond for what it is asked of
at most: `GROUPS_MAX` states, `ENDS_MAX` ends.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Generic

import msgspec

from broker.coordinators.coordinator import Coordinator
from broker.coordinators.groups import GroupCoordinator, machine_of
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.image import GroupsImage
from coordinator.runtime.machine import ImageT
from coordinator.transaction.metadata import TransactionsImage
from replication.replica_manager import ReplicaManager
from wire.errors import ApiError
from wire.types import TopicIdPartition

GROUPS_MAX: Final = 500
ENDS_MAX: Final = 1_000


class Coordinated(msgspec.Struct, Generic[ImageT], frozen=True):
    """The partitions of a topic that this broker coordinates."""

    partition_count: int
    """Of the whole topic; 0 while it does not exist."""
    images: Mapping[int, ImageT]
    """The committed image of each partition that is loaded."""
    loading_count: int
    """Number of partitions that are not loaded yet."""


class CoordinatorViews:
    """Views of the coordinators of a broker, between two of its steps."""

    def __init__(
        self,
        groups: GroupCoordinator,
        transactions: Coordinator[TransactionsImage],
        replicas: ReplicaManager,
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._replicas = replicas

    @property
    def default_assignor(self) -> str:
        """Assignor of a consumer group whose members prefer none."""
        return self._groups.config.consumer.assignors[0]

    def groups(self) -> Coordinated[GroupsImage]:
        """The groups."""
        return _coordinated(self._groups)

    def transactions(self) -> Coordinated[TransactionsImage]:
        """The transactional ids."""
        return _coordinated(self._transactions)

    def classic_states(self, group_ids: Sequence[str]) -> Mapping[str, str]:
        """State of those groups that are classic ones and coordinated here."""
        assert len(group_ids) <= GROUPS_MAX, f"{len(group_ids)=}"
        found = {}
        for group_id in group_ids:
            shard = self._groups.of(group_id)
            if not isinstance(shard, ApiError):
                row = machine_of(shard).room(ClassicRoom).listed(group_id)
                if row is not None:
                    found[group_id] = str(row.group_state)
        return found

    def ends(self, partitions: Sequence[TopicIdPartition]) -> Mapping[TopicIdPartition, int]:
        """High watermark of those partitions that have an open log here."""
        assert len(partitions) <= ENDS_MAX, f"{len(partitions)=}"
        found = {}
        for key in partitions:
            partition = self._replicas.hosted(key)
            if partition is not None and partition.log is not None:
                found[key] = int(partition.log.high_watermark)
        return found


def _coordinated(coordinator: Coordinator[ImageT]) -> Coordinated[ImageT]:
    return Coordinated(
        coordinator.partition_count, coordinator.committed_images(), coordinator.loading_count
    )
