"""Voters that lost their disk: marked folders, votes withheld, and the records that stay.

The rules of the core are scenarios (tests/scenarios/raft/lost_disk*.txt, unproven_*.txt).
"""

import errno
import json
import random

import pytest
from msgspec.structs import replace

from kernel.effects import LogLevel
from kernel.quorum.unproven_voters import check_has_state
from raft.roles import Candidate, Leader, Prospective
from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.errors import CorruptFileError
from storage.space_reserve import RESERVE_NAME
from tests.kernel.dynamic import FIRST, dynamic_world
from tests.kernel.harness import World, config_of
from tests.kernel.quorum.test_disk_faults import leader_of, said
from tests.kernel.test_kernel import ready_world, topic_names
from tests.storage import golden

MARK = "/data/.unproven"
QUORUM_STATE = "/data/__cluster_metadata-0/quorum-state"


def wipe(world: World, node_id: int, *, wipes: int = 1) -> None:
    """Put an empty formatted disk into a node that is down."""
    node = world.nodes[node_id]
    assert node.kernel is None
    node.wipes += wipes
    node.vfs = MemoryVfs()
    node.vfs.make_directory("/data")
    node.vfs.sync_directory("/")


def are_marked(world: World) -> set[int]:
    return {node_id for node_id, node in world.nodes.items() if node.vfs.exists(MARK)}


def world_with_a_lost_disk() -> tuple[World, int, int, int]:
    """A topic that only two of three voters have; one of them is down, the other lost its disk.

    Returns:
        The world, the id of the former leader, of the wiped voter, and of the one without topic.
    """
    world = ready_world()
    led = leader_of(world)
    wiped, behind = [i for i in world.alive if i != led]
    world.kill(behind)
    assert world.client(led).create_topic("kept").error_code == 0
    world.run_until(lambda: "kept" in topic_names(world, wiped))
    world.kill(led)
    world.kill(wiped)
    wipe(world, wiped)
    world.start(behind)
    world.start(wiped)
    return world, led, wiped, behind


def test_a_new_quorum_is_marked_until_its_first_election() -> None:
    world = World(3)
    world.start_all()
    assert are_marked(world) == {1, 2, 3}
    world.run_until(world.is_ready)
    world.run_for(1_000)
    assert are_marked(world) == set()
    for node_id, node in world.nodes.items():
        assert not world.kernel(node_id).core.is_unproven
        assert len(said(world, node_id, "voter_proven")) == 1
        assert node.vfs.crash().exists(MARK) is False, "removed for good"
        assert not said(world, node_id, "vote_withheld")


@pytest.mark.parametrize(("voters", "is_marked"), [(3, True), (0, False)])
def test_a_controller_that_was_never_a_voter_is_not_marked(voters: int, *, is_marked: bool) -> None:
    """It becomes one of a dynamic quorum, of which its new directory id acknowledged nothing."""
    world = World(1)
    world.nodes[1].config = replace(
        world.nodes[1].config,
        voters=config_of(1, voters).voters,
        bootstrap_servers=(("2", 9093),),
    )
    world.start(1)
    assert are_marked(world) == ({1} if is_marked else set())


def test_a_voter_that_is_proven_is_not_marked_again() -> None:
    world = ready_world()
    world.run_for(1_000)
    world.kill(1)
    world.start(1)
    assert are_marked(world) == set()
    assert not world.kernel(1).core.is_unproven


def test_the_first_start_of_a_broker_marks_nothing() -> None:
    world = World(2)
    world.nodes[2].config = replace(world.nodes[2].config, is_controller=False)
    world.start(2)
    assert are_marked(world) == set()


def test_a_voter_that_lost_its_disk_elects_no_voter_without_the_records() -> None:
    world, led, wiped, behind = world_with_a_lost_disk()
    world.run_for(20_000)
    assert [i for i in world.alive if world.kernel(i).core.is_leader] == []
    assert are_marked(world) == {wiped}
    (line,) = said(world, wiped, "vote_withheld")
    assert line.level is LogLevel.WARN
    assert line.fields["candidate_id"] == behind
    assert "kraftline recover" in str(line.fields["if_no_leader_is_elected"])
    world.start(led)
    world.run_until(world.is_ready)
    world.run_until(lambda: all("kept" in topic_names(world, i) for i in world.alive))
    world.run_until(lambda: not are_marked(world))


def test_without_the_mark_the_records_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control of the test before: what Kafka does."""
    monkeypatch.setattr("kernel.opening.mark_new_folder", lambda *_: None)
    world, _, _, _ = world_with_a_lost_disk()
    world.run_until(world.is_ready)
    assert not any("kept" in topic_names(world, i) for i in world.alive)


def test_a_static_voter_with_a_log_and_no_quorum_state_is_refused() -> None:
    world = ready_world()
    world.kill(1)
    vfs = world.nodes[1].vfs
    vfs.unlink(QUORUM_STATE)
    before = vfs.operations
    with pytest.raises(CorruptFileError) as caught:
        world.start(1)
    assert caught.value.path == QUORUM_STATE
    assert "the epoch and the vote of this voter are lost" in str(caught.value)
    assert "kraftline recover" in str(caught.value)
    assert vfs.operations == before, "nothing was changed"


@pytest.mark.parametrize(
    ("name", "content", "is_refused"),
    [
        ("00000000000000000000.log", b"x", True),
        ("00000000000000000007-0000000002.checkpoint", b"", True),
        ("00000000000000000000.log", b"", False),
        ("00000000000000000000-0000000000.checkpoint", b"x", False),
        ("00000000000000000000.index", b"x", False),
    ],
)
def test_a_log_is_not_empty_by_its_segments_and_its_snapshots(
    name: str, content: bytes, *, is_refused: bool
) -> None:
    vfs = MemoryVfs()
    check_has_state(vfs, "/data")
    golden.put(vfs, f"/data/__cluster_metadata-0/{name}", content)
    if is_refused:
        with pytest.raises(CorruptFileError):
            check_has_state(vfs, "/data")
        golden.put(vfs, QUORUM_STATE, b"{}")
    check_has_state(vfs, "/data")


def test_a_dynamic_voter_that_lost_quorum_state_stands_for_no_election() -> None:
    """Its directory id says that it is the voter; until it has caught up it is unproven."""
    world = dynamic_world(3, 1, 2, 3)
    world.start_all()
    world.run_until(world.is_ready)
    world.run_for(1_000)
    assert are_marked(world) == set()
    for node_id in (1, 2, 3):
        world.kill(node_id)
    world.nodes[1].vfs.unlink(QUORUM_STATE)
    world.start(1)
    core = world.kernel(1).core
    assert core.is_voter
    assert core.is_unproven
    end_ms = world.now_ms + 10_000
    while world.now_ms < end_ms:
        world.advance_once()
        assert not isinstance(core.role, Prospective | Candidate | Leader)
    world.start(2)
    world.start(3)
    world.run_until(world.is_ready)
    world.run_until(lambda: not are_marked(world))


@pytest.mark.parametrize("wipes", [0, 1])
def test_a_dynamic_voter_with_a_new_disk_is_no_voter_or_unproven(wipes: int) -> None:
    """Another directory id is another replica; the old one, formatted anew by hand, is marked."""
    world = dynamic_world(3, 1, 2, 3)
    world.start_all()
    world.run_until(world.is_ready)
    wiped = next(i for i in world.alive if i != leader_of(world))
    content = world.nodes[wiped].vfs.read(FIRST)
    world.kill(wiped)
    wipe(world, wiped, wipes=wipes)
    golden.put(world.nodes[wiped].vfs, FIRST, content)
    world.start(wiped)
    core = world.kernel(wiped).core
    assert (core.is_voter, core.is_unproven) == (wipes == 0, True)
    if wipes:
        leader = world.kernel(leader_of(world)).core
        world.run_until(lambda: leader.observer_count == 1)
        assert core.is_unproven, "it is counted among the observers before"
    world.run_until(lambda: not core.is_unproven)
    assert core.is_voter is (wipes == 0)
    assert are_marked(world) == set()


def test_a_full_disk_keeps_no_mark() -> None:
    """The voter is proven by its election; the first record of its epoch waits for space."""
    world = World(1)
    vfs = world.nodes[1].vfs
    vfs.failing = lambda kind, path: (
        errno.ENOSPC if kind == "write" and path.endswith(RESERVE_NAME) else None
    )
    world.start(1)
    assert world.kernel(1).writer.is_disk_full
    assert world.kernel(1).core.is_leader
    assert are_marked(world) == set()
    assert world.kernel(1).log.end_offset == 0


def elected_epoch(vfs: MemoryVfs) -> int:
    """Epoch in quorum-state if it names a leader, else 0."""
    if not vfs.exists(QUORUM_STATE):
        return 0
    stored = json.loads(vfs.read(QUORUM_STATE))
    return int(stored["leaderEpoch"]) if stored["leaderId"] == 1 else 0


def test_a_crash_at_any_operation_of_the_first_start_keeps_mark_or_election() -> None:
    crashes = 0
    for operation in range(200):
        world = World(1)
        vfs = world.nodes[1].vfs
        vfs.crash_at = vfs.operations + operation
        try:
            world.start(1)
            world.run_for(1_000)
        except SimulatedCrashError:
            crashes += 1
        else:
            break
        world.nodes[1].kernel = None
        left = world.nodes[1].vfs = vfs.crash(random.Random(operation))
        if not left.exists(MARK):
            assert elected_epoch(left) == 1 or not left.exists(QUORUM_STATE), operation
        world.start(1)
        world.run_until(world.is_ready)
        assert are_marked(world) == set()
    assert crashes > 30
