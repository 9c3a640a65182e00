"""A running quorum on disks that are full or broken: no damage, no silence, one clear line."""

import errno

import pytest

from kernel import effects as out
from kernel import events
from kernel.config import MetadataLogConfig
from network.timers import FULL_DISK
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.partition_metadata import read_partition_metadata
from storage.space_reserve import RESERVE_BYTES, RESERVE_NAME
from storage.vfs import write_file_atomically
from tests.kernel.harness import World, create_topic_body, delete_topic_body
from tests.kernel.test_kernel import log_bytes, ready_world, topic_names
from wire.errors import ErrorCode


def said(world: World, node_id: int, event: str) -> list[out.Log]:
    return [log for log in world.nodes[node_id].logs if log.event == event]


def fill(world: World, node_id: int) -> MemoryVfs:
    """From now on the disk takes nothing more."""
    vfs = world.nodes[node_id].vfs
    vfs.bytes_max = vfs.used_bytes()
    return vfs


def leader_of(world: World) -> int:
    leader = world.active()
    assert leader is not None
    return leader


def are_equal(world: World) -> bool:
    ends = {world.kernel(i).log.end_offset for i in world.alive}
    return len(ends) == 1 and len({log_bytes(world, i, max(ends)) for i in world.alive}) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_leader_on_a_full_disk_hands_over_and_comes_back(seed: int) -> None:
    world = ready_world(seed=seed)
    full = leader_of(world)
    other = next(i for i in world.alive if i != full)
    vfs = fill(world, full)
    assert world.client(other).create_topic("a").error_code is ErrorCode.none
    assert world.active() not in (None, full)
    world.run_for(10_000)
    assert world.nodes[full].kernel is not None, world.nodes[full].exit
    (line,) = said(world, full, "disk_full")
    assert line.level is out.LogLevel.ERROR
    assert "no space left on device" in str(line.fields["error"])
    assert world.client(other).create_topic("b").error_code is ErrorCode.none
    vfs.bytes_max = None
    world.run_until(lambda: {"a", "b"} <= topic_names(world, full))
    world.run_until(lambda: are_equal(world))
    assert len(said(world, full, "disk_has_space_again")) == 1
    assert vfs.exists(f"/data/{RESERVE_NAME}")
    world.kill(full)
    world.start(full)  # nothing to repair
    assert not said(world, full, "log_repaired")


def test_a_follower_on_a_full_disk_says_so_once_and_catches_up() -> None:
    world = ready_world()
    full = next(i for i in world.alive if i != world.active())
    leader = leader_of(world)
    vfs = fill(world, full)
    for number in range(5):
        assert world.client(leader).create_topic(f"t{number}").error_code is ErrorCode.none
    world.run_for(10_000)
    assert len(said(world, full, "disk_full")) == 1
    assert world.active() == leader
    steps = world.steps
    world.run_for(2_000)
    assert world.steps - steps < 600, "a full disk must not make it ask without a pause"
    vfs.bytes_max = None
    world.run_until(lambda: are_equal(world))
    assert {f"t{number}" for number in range(5)} <= topic_names(world, full)


def test_a_node_alone_answers_with_a_time_out_and_goes_on() -> None:
    world = ready_world(1)
    vfs = fill(world, 1)
    answer = world.client(1).create_topic("a")
    assert answer.error_code is ErrorCode.request_timed_out
    assert len(said(world, 1, "disk_full")) == 1
    vfs.bytes_max = None
    world.run_until(world.is_ready)
    assert world.client(1).create_topic("b").error_code is ErrorCode.none
    world.kill(1)
    world.start(1)
    world.run_until(world.is_ready)
    assert "b" in topic_names(world, 1)
    assert not said(world, 1, "log_repaired")


@pytest.mark.parametrize("count", [1, 3])
def test_a_node_that_starts_on_a_full_disk_says_so_once(count: int) -> None:
    """No write was tried: only the reserve, which could not be filled, tells."""
    world = ready_world(count)
    for node_id in list(world.alive):
        world.kill(node_id)
        vfs = world.nodes[node_id].vfs
        if vfs.exists(f"/data/{RESERVE_NAME}"):
            vfs.unlink(f"/data/{RESERVE_NAME}")
        vfs.bytes_max = vfs.used_bytes() + RESERVE_BYTES - 1
        world.start(node_id)
    world.run_for(5_000)
    for node_id in world.alive:
        (line,) = said(world, node_id, "disk_full")
        assert line.level is out.LogLevel.ERROR
        assert line.fields["error"] == f"/data/{RESERVE_NAME}: no space left on device"
        world.nodes[node_id].vfs.bytes_max = None
    world.run_until(world.is_ready)
    assert world.client(1).create_topic("a").error_code is ErrorCode.none
    world.run_for(1_000)
    assert len(said(world, 1, "disk_has_space_again")) == 1
    assert are_equal(world)


@pytest.mark.parametrize("is_timer_first", [False, True])
def test_what_a_node_alone_takes_in_the_turn_of_its_retry_is_written_after_it(
    is_timer_first: bool,
) -> None:
    """The retried batches have the lower offsets, whatever arrived before or after the timer."""
    world = ready_world(1)
    vfs = fill(world, 1)
    client = world.client(1)
    created = client.send(19, create_topic_body("a"))
    world.run_for(600)
    writer = world.kernel(1).writer
    retry_ms = writer._timers.at_ms[FULL_DISK]
    world.run_for(retry_ms - 1 - world.now_ms)
    vfs.bytes_max = None
    deleted, content = client.connection.request(20, delete_topic_body("none"))
    second, more = client.connection.request(19, create_topic_body("b"))
    world.now_ms = retry_ms
    arrived = events.BytesReceived(client.pipe.server[2], content + more)
    together = [arrived, events.TimeAdvanced()]
    world.post_all(1, together[::-1] if is_timer_first else together)
    world.run_until(lambda: {created, deleted, second} <= client.answers.keys())
    assert client.answers[created].topics[0].error_code is ErrorCode.none
    assert client.answers[second].topics[0].error_code is ErrorCode.none
    assert topic_names(world, 1) >= {"a", "b"}


def test_all_disks_full_and_space_again() -> None:
    world = ready_world()
    client = world.client(1)
    for node_id in world.alive:
        fill(world, node_id)
    answer = client.create_topic("a")
    assert answer.error_code in (ErrorCode.request_timed_out, ErrorCode.not_controller)
    world.run_for(10_000)
    assert len(world.alive) == 3, [node.exit for node in world.nodes.values()]
    assert all(len(said(world, i, "disk_full")) == 1 for i in world.alive)
    for node in world.nodes.values():
        node.vfs.bytes_max = None
    world.run_until(world.is_ready, 40_000)
    assert client.create_topic("b").error_code is ErrorCode.none
    world.run_for(2_000)
    assert are_equal(world)


def test_elections_go_on_with_the_reserve() -> None:
    world = ready_world()
    full = next(i for i in world.alive if i != world.active())
    fill(world, full)
    world.run_for(2_000)
    world.kill(leader_of(world))
    world.run_for(5_000)  # the full node votes, which takes a new quorum-state
    assert world.nodes[full].kernel is not None, world.nodes[full].exit
    assert world.kernel(full).core.leader.epoch > 1


def test_a_failed_fsync_ends_the_node_and_names_the_file() -> None:
    world = ready_world()
    broken = leader_of(world)
    vfs = world.nodes[broken].vfs
    vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and ".log" in path else None
    other = next(i for i in world.alive if i != broken)
    answer = world.client(other).create_topic("a")  # the followers had it: written twice at most
    assert answer.error_code in (ErrorCode.none, ErrorCode.topic_already_exists)
    exit_effect = world.nodes[broken].exit
    assert exit_effect is not None
    assert exit_effect.code == 1
    assert exit_effect.reason.startswith("FsyncError: /data/__cluster_metadata-0/0000")
    assert ".log: fsync failed: " in exit_effect.reason
    vfs.failing = None
    world.kill(broken)
    world.start(broken)
    world.run_until(lambda: "a" in topic_names(world, broken))


def test_a_read_error_ends_the_node_and_names_the_file() -> None:
    world = ready_world()
    leader = leader_of(world)
    broken = next(i for i in world.alive if i != leader)
    vfs = world.nodes[broken].vfs
    vfs.failing = lambda kind, path: errno.EIO if kind == "read" and ".log" in path else None
    assert world.client(leader).create_topic("a").error_code is ErrorCode.none
    world.run_for(1_000)
    exit_effect = world.nodes[broken].exit
    assert exit_effect is not None
    assert exit_effect.code == 1
    assert "00000000.log" in exit_effect.reason
    assert world.client(leader).create_topic("b").error_code is ErrorCode.none


def test_a_write_error_ends_the_node_and_the_log_is_whole() -> None:
    world = ready_world()
    broken = leader_of(world)
    vfs = world.nodes[broken].vfs
    vfs.failing = lambda kind, path: errno.EIO if kind == "write" and ".log" in path else None
    other = next(i for i in world.alive if i != broken)
    assert world.client(other).create_topic("a").error_code is ErrorCode.none
    exit_effect = world.nodes[broken].exit
    assert exit_effect is not None
    assert exit_effect.code == 1
    vfs.failing = None
    vfs.kill()
    world.start(broken)
    assert not said(world, broken, "log_repaired")
    world.run_until(lambda: "a" in topic_names(world, broken))


def test_a_snapshot_that_finds_no_space_is_given_up_with_a_line() -> None:
    config = MetadataLogConfig(snapshot_interval_ms_max=3_000, idle_interval_ms_max=0)
    world = World(1, metadata_log=config)
    world.start_all()
    world.run_until(world.is_ready)
    vfs = fill(world, 1)
    world.run_for(4_000)
    (line,) = said(world, 1, "snapshot_not_written")
    assert "no space left" in str(line.fields["error"])
    vfs.bytes_max = None
    world.run_for(1_000)
    assert world.client(1).create_topic("a").error_code is ErrorCode.none
    world.run_until(lambda: bool(said(world, 1, "snapshot_written")))


def test_folder_work_that_failed_is_done_again_before_what_comes_after_it() -> None:
    """A deletion that was dropped would stand in the way of the next topic of that name."""
    world = ready_world()
    client = world.client(1)
    client.create_topic("a", replicas=3)
    client.create_topic("b", replicas=3)
    world.run_for(2_000)
    vfs = world.nodes[1].vfs
    vfs.failing = lambda kind, path: errno.EIO if kind == "rename" and "/a-0" in path else None
    client.delete_topic("a")
    client.delete_topic("b")
    world.run_for(3_000)
    assert said(world, 1, "local_changes_failed")
    client.create_topic("a", replicas=3)
    world.run_for(3_000)
    assert vfs.exists("/data/b-0"), "in order: nothing passes what failed"
    vfs.failing = None
    world.run_for(3_000)
    assert not vfs.exists("/data/b-0")
    topic_id = world.kernel(1).cache.image.topic_id_by_name["a"]
    assert read_partition_metadata(vfs, "/data/a-0") == topic_id
    done = len(said(world, 1, "local_changes_failed"))
    world.run_for(5_000)
    assert len(said(world, 1, "local_changes_failed")) == done


def test_folder_work_done_again_leaves_the_folder_of_the_next_topic() -> None:
    """The failed change came after a topic was deleted and created anew, in one piece of work."""
    world = ready_world()
    client = world.client(1)
    client.create_topic("a", replicas=3)
    world.run_for(2_000)
    vfs = world.nodes[1].vfs
    vfs.failing = lambda kind, path: errno.EIO if path.startswith("/data/c-0") else None
    client.delete_topic("a")
    client.create_topic("a", replicas=3)
    client.create_topic("c", replicas=3)
    world.run_for(500)
    assert said(world, 1, "local_changes_failed")
    write_file_atomically(vfs, "/data/a-0/00000000000000000000.log", b"records")
    vfs.failing = None
    world.run_for(3_000)
    assert vfs.read("/data/a-0/00000000000000000000.log") == b"records"
    assert vfs.exists("/data/c-0/partition.metadata")


def test_a_failed_fsync_of_a_folder_ends_the_node() -> None:
    world = ready_world()
    vfs = world.nodes[1].vfs
    vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and "/a-0" in path else None
    world.client(2).create_topic("a", replicas=3)
    world.run_for(3_000)
    exit_effect = world.nodes[1].exit
    assert exit_effect is not None
    assert exit_effect.code == 1
    assert "/data/a-0" in exit_effect.reason


@pytest.mark.parametrize("records", [b"", b"records"])
def test_a_folder_whose_topic_id_was_never_written_goes_with_its_topic(records: bytes) -> None:
    """Unless it holds records: where these come from nobody knows."""
    world = ready_world()
    client = world.client(2)
    vfs = world.nodes[1].vfs
    vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and "/a-0" in path else None
    client.create_topic("a", replicas=3)
    world.run_for(1_000)
    assert world.nodes[1].exit is not None
    vfs = world.nodes[1].vfs
    vfs.failing = None
    assert vfs.exists("/data/a-0")
    if records:
        write_file_atomically(vfs, "/data/a-0/00000000000000000000.log", records)
    vfs.sync_directory("/data")
    world.run_until(lambda: client.delete_topic("a").error_code is ErrorCode.none, 20_000)
    world.kill(1)
    world.start(1)
    world.run_until(world.is_ready, 40_000)
    world.run_for(2_000)
    assert world.nodes[1].vfs.exists("/data/a-0") is bool(records)
