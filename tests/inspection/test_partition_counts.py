"""Counts of partitions in the metadata, as the ReplicaManager of the node would count them."""

from inspection.partition_counts import PartitionCounts, count
from inspection.running_node import RunningNode
from tests.broker.metadata_log import MetadataLog
from tests.inspection.conftest import ready_world


def test_partitions_led_here_by_their_isr() -> None:
    log = MetadataLog()
    log.topic(partitions=4, replicas=(1, 2, 3), min_insync_replicas="2")
    log.topic("b", replicas=(2, 1), leader=2)
    log.change(1, isr=(1, 2))
    log.change(2, isr=(1,))
    log.change(3, isr=(2, 3), leader=2)
    counts = count(log.image, 1, 1)
    assert (counts.partitions, counts.hosted_here, counts.led_here) == (5, 5, 3)
    assert counts.under_replicated_here == 2
    assert counts.at_min_isr_here == 1
    assert counts.under_min_isr_here == 1
    assert (counts.offline, counts.imbalanced) == (0, 1)


def test_partitions_led_here_that_are_being_reassigned() -> None:
    log = MetadataLog()
    log.topic(partitions=4, replicas=(1, 2, 3))
    log.change(1, adding_replicas=(3,))
    log.change(2, removing_replicas=(3,))
    log.change(3, removing_replicas=(3,), leader=2)
    assert count(log.image, 1, 1).reassigning_here == 2


def test_more_in_sync_replicas_than_there_are_cannot_be_asked_for() -> None:
    log = MetadataLog()
    log.topic(replicas=(1, 2), min_insync_replicas="5")
    counts = count(log.image, 1, 1)
    assert (counts.at_min_isr_here, counts.under_min_isr_here) == (1, 0)
    log.change(isr=(1,))
    assert count(log.image, 1, 1).under_min_isr_here == 1


def test_an_image_is_counted_once() -> None:
    world = ready_world()
    kernel = world.kernel(1)
    counts = PartitionCounts(RunningNode(kernel, world._now))
    first = counts.newest()
    assert first.partitions == 6
    assert counts.newest() is first
    world.run_for(1_000)
    assert counts.newest() is first, "only NoOp records were committed"
    world.client(1).create_topic("more")
    world.run_for(100)
    assert counts.newest().partitions == 7
