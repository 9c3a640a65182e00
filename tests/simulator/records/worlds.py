"""A small quiet cluster with records to tamper with: three combined nodes, no faults."""

import pytest

from simulator.checks.violation import Violation
from simulator.cluster.streams import Streams
from simulator.records.run import come_to_rest
from simulator.records.world import RecordsWorld
from tests.simulator.worlds import quiet_settings


def quiet_records(until_us=1_500_000, plan=(), **more):
    """A world with records that ran so long."""
    settings = quiet_settings(observer_count=0, hands_over=False, **more)
    world = RecordsWorld(settings, Streams(1), list(plan))
    world.start()
    world.run(until_us)
    return world


def rested(world=None):
    """A world that has come to rest."""
    world = quiet_records() if world is None else world
    come_to_rest(world)
    return world


def topic_of(world):
    image = world.ledger.image
    return image.topics[image.topic_id_by_name["records"]]


def key_of(world, partition=0):
    return world.ledger.image.topic_id_by_name["records"], partition


def leader_of(world, partition=0):
    """The machine that leads a partition."""
    return world.nodes[int(topic_of(world).partitions[partition].leader)]


def follower_of(world, partition=0):
    led = leader_of(world, partition).id
    return next(m for m in world.nodes.values() if m.id != led)


def replica_of(world, machine, partition=0):
    return machine.records.broker._replicas.partitions[key_of(world, partition)]


def segments_of(machine, partition=0):
    directories = [f"{log_dir}/records-{partition}" for log_dir in machine.config.log_dirs]
    directory = next(each for each in directories if machine.vfs.is_directory(each))
    return [f"{directory}/{n}" for n in machine.vfs.list(directory) if n.endswith(".log")]


def stored_at(world, machine, partition=0):
    """Batches of a replica."""
    return world.record_checks.stored(machine, key_of(world, partition))


def broken(invariant, act):
    with pytest.raises(Violation) as caught:
        act()
    assert caught.value.invariant == invariant, str(caught.value)
    return str(caught.value)
