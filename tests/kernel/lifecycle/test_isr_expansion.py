"""Replicas that are back are asked into the ISR by the leaders of their partitions."""

import errno

from kernel.lifecycle.isr_expansion import PARTITIONS_PER_REQUEST
from metadata.apply import apply_all
from metadata.delta import MetadataDelta
from metadata.image import Partition
from metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from storage.log_dir.partition_directories import partition_directory_name
from storage.vfs import join
from tests.kernel.harness import World
from tests.kernel.test_kernel import ready_world
from wire.errors import ErrorCode
from wire.types import NodeId


def partitions(world: World, topic: str) -> list[Partition]:
    """As the active controller has them committed."""
    active = world.active()
    assert active is not None
    image = world.kernel(active).cache.image
    found = image.topics[image.topic_id_by_name[topic]].partitions
    return [found[number] for number in sorted(found)]


def are_whole(world: World, topic: str) -> bool:
    return world.active() is not None and all(
        set(p.isr) == set(p.replicas) and p.leader >= 0 for p in partitions(world, topic)
    )


def restart(world: World, node_id: int) -> None:
    world.terminate(node_id)
    world.run_until(lambda: world.nodes[node_id].kernel is None)
    world.run_until(lambda: world.active() is not None)
    world.start(node_id)
    world.run_until(world.is_ready, 40_000)


def test_a_rolling_restart_leaves_every_replica_in_sync() -> None:
    world = ready_world()
    assert world.client(1).create_topic("a", partitions=9, replicas=3).error_code is ErrorCode.none
    for node_id in (1, 2, 3):
        restart(world, node_id)
        assert world.run_until(lambda: are_whole(world, "a")) < 1_000


def test_after_a_kill_too_and_the_order_of_the_isr_is_kept() -> None:
    world = ready_world()
    world.client(1).create_topic("a", partitions=1, replicas=3)
    leader = partitions(world, "a")[0].leader
    world.kill(leader)
    world.run_until(lambda: world.active() is not None)
    world.run_until(lambda: leader not in partitions(world, "a")[0].isr, 40_000)
    kept = partitions(world, "a")[0].isr
    world.start(leader)
    world.run_until(lambda: are_whole(world, "a"), 40_000)
    assert partitions(world, "a")[0].isr == (*kept, NodeId(leader))


def test_what_a_controller_took_along_is_asked_of_the_next_one() -> None:
    world = ready_world()
    world.client(1).create_topic("a", partitions=9, replicas=3)
    active = world.active()
    assert active is not None
    back, asking = (node_id for node_id in (1, 2, 3) if node_id != active)
    expansion = world.kernel(asking).isr_expansion
    assert expansion is not None
    world.kill(back)
    world.run_until(lambda: all(back not in p.isr for p in partitions(world, "a")), 40_000)
    world.start(back)
    world.run_until(lambda: expansion._is_waiting, 40_000)
    world.kill(active)
    world.run_until(lambda: world.active() is not None)
    world.run_until(
        lambda: all(back in p.isr for p in partitions(world, "a") if p.leader == asking), 40_000
    )
    assert any(p.leader == asking for p in partitions(world, "a"))


def test_who_leaves_again_before_it_is_asked_for_is_asked_for_when_it_returns() -> None:
    world = ready_world()
    world.client(1).create_topic("a", partitions=3, replicas=3)
    world.run_for(200)
    active = world.active()
    number, partition = next(
        (n, p) for n, p in enumerate(partitions(world, "a")) if p.leader != active
    )
    kernel = world.kernel(partition.leader)
    expansion, image = kernel.isr_expansion, kernel.cache.image
    assert expansion is not None
    back = partition.replicas[-1]
    epoch = image.brokers[back].epoch
    leaves = BrokerRegistrationChangeRecord(broker_id=back, broker_epoch=epoch, fenced=1)
    returns = BrokerRegistrationChangeRecord(broker_id=back, broker_epoch=epoch, fenced=-1)
    shrinks = PartitionChangeRecord(
        topic_id=image.topic_id_by_name["a"], partition_id=number, isr=partition.replicas[:-1]
    )
    for records in ((leaves, shrinks), (returns,), (leaves,)):
        delta = MetadataDelta()
        before, image = image, apply_all(image, records, 0, delta)
        expansion.publish(before, image, delta)
    expansion.tick()
    assert not expansion._is_waiting, "it is away again"
    delta = MetadataDelta()
    expansion.publish(image, apply_all(image, (returns,), 0, delta), delta)
    expansion.tick()
    assert expansion._is_waiting


def test_more_than_one_request_holds() -> None:
    world = ready_world()
    count = PARTITIONS_PER_REQUEST * 2 + 1
    world.client(1).create_topic("a", partitions=count, replicas=3)
    restart(world, 1)
    world.run_until(lambda: are_whole(world, "a"))


def test_a_leader_that_found_records_asks_for_nobody() -> None:
    """Nobody here can say how far its followers are."""
    world = ready_world()
    world.client(1).create_topic("a", partitions=3, replicas=3)
    world.run_for(200)
    number, partition = next((n, p) for n, p in enumerate(partitions(world, "a")) if p.leader == 1)
    folder = join("/data", partition_directory_name("a", number))
    segment = world.nodes[1].vfs.open(join(folder, "0" * 20 + ".log"), create=True)
    segment.pwrite(b"records of another broker", 0)
    segment.sync()
    world.nodes[1].vfs.sync_directory(folder)
    restart(world, 1)
    # The one that leads meanwhile takes it back, so that it leads again when that one leaves.
    world.run_until(lambda: 1 in partitions(world, "a")[number].isr)
    for follower in [i for i in partition.replicas if i != 1]:
        restart(world, follower)
    world.run_for(3_000)
    now = partitions(world, "a")
    others = [p for n, p in enumerate(now) if n != number]
    assert all(set(p.isr) == set(p.replicas) for p in others)
    assert now[number].leader == 1
    assert now[number].isr == (1,)


def test_an_idle_quorum_asks_for_nothing() -> None:
    """Asking goes on only while somebody is missing who may come back."""
    world = ready_world()
    world.client(1).create_topic("a", partitions=6, replicas=3)
    restart(world, 2)
    world.run_until(lambda: are_whole(world, "a"))
    epochs = [p.partition_epoch for p in partitions(world, "a")]
    world.run_for(5_000)
    assert [p.partition_epoch for p in partitions(world, "a")] == epochs


def test_while_the_folders_are_not_known_nobody_is_asked_for() -> None:
    """A folder that could not be read at start may hold records."""
    world = ready_world()
    world.client(1).create_topic("a", partitions=3, replicas=3)
    led = next(n for n, p in enumerate(partitions(world, "a")) if p.leader == 1)
    world.run_for(200)
    world.nodes[1].vfs.failing = lambda kind, path: (
        errno.EIO if kind == "read" and path.endswith(f"/a-{led}/partition.metadata") else None
    )
    for node_id in (1, 2, 3):
        restart(world, node_id)
    world.run_for(3_000)
    folders = world.kernel(1).folders
    assert folders is not None
    assert folders.with_records() is None
    assert any(log.event == "local_changes_failed" for log in world.nodes[1].logs)
    own = [p for p in partitions(world, "a") if p.leader == 1]
    assert own
    assert all(set(p.isr) < set(p.replicas) for p in own)
