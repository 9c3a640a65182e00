"""Images as a log of metadata makes them, record by record."""

from typing import Any

from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import CONFIG_BROKER, CONFIG_TOPIC, EMPTY, Image
from metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from wire.types import DirectoryId, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicId

A, B = TopicId(b"a" * 16), TopicId(b"b" * 16)
IDS = {"a": A, "b": B}
D1, D2 = DirectoryId(b"1" * 16), DirectoryId(b"2" * 16)


class MetadataLog:
    """The newest image, and the delta since it was taken last."""

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self.delta = MetadataDelta()
        self._end = 0

    def write(self, *records: Record) -> None:
        self.image = apply_all(self.image, records, Offset(self._end), self.delta)
        self._end += len(records)

    def take(self) -> tuple[Image, MetadataDelta]:
        delta, self.delta = self.delta, MetadataDelta()
        return self.image, delta

    def register(self, node_id: int = 1, directories: tuple[bytes, ...] = (D1, D2)) -> None:
        self.write(
            RegisterBrokerRecord(
                broker_id=NodeId(node_id),
                incarnation_id=bytes(15) + bytes([node_id]),
                broker_epoch=self._end,
                log_dirs=tuple(DirectoryId(one) for one in directories),
            )
        )
        registered = self.image.brokers[NodeId(node_id)].epoch
        self.write(UnfenceBrokerRecord(id=NodeId(node_id), epoch=registered))

    def topic(
        self,
        name: str = "a",
        topic_id: bytes | None = None,
        *,
        partitions: int = 1,
        leader: int = 1,
        replicas: tuple[int, ...] = (1,),
        directory: bytes = D1,
        **configs: str,
    ) -> None:
        topic_id = TopicId(IDS[name] if topic_id is None else topic_id)
        self.write(TopicRecord(name=name, topic_id=topic_id))
        self.config(name, **configs)
        for number in range(partitions):
            self.write(
                PartitionRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    leader=leader,
                    leader_epoch=LeaderEpoch(0),
                    partition_epoch=PartitionEpoch(0),
                    directories=tuple(DirectoryId(directory) for _ in replicas),
                )
            )

    def change(self, number: int = 0, topic_id: bytes = A, **fields: Any) -> None:
        self.write(PartitionChangeRecord(partition_id=number, topic_id=TopicId(topic_id), **fields))

    def remove(self, topic_id: bytes = A) -> None:
        self.write(RemoveTopicRecord(topic_id=TopicId(topic_id)))

    def config(self, topic: str, **configs: str | None) -> None:
        """Set configs of a topic, with `_` for each dot."""
        for name, value in configs.items():
            self.set(CONFIG_TOPIC, topic, name.replace("_", "."), value)

    def broker_config(self, name: str, value: str | None, node: str = "") -> None:
        self.set(CONFIG_BROKER, node, name, value)

    def set(self, kind: int, resource: str, name: str, value: str | None) -> None:
        self.write(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
