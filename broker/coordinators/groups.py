"""The coordinator of groups of this broker."""

from collections.abc import Callable, Mapping

from broker.coordinators.coordinator import Coordinator, ShardSettings
from broker.services import Services
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.settings import DYNAMIC_ASSIGNMENT_INTERVAL_MS
from coordinator.group.image import GroupsImage
from coordinator.group.machine import GroupMachine
from coordinator.group.rules_by_kind import RulesByKind
from coordinator.records.kinds import CONSUMER_OFFSETS
from coordinator.runtime.shard import Shard
from metadata.delta import MetadataDelta
from metadata.image import CONFIG_BROKER, Image
from metadata.records import CONFIG_GROUP
from replication.replica_manager import ReplicaManager
from wire.types import NodeId, TopicIdPartition


class GroupCoordinator(Coordinator[GroupsImage]):
    """The shards of `__consumer_offsets`.

    Args:
        config: of groups.
        replicas: of the broker.
        services: of the step.
        node_id: of the broker.
        image: returns the newest image.
        on_failure: called with a partition whose log directory failed, and the error.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        replicas: ReplicaManager,
        services: Services,
        *,
        node_id: NodeId,
        image: Callable[[], Image],
        on_failure: Callable[[TopicIdPartition, Exception], None],
    ) -> None:
        self.config = config
        self._image = image
        self._node_id = node_id
        super().__init__(
            CONSUMER_OFFSETS,
            self._machine,
            replicas=replicas,
            services=services,
            settings=ShardSettings(
                timeout_ms=config.offsets.commit_timeout_ms,
                load_bytes_max=config.load_bytes_max,
                codec=config.codec,
            ),
            on_failure=on_failure,
        )

    def _machine(self, _partition: int) -> GroupMachine:
        classic = ClassicRoom(self._clock, self.config.classic)
        consumer = ConsumerGroups(
            self._clock, self.config.consumer, self._image, self._configs_of, classic
        )
        rules = RulesByKind(classic.rules)
        return GroupMachine(self._clock, self.config.offsets, rules, (classic, consumer))

    def _configs_of(self, group_id: str) -> Mapping[str, str]:
        """The configs of a group of its own, and dynamic ones of the broker for all groups."""
        image = self._image()
        own = image.config(CONFIG_GROUP, group_id)
        for name in (str(self._node_id), ""):
            text = image.config(CONFIG_BROKER, name).get(DYNAMIC_ASSIGNMENT_INTERVAL_MS)
            if text is not None:
                return {**own, DYNAMIC_ASSIGNMENT_INTERVAL_MS: text}
        return own

    def publish_change(self, before: Image, image: Image, delta: MetadataDelta) -> None:
        """Take the newest image; offsets of deleted topics go."""
        self.publish(image)
        deleted = {
            topic.name: topic_id
            for topic_id in sorted(delta.topics_deleted)
            if (topic := before.topics.get(topic_id)) is not None
        }
        if deleted:
            for shard in self.active():
                machine_of(shard).topics_deleted(deleted)


def machine_of(shard: Shard[GroupsImage]) -> GroupMachine:
    """The machine that a shard of groups runs."""
    machine = shard.machine
    assert isinstance(machine, GroupMachine), f"{machine=}"
    return machine
