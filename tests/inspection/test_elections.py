"""Leaders from the ISR, the ELR and from neither, as images that follow each other."""

import pytest
from msgspec.structs import replace

from inspection.elections import Elections
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, NO_LEADER, Partition, Topic
from wire.types import NodeId, TopicId

ORDERS = TopicId(bytes(15) + b"\x01")


def image_of(partition: Partition | None):
    if partition is None:
        return EMPTY
    topic = Topic(topic_id=ORDERS, name="orders", partitions=EMPTY.topics.set(0, partition))
    return replace(EMPTY, topics=EMPTY.topics.set(ORDERS, topic))


def partition(leader: int, isr=(), elr=()) -> Partition:
    replicas = (NodeId(1), NodeId(2), NodeId(3))
    return Partition(replicas=replicas, isr=isr, elr=elr, leader=NodeId(leader))


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        (partition(1, isr=(1, 2)), partition(2, isr=(2,)), (0, 0)),
        (partition(1, isr=(1,)), partition(NO_LEADER, isr=(1,)), (0, 0)),
        (partition(NO_LEADER, isr=(1,)), partition(1, isr=(1,)), (0, 0)),
        (partition(NO_LEADER, isr=(1,)), partition(3, isr=(3,)), (1, 0)),
        (partition(NO_LEADER, elr=(2,)), partition(2, isr=(2,)), (0, 1)),
        (partition(NO_LEADER, elr=(2,)), partition(3, isr=(3,)), (1, 0)),
        (partition(2, isr=(2,)), partition(2, isr=(2, 3)), (0, 0)),
        (None, partition(2, isr=(2,)), (0, 0)),
    ],
)
def test_an_election_is_counted_by_where_its_leader_comes_from(before, after, counts) -> None:
    delta = MetadataDelta(partitions_changed={(ORDERS, 0)})
    (delta.topics_created if before is None else delta.topics_changed).add(ORDERS)
    elections = Elections()
    elections.publish(image_of(before), image_of(after), delta)
    assert (elections.unclean, elections.from_elr) == counts
