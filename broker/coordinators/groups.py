"""The coordinator of groups of this broker."""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy

from broker.coordinators.coordinator import Coordinator, ShardSettings
from broker.coordinators.figures import GroupFigures
from broker.services import Services
from coordinator.group.classic.room import ClassicRoom
from coordinator.group.classic.states import ClassicGroupState
from coordinator.group.config import GroupCoordinatorConfig
from coordinator.group.consumer.group import GroupState
from coordinator.group.consumer.groups import ConsumerGroups
from coordinator.group.consumer.settings import DYNAMIC_ASSIGNMENT_INTERVAL_MS
from coordinator.group.counts import GroupCounts, GroupNumbers
from coordinator.group.image import GroupsImage
from coordinator.group.machine import GroupKind, GroupMachine
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
        are_more_coming: says if requests of clients wait to be taken.
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
        are_more_coming: Callable[[], bool],
    ) -> None:
        self.config = config
        self._image = image
        self._node_id = node_id
        self._counts = GroupCounts()
        super().__init__(
            CONSUMER_OFFSETS,
            self._machine,
            replicas=replicas,
            services=services,
            settings=ShardSettings(
                timeout_ms=config.offsets.commit_timeout_ms,
                load_bytes_max=config.load_bytes_max,
                codec=config.codec,
                linger_ms=config.linger_ms,
            ),
            on_failure=on_failure,
            are_more_coming=are_more_coming,
        )

    def _machine(self, _partition: int) -> GroupMachine:
        clock, config, counts = self._clock, self.config, self._counts
        classic = ClassicRoom(clock, config.classic, counts)
        consumer = ConsumerGroups(
            clock, config.consumer, self._image, self._configs_of, classic, counts=counts
        )
        rules = RulesByKind(classic.rules)
        return GroupMachine(clock, config.offsets, rules, (classic, consumer), counts=counts)

    def figures(self) -> GroupFigures:
        """Counts since the start, and numbers of what there is."""
        shards = self.look()
        found = Counter[GroupKind | None]()
        for shard in shards:
            found.update(machine_of(shard).census.counts)
        return GroupFigures(
            shards=self.shard_figures(),
            counts=copy(self._counts),
            numbers=GroupNumbers(
                offsets=sum(shard.committed.offset_count for shard in shards),
                classic={state: found[state] for state in ClassicGroupState},
                consumer={state: found[state] for state in GroupState},
            ),
        )

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
