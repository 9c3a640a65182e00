"""The log directory of a partition that the controller assigned to none."""

from uuid import UUID

import pytest
from msgspec.structs import replace

from kernel.effects import Effect, RunLocalChanges
from kernel.lifecycle.folders import Folders
from metadata.apply import apply
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, METADATA_VERSION, Image
from metadata.records import (
    CONFIG_BROKER,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from network.clock import Clock, Now
from simulator.cluster.memory_vfs import MemoryVfs
from tests.kernel.harness import config_of
from wire.types import (
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
)

IDS = {path: DirectoryId(bytes([number]) * 16) for path, number in (("/a", 1), ("/b", 2))}
UNASSIGNED = DirectoryId(bytes(16))
INCARNATION = UUID(int=5).bytes


def image_with(cordoned: str, *topics: tuple[str, DirectoryId]) -> Image:
    records = [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=30),
        RegisterBrokerRecord(
            broker_id=NodeId(1), incarnation_id=INCARNATION, broker_epoch=BrokerEpoch(7)
        ),
        ConfigRecord(
            resource_type=CONFIG_BROKER,
            resource_name="1",
            name="cordoned.log.dirs",
            value=cordoned,
        ),
    ]
    image = EMPTY
    for name, directory in topics:
        topic_id = TopicId(name.encode() * 16)
        records += [
            TopicRecord(name=name, topic_id=topic_id),
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id,
                replicas=(NodeId(1),),
                isr=(NodeId(1),),
                leader=NodeId(1),
                leader_epoch=LeaderEpoch(0),
                partition_epoch=PartitionEpoch(0),
                directories=(directory,),
            ),
        ]
    for offset, record in enumerate(records):
        image = apply(image, record, offset, MetadataDelta())
    return image


class Broker:
    """The folders of a broker with the log directories /a and /b."""

    def __init__(self) -> None:
        self.vfs = MemoryVfs()
        for path in IDS:
            self.vfs.make_directory(path)
        self.image = EMPTY

    def start(self) -> "Broker":
        self.clock = Clock(Now(0, 0))
        self.effects: list[Effect] = []
        self.folders = Folders(
            replace(config_of(1), log_dirs=("/a", "/b")),
            self.vfs,
            dict(IDS),
            INCARNATION,
            lambda: bytes(16),
            clock=self.clock,
            effects=self.effects,
        )
        self.image = EMPTY
        return self

    def publish(self, image: Image) -> None:
        """Publish an image, and do what the other thread is asked for."""
        delta = MetadataDelta()
        delta.partitions_changed.update((topic_id, 0) for topic_id in image.topics)
        self.folders.publish(self.image, image, delta)
        self.image = image
        self.clock.set(Now(self.clock.now_ms + 2_000, 0))
        self.folders.tick()
        for effect in self.effects:
            assert isinstance(effect, RunLocalChanges)
            effect.work()
            self.folders.done(None)
        self.effects.clear()

    def places(self) -> list[str]:
        """The partition directories there are."""
        return sorted(f"{path}/{name}" for path in IDS for name in self.vfs.list(path))


@pytest.mark.parametrize(
    ("cordoned", "place"),
    [("", "/a/t-0"), ("/a", "/b/t-0"), ("/b", "/a/t-0"), ("*", "/a/t-0")],
)
def test_it_is_the_first_that_is_not_cordoned(cordoned: str, place: str) -> None:
    broker = Broker().start()
    broker.publish(image_with(cordoned))
    broker.publish(image_with(cordoned, ("t", UNASSIGNED)))
    assert broker.places() == [place]


def test_at_start_too() -> None:
    broker = Broker().start()
    broker.publish(image_with("/a", ("t", UNASSIGNED)))
    assert broker.places() == ["/b/t-0"]


def test_one_that_has_a_directory_stays_there() -> None:
    broker = Broker().start()
    broker.publish(image_with(""))
    broker.publish(image_with("", ("t", UNASSIGNED)))
    broker.start().publish(image_with("/a", ("t", UNASSIGNED)))
    assert broker.places() == ["/a/t-0"]
    broker.publish(image_with("/a", ("t", UNASSIGNED), ("u", UNASSIGNED)))
    assert broker.places() == ["/a/t-0", "/b/u-0"]
    broker.start().publish(image_with("/b", ("t", UNASSIGNED), ("u", UNASSIGNED)))
    assert broker.places() == ["/a/t-0", "/b/u-0"]


def test_an_assignment_counts_before_a_cordon() -> None:
    broker = Broker().start()
    broker.publish(image_with("/b"))
    broker.publish(image_with("/b", ("t", IDS["/b"])))
    assert broker.places() == ["/b/t-0"]
