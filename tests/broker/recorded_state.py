"""A broker in the state that a recorded exchange between a client and Kafka shows.

It has the id of the node that was asked. Its logs begin as files that hold the recorded batches, so
that what it reads and answers is its own.
"""

from collections.abc import Callable
from typing import Any

from broker.effects import Ask, Effect, SendParts
from broker.events import Answered, FramesReceived, Now, TimeAdvanced
from metadata.records import (
    PartitionRecord,
    RegisterBrokerRecord,
    RegisteredEndpoint,
    TopicRecord,
    UnfenceBrokerRecord,
)
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.partition_directories import create_partition_directory
from storage.vfs import join, write_file_atomically
from tests.broker.brokers import LOG_DIR, Driven
from tests.broker.fronts import LISTENER, content
from tests.broker.metadata_log import D1
from wire.types import BrokerEpoch, DirectoryId, LeaderEpoch, NodeId, PartitionEpoch, TopicId

WAIT_MS = 1_000
"""Longer than recorded clients wait for records."""
WALL_MS = 2_000_000_000_000
"""Wall clock at the start, later than the recordings: records from the future are refused."""


def node_of(pair: dict[str, Any]) -> int:
    """Id of the broker that was asked, as in `broker-102`."""
    return int(pair["to"].removeprefix("broker-"))


def id_of(name: str) -> TopicId:
    """Id of a topic that a request names, in the recordings always unlike a real one."""
    return TopicId(name.encode().ljust(16, b"-")[-16:])


class AsRecorded(Driven):
    """The broker that was asked."""

    def __init__(self, node_id: int, **settings: Any) -> None:
        self.disk = MemoryVfs()
        super().__init__(node_id=node_id, vfs=self.disk, **settings)
        self.node_id = node_id
        self.brokers: set[int] = set()
        self.names: dict[TopicId, str] = {}
        self.asks: list[Ask] = []
        """Requests to the controller."""

    @property
    def now(self) -> Now:
        return Now(self.now_ms, WALL_MS + self.now_ms)

    def broker_at(self, node_id: int, epoch: int = 7, host: str = "h", port: int = 9092) -> None:
        """Register a broker."""
        if node_id in self.brokers:
            return
        self.brokers.add(node_id)
        self.metadata.write(
            RegisterBrokerRecord(
                broker_id=NodeId(node_id),
                incarnation_id=bytes(15) + bytes([node_id]),
                broker_epoch=BrokerEpoch(epoch),
                end_points=(RegisteredEndpoint(name=LISTENER, host=host, port=port),),
                log_dirs=(DirectoryId(D1),),
            ),
            UnfenceBrokerRecord(id=NodeId(node_id), epoch=BrokerEpoch(epoch)),
        )

    def topic(self, name: str, topic_id: TopicId | None = None, **configs: str) -> TopicId:
        """Make a topic without partitions, once."""
        topic_id = id_of(name) if topic_id is None else topic_id
        if topic_id not in self.names:
            self.names[topic_id] = name
            self.metadata.write(TopicRecord(name=name, topic_id=topic_id))
            self.metadata.config(name, **configs)
        return topic_id

    def partition(
        self,
        topic_id: TopicId,
        number: int,
        *,
        leader: int | None = None,
        leader_epoch: int = 0,
        replicas: tuple[int, ...] = (),
        isr: tuple[int, ...] = (),
        batches: bytes = b"",
    ) -> None:
        """Make a partition; this broker has it alone, and leads it, unless the fields say else."""
        replicas = replicas or (self.node_id,)
        for node_id in replicas:
            self.broker_at(node_id)
        self.metadata.write(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=tuple(map(NodeId, replicas)),
                isr=tuple(map(NodeId, isr or replicas)),
                leader=NodeId(self.node_id if leader is None else leader),
                leader_epoch=LeaderEpoch(leader_epoch),
                partition_epoch=PartitionEpoch(0),
                directories=tuple(DirectoryId(D1) for _ in replicas),
            )
        )
        if batches:
            path = create_partition_directory(
                self.disk, LOG_DIR, self.names[topic_id], number, topic_id
            )
            name = f"{int.from_bytes(batches[:8], 'big'):020}.log"
            write_file_atomically(self.disk, join(path, name), batches)

    def start(self) -> None:
        """Publish the metadata, and take a client."""
        self.broker_at(self.node_id)
        self.publish()
        self.connect()

    def settle(self) -> None:
        """Step until nothing is to be done at once."""
        while self.broker.next_deadline_ms() <= self.now_ms:
            self.step(TimeAdvanced())

    def asked(self, frame: bytes, meanwhile: Callable[[], list[Effect]] = list) -> bytes:
        """The answer to a frame, at the latest when a client would not wait on.

        What happens meanwhile does so before any time has passed.
        """
        effects = self.step(FramesReceived(1, [bytearray(frame)])) + meanwhile()
        for _ in range(10):
            self.asks += [each for each in effects if isinstance(each, Ask)]
            sent = b"".join(content(each.parts) for each in effects if isinstance(each, SendParts))
            if sent:
                assert int.from_bytes(sent[:4], "big") == len(sent) - 4, "one answer"
                return sent[4:]
            if self.broker.next_deadline_ms() > self.now_ms:
                self.now_ms += WAIT_MS
            effects = self.step(TimeAdvanced())
        raise AssertionError("no answer")

    def controller_answers(self, body: Any) -> None:
        """Answer what was asked of the controller first."""
        self.step(Answered(self.asks.pop(0).token, body))
