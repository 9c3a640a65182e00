"""A broker that cannot register ends after initial.broker.registration.timeout.ms and says why."""

from typing import Any

import pytest

from kernel.config import BrokerConfig
from kernel.formatting import bootstrap_checkpoint
from kernel.lifecycle.registration_refusal import refusal_text
from metadata.features import release_levels
from metadata.image import METADATA_VERSION
from network.peers import GIVE_UP_MS
from storage.log_dir.bootstrap_checkpoint import write_bootstrap_checkpoint
from tests.kernel.harness import Node, World, config_of
from wire.errors import ErrorCode
from wire.messages import codec

UPDATE_FEATURES = 57
LIMIT_MS = 3_000
BROKER = BrokerConfig(initial_registration_timeout_ms=LIMIT_MS)
PREFIX = f"the broker could not register within initial.broker.registration.timeout.ms={LIMIT_MS}: "
SHARE_ONLY = {METADATA_VERSION: 30, "share.version": 1}


def a_world(levels: dict[str, int], **controller: Any) -> World:
    """Node 1 is the controller of a cluster with these levels; node 2 a broker that is down."""
    world = World(1, is_broker=controller.pop("is_broker", False), broker=BROKER, **controller)
    write_bootstrap_checkpoint(world.nodes[1].vfs, "/data", bootstrap_checkpoint(levels, 0))
    world.nodes[2] = Node(config_of(2, 1, is_controller=False, broker=BROKER))
    world.nodes[2].vfs.make_directory("/data")
    world.nodes[2].vfs.sync_directory("/")
    return world


def voters_with(levels: dict[str, int]) -> World:
    """Three combined nodes of a cluster with these levels."""
    world = World(3, broker=BROKER)
    for node in world.nodes.values():
        write_bootstrap_checkpoint(node.vfs, "/data", bootstrap_checkpoint(levels, 0))
    world.start_all()
    return world


def ended(world: World, node_id: int) -> str:
    """The reason of the exit, which comes at the limit and not before."""
    world.run_for(LIMIT_MS - 1)
    assert world.nodes[node_id].exit is None
    world.run_until(lambda: world.nodes[node_id].exit is not None, 20)
    exit_ = world.nodes[node_id].exit
    assert exit_ is not None
    assert exit_.code == 1
    assert exit_.reason.startswith(PREFIX)
    return exit_.reason.removeprefix(PREFIX)


def test_a_broker_names_the_feature_and_both_ranges() -> None:
    world = a_world(SHARE_ONLY)
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    world.start(2)
    assert ended(world, 2) == (
        "share.version is finalized at 1: this broker supports 0 to 0, the controller 0 to 1"
    )


def test_a_combined_node_names_them_too() -> None:
    world = a_world(release_levels(30), is_broker=True)
    world.start(1)
    assert ended(world, 1) == (
        "share.version is finalized at 1: this broker supports 0 to 0, the controller 0 to 1; "
        "streams.version is finalized at 1: this broker supports 0 to 0, the controller 0 to 1"
    )


def test_a_controller_that_is_gone_when_it_is_asked_leaves_the_image() -> None:
    world = a_world(SHARE_ONLY)
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    world.start(2)
    world.run_for(LIMIT_MS - 1)
    world.kill(1)
    world.run_until(lambda: world.nodes[2].exit is not None, 1_000)
    exit_ = world.nodes[2].exit
    assert exit_ is not None
    assert exit_.reason == (PREFIX + "share.version is finalized at 1: this broker supports 0 to 0")


def test_a_registration_that_succeeds_after_the_limit_counts() -> None:
    """It was on its way, and comes back before the features that the broker asked for."""
    world = a_world(SHARE_ONLY)
    world.start(1)
    world.run_until(lambda: world.active() == 1)
    client = world.client(1, "CONTROLLER")
    world.start(2)
    world.run_for(LIMIT_MS - 1_000)
    world.pause(1)
    new = codec.newest(UPDATE_FEATURES, "request")
    to_0 = new.FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    asked = client.send(UPDATE_FEATURES, new.UpdateFeaturesRequest(feature_updates=(to_0,)))
    world.run_for(1_010)
    world.resume(1)
    world.run_until(lambda: asked in client.answers)
    assert client.answers[asked].error_code is ErrorCode.none
    world.run_until(lambda: world.kernel(2).is_unfenced, 2 * LIMIT_MS)
    assert world.nodes[2].exit is None
    assert not [log for log in world.nodes[2].logs if log.event == "registration_timed_out"]


def test_an_answer_about_features_does_not_end_a_shutdown() -> None:
    """The leader that was asked is stopped; its successor waits for one of its own."""
    world = voters_with(SHARE_ONLY)
    world.run_for(LIMIT_MS - 100)
    asked = world.active()
    assert asked is not None
    world.pause(asked)
    others = [world.kernel(i).core for i in {1, 2, 3} - {asked}]
    world.run_until(lambda: any(core.is_leader for core in others))
    (stopped,) = (i for i in world.alive if i != asked and world.kernel(i).core.is_leader)
    for node_id in {1, 2, 3} - {asked, stopped}:
        world.pause(node_id)
    world.terminate(stopped)
    world.run_for(2 * GIVE_UP_MS)
    assert world.nodes[stopped].exit is None
    world.run_until(lambda: world.nodes[stopped].exit is not None)
    exit_ = world.nodes[stopped].exit
    assert exit_ is not None
    assert (exit_.code, exit_.reason) == (0, "shut down")


def test_without_a_controller_the_broker_ends_as_well() -> None:
    world = a_world(SHARE_ONLY)
    world.start(2)
    assert ended(world, 2) == "no active controller"


def test_a_broker_with_a_limit_of_0_ends_at_once() -> None:
    world = World(3, broker=BrokerConfig(initial_registration_timeout_ms=0))
    world.start(1)
    assert world.run_until(lambda: world.nodes[1].exit is not None) < 20
    exit_ = world.nodes[1].exit
    assert exit_ is not None
    assert exit_.reason == f"{PREFIX.replace(str(LIMIT_MS), '0')}no active controller"


def test_a_registered_broker_outlives_its_controller() -> None:
    world = a_world({METADATA_VERSION: 30})
    world.start_all()
    world.run_until(lambda: world.kernel(2).is_unfenced)
    world.run_for(5 * LIMIT_MS)
    assert world.kernel(2).is_unfenced
    world.kill(1)
    world.run_for(3 * LIMIT_MS)
    assert world.nodes[2].exit is None


def test_a_broker_told_to_stop_before_it_registered_says_nothing() -> None:
    world = a_world(SHARE_ONLY)
    world.start(2)
    world.run_for(LIMIT_MS - 1)
    world.terminate(2)
    world.run_until(lambda: world.nodes[2].exit is not None, 2 * LIMIT_MS)
    exit_ = world.nodes[2].exit
    assert exit_ is not None
    assert (exit_.code, exit_.reason) == (0, "shut down")


def test_the_limit_does_not_end_a_shutdown() -> None:
    world = voters_with(SHARE_ONLY)
    world.run_for(LIMIT_MS - 1)
    leader = world.active()
    assert leader is not None
    for node_id in {1, 2, 3} - {leader}:
        world.pause(node_id)
    world.terminate(leader)
    world.run_for(200)
    assert world.nodes[leader].exit is None, "it waits for a successor"
    world.run_until(lambda: world.nodes[leader].exit is not None)
    exit_ = world.nodes[leader].exit
    assert exit_ is not None
    assert exit_.code == 0


def test_the_session_of_its_former_process_is_waited_for() -> None:
    world = a_world({METADATA_VERSION: 30})
    world.start_all()
    world.run_until(lambda: world.kernel(2).is_unfenced)
    world.kill(2)
    world.start(2)
    world.run_for(LIMIT_MS + 10)
    assert world.nodes[2].exit is None
    assert not world.kernel(2).is_unfenced, "the session lasts 9 s"
    world.run_until(lambda: world.kernel(2).is_unfenced)


@pytest.mark.parametrize(
    ("finalized", "text"),
    [
        ({"kraft.version": 2}, "kraft.version is finalized at 2: this broker supports 0 to 1"),
        ({"x.version": 2}, "x.version is finalized at 2: this broker supports 0 to 0"),
        (
            {METADATA_VERSION: 6},
            "metadata.version is finalized at 6: this broker supports 7 to 30",
        ),
        ({METADATA_VERSION: 7, "group.version": 0}, "the controller answers unsupported_version"),
    ],
)
def test_the_text_of_a_refusal(finalized: dict[str, int], text: str) -> None:
    assert refusal_text(finalized, {}) == text
