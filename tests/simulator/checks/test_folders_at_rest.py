"""At rest the partition folders of every broker are those of its image."""

import pytest

from broker_publisher.local_changes import local_partitions
from simulator.checks.liveness.liveness import why_folders_differ
from storage.log_dir.partition_directories import create_partition_directory
from tests.simulator.worlds import follower, quiet_world


@pytest.fixture
def world():
    return quiet_world()


def test_folders_like_the_image_are_at_rest(world):
    world.run(world.scheduler.now_us + 3_000_000)
    assert world.machines[1].kernel.cache.image.topics
    assert [why_folders_differ(machine) for machine in world.machines.values()] == [""] * 4


def test_a_folder_that_is_left_is_told(world):
    machine = follower(world)
    world.run(world.scheduler.now_us + 3_000_000)
    create_partition_directory(machine.vfs, "/data", "gone", 0, b"g" * 16)
    assert why_folders_differ(machine).endswith("lacks the folders [] and has ['gone-0']")


def test_a_folder_of_another_topic_of_that_name_is_told(world):
    machine = follower(world)
    world.run(world.scheduler.now_us + 3_000_000)
    one = local_partitions(machine.kernel.cache.image, machine.config.node_id)[0]
    name = f"{one.topic_name}-{one.partition}"
    machine.vfs.unlink(f"/data/{name}/partition.metadata")
    other_id = bytes(reversed(one.topic_id))
    create_partition_directory(machine.vfs, "/data", one.topic_name, one.partition, other_id)
    names = f"['{name}']"
    assert why_folders_differ(machine).endswith(f"lacks the folders {names} and has {names}")
