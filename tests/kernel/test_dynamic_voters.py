"""Quorums whose voters are in the log: started, changed, killed at each step (KIP-853)."""

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from kernel.events import BytesReceived
from kernel.kraft_version import checked_kraft_version, read_voter_history
from metadata.snapshot import decode_snapshot
from raft.events import RequestReceived
from raft.membership.voter_history import KRaftVersionAt, Membership, VotersAt
from raft.membership.voters import VoterSet
from raft.messages import FetchRequest, RemoveVoterRequest
from tests.kernel.dynamic import (
    FOLDER,
    add,
    add_body,
    agree,
    ask_leader,
    describe_body,
    directory,
    dynamic_world,
    key,
    leader_of,
    remove,
    remove_body,
    voter_ids,
    voters,
)
from tests.kernel.harness import World, create_topic_body
from tests.storage import golden
from wire.messages import codec
from wire.types import Endpoint


def running(count: int, *initial: int, **more) -> World:
    world = dynamic_world(count, *initial, **more)
    world.start_all()
    world.run_until(world.is_ready)
    world.run_for(100)
    return world


def quorum_state(world: World, node_id: int) -> dict:
    return json.loads(world.nodes[node_id].vfs.read(f"{FOLDER}/quorum-state"))


@pytest.mark.parametrize("node", ["n1", "n2", "n3", "n101"])
def test_the_history_of_kafkas_folders(node):
    vfs = golden.load(f"kraft-upgrade/{node}")
    assert checked_kraft_version(vfs, "/log") == 1
    history = read_voter_history(vfs, "/log/__cluster_metadata-0", VoterSet({}), 10**6)
    assert history.kraft_version == 1
    assert history.latest.ids == (1, 2, 3)
    assert all(each.directory_id for each in history.latest.keys)


def test_formatted_voters_elect_one_of_them_and_the_others_observe():
    world = running(4, 1, 2, 3)
    leader = leader_of(world)
    assert leader in (1, 2, 3)
    assert agree(world, 1, 2, 3)
    assert not world.kernel(4).core.is_voter
    for node_id in (1, 2, 3):
        kernel = world.kernel(node_id)
        assert kernel.core.is_voter
        history = kernel.core._state.log.voter_history
        assert history.levels[-1] == KRaftVersionAt(1, 1)
        assert history.sets[-1] == VotersAt(2, voters(1, 2, 3))
        state = quorum_state(world, node_id)
        assert state["data_version"] == 1
        assert state["leaderId"] == leader
    body = world.client(leader, "CONTROLLER").call(55, describe_body())
    (partition,) = body.topics[0].partitions
    assert [row.replica_directory_id.bytes for row in partition.current_voters] == [
        directory(n) for n in (1, 2, 3)
    ]
    assert [(row.replica_id, row.replica_directory_id.bytes) for row in partition.observers] == [
        (4, directory(4))
    ]
    assert {(node.node_id, node.listeners[0].host) for node in body.nodes} == {
        (n, str(n)) for n in (1, 2, 3)
    }


def test_a_voter_is_added_and_counts_then_and_after_a_restart():
    world = running(4, 1, 2, 3)
    assert add(world, 4) == (0, None)
    assert agree(world, 1, 2, 3, 4)
    assert world.kernel(4).core.is_voter
    for node_id in world.nodes:
        world.kill(node_id)
    world.start_all()
    world.run_until(world.is_ready)
    assert agree(world, 1, 2, 3, 4)
    others = [n for n in world.nodes if n != leader_of(world)]
    for node_id in others[:2]:  # two of four are no majority
        world.kill(node_id)
    world.run_for(5_000)
    assert all(not world.kernel(n).core.is_leader for n in world.alive)


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_voter_is_removed_and_counts_no_more(who):
    world = running(3, 1, 2, 3)
    leader = leader_of(world)
    gone = leader if who == "leader" else next(n for n in (1, 2, 3) if n != leader)
    left = tuple(n for n in (1, 2, 3) if n != gone)
    assert remove(world, gone) == (0, None)
    world.run_until(lambda: world.active() in left)
    world.run_until(lambda: agree(world, *left))
    assert not world.kernel(gone).core.is_voter
    world.kill(gone)
    world.run_for(5_000)
    assert world.active() in left
    world.start(gone)  # formatted as a voter once; its log says that it is none
    world.run_for(5_000)
    assert not world.kernel(gone).core.is_voter
    assert agree(world, *left)


def test_a_replica_with_the_id_of_a_voter_and_another_directory_does_not_vote():
    world = running(3, 1, 2, 3)
    leader = leader_of(world)
    wiped = next(n for n in (1, 2, 3) if n != leader)
    assert remove(world, wiped, bytes([99]) * 16)[0] == 127
    assert add(world, wiped, directory_id=bytes([99]) * 16)[0] == 126
    assert agree(world, 1, 2, 3)


def test_snapshots_have_level_and_voters_and_bring_them_to_others():
    world = running(4, 1, 2, 3)
    world.kill(4)
    leader = leader_of(world)
    for kernel in (world.kernel(n) for n in (1, 2, 3)):
        kernel.snapshots._begin()
    world.run_for(500)
    kernel = world.kernel(leader)
    (_, newest) = kernel.snapshot_files.list()
    content = decode_snapshot(kernel.snapshot_files.read(newest))
    assert [type(each).__name__ for each in content.control_records] == [
        "KRaftVersion",
        "KRaftVoters",
    ]
    world.nodes[4].vfs = type(world.nodes[4].vfs)()
    world.nodes[4].vfs.make_directory("/data")
    world.nodes[4].vfs.sync_directory("/")
    world.start(4)
    world.run_until(lambda: world.kernel(4).core.log_start_offset == newest.offset)
    core = world.kernel(4).core
    assert core.voters == voters(1, 2, 3)
    assert core.membership_before(newest.offset) == Membership(1, voters(1, 2, 3))
    world.kill(4)
    world.start(4)
    assert world.kernel(4).core.voters == voters(1, 2, 3)
    assert add(world, 4)[0] == 0
    assert voter_ids(world, 4) == (1, 2, 3, 4)


def test_a_sole_voter_grows_to_two_and_shrinks_again():
    world = running(2, 1)
    world.run_for(10_000)
    assert add(world, 2) == (0, None)
    world.run_for(5_000)
    assert agree(world, 1, 2)
    assert leader_of(world) == 1
    assert world.kernel(1).core.epoch == 1
    assert remove(world, 1) == (0, None)
    world.run_until(lambda: world.active() == 2)
    assert agree(world, 2)
    assert world.kernel(2).core.voters.keys == (key(2),)


def features_body(*updates: tuple[str, int, int], validate_only: bool = False):
    new = codec.newest(57, "request")
    return new.UpdateFeaturesRequest(
        timeout=timedelta(seconds=10),
        feature_updates=tuple(
            new.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ),
        validate_only=validate_only,
    )


def update_features(world: World, *updates: tuple[str, int, int], validate_only: bool = False):
    answer = ask_leader(world, 57, features_body(*updates, validate_only=validate_only))
    return answer.error_code.value, answer.error_message


def finalized(world: World, node_id: int, listener: str) -> dict[str, int]:
    body = codec.newest(18, "request").ApiVersionsRequest(
        client_software_name="t", client_software_version="1"
    )
    answer = world.client(node_id, listener).call(18, body)
    assert ("kraft.version", 0, 1) in [
        (each.name, each.min_version, each.max_version) for each in answer.supported_features
    ]
    return {each.name: each.max_version_level for each in answer.finalized_features}


def test_a_static_quorum_is_raised_once_all_its_voters_have_described_themselves():
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    raised = ("kraft.version", 1, 1)
    code, text = update_features(world, raised)
    assert code == 95
    assert text.endswith(
        "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters "
        "support it"
    )
    world.run_for(5_000)
    epoch = world.kernel(leader_of(world)).core.epoch
    assert update_features(world, raised, validate_only=True) == (0, None)
    assert world.kernel(1).core.kraft_version == 0
    assert "kraft.version" not in finalized(world, 1, "PLAINTEXT")
    end = world.kernel(leader_of(world)).core.log_end_offset
    assert update_features(world, raised, ("group.version", 0, 2)) == (0, None)
    world.run_for(500)
    leader = world.kernel(leader_of(world))
    history = leader.core._state.log.voter_history
    assert history.levels == (KRaftVersionAt(end, 1),)
    assert history.sets == (VotersAt(end + 1, voters(1, 2, 3)),)
    for node_id in world.nodes:
        assert world.kernel(node_id).core.voters == voters(1, 2, 3)
        assert finalized(world, node_id, "PLAINTEXT")["kraft.version"] == 1
        assert finalized(world, node_id, "CONTROLLER")["kraft.version"] == 1
    assert leader.core.epoch == epoch
    assert not leader.core.role.observers
    code, text = update_features(world, ("kraft.version", 0, 2))
    assert (code, text.rpartition(". ")[2]) == (95, "Can't downgrade the version of this feature.")
    assert update_features(world, raised) == (0, None)
    assert len(leader.core._state.log.voter_history.levels) == 1
    created = world.client(leader_of(world)).create_topic("after", replicas=3)
    assert created.error_code.value == 0
    for node_id in world.nodes:
        world.kill(node_id)
    world.start_all()
    world.run_until(world.is_ready)
    assert agree(world, 1, 2, 3)
    assert "after" in world.kernel(1).cache.image.topic_id_by_name
    assert quorum_state(world, leader_of(world))["data_version"] == 1


def test_a_raise_that_was_asked_for_twice_in_one_turn_is_made_once():
    world = World(3)
    world.start_all()
    world.run_until(world.is_ready)
    world.run_for(5_000)
    leader = leader_of(world)
    clients = [world.client(leader, "CONTROLLER") for _ in range(2)]
    world.run_for(100)
    turn, asked = [], []
    for client in clients:
        number, content = client.connection.request(57, features_body(("kraft.version", 1, 1)))
        asked.append(number)
        turn.append(BytesReceived(client.pipe.server[2], content))
    world.post_all(leader, turn)
    world.run_for(1_000)
    codes = [each.answers[n].error_code.value for each, n in zip(clients, asked, strict=True)]
    assert codes == [0, 0]
    assert len(world.kernel(leader).core._state.log.voter_history.levels) == 1
    assert agree(world, 1, 2, 3)
    assert world.client(leader).create_topic("after", replicas=3).error_code.value == 0


def test_proposals_and_changes_of_voters_share_the_log():
    """The offsets that the controller gives its records are those that they get."""
    world = running(4, 1, 2, 3)
    leader = leader_of(world)
    client = world.client(leader)
    tokens = []
    for number in range(6):
        tokens.append(client.send(19, create_topic_body(f"t{number}", 1, 1)))
        if number % 2 == 0:
            change = add_body(4) if number != 2 else remove_body(4)
            asker = world.client(leader, "CONTROLLER")
            asker.send(80 if number != 2 else 81, change)
            world.run_for(3)
    world.run_until(lambda: all(token in client.answers for token in tokens))
    world.run_for(3_000)
    names = {f"t{number}" for number in range(6)}
    for node_id in world.nodes:
        assert names <= set(world.kernel(node_id).cache.image.topic_id_by_name)
    ends = {world.kernel(n).core.log_end_offset for n in world.nodes}
    assert len(ends) == 1


def test_a_change_that_comes_with_the_claim_is_behind_what_the_controller_proposes_then():
    world = dynamic_world(3, 1, 2, 3)
    world.start_all()
    world.run_until(lambda: any(world.kernel(n).core.is_leader for n in world.alive))
    leader = leader_of(world)
    kernel, other = world.kernel(leader), next(n for n in (1, 2, 3) if n != leader)
    end = kernel.core.log_end_offset
    world.run_until(lambda: kernel.core.flushed_end_offset == end)
    assert kernel.core.high_watermark is None
    acknowledged = FetchRequest(
        cluster_id=None, replica_id=other, replica_directory_id=directory(other),
        current_leader_epoch=kernel.core.epoch, fetch_offset=end,
        last_fetched_epoch=kernel.core.epoch, max_wait_ms=0, max_bytes=1, high_watermark=-1,
    )  # fmt: skip
    change = RemoveVoterRequest(cluster_id=None, voter_id=other, directory_id=directory(other))
    for request in (acknowledged, change):
        token = kernel.replica.replies.expect(lambda _: None)
        kernel.replica.enqueue(RequestReceived(reply_token=token, request=request))
    kernel.replica.drain()
    assert kernel.core.voters.ids != (1, 2, 3)
    assert kernel.state.controller.next_offset == kernel.core.log_end_offset


@pytest.mark.parametrize("delay_ms", range(9))
@pytest.mark.parametrize("change", ["add", "remove a follower", "remove the leader"])
def test_a_leader_that_is_killed_at_any_step_of_a_change_leaves_one_set(change, delay_ms):
    world = running(4, 1, 2, 3)
    leader = leader_of(world)
    other = next(n for n in (1, 2, 3) if n != leader)
    gone = leader if change == "remove the leader" else other
    body = add_body(4) if change == "add" else remove_body(gone)
    asker = world.client(leader, "CONTROLLER")
    token = asker.send(80 if change == "add" else 81, body)
    world.run_for(delay_ms)
    world.kill(leader)
    world.run_for(300)
    world.start(leader)
    world.run_until(lambda: world.active() is not None)
    after = (1, 2, 3, 4) if change == "add" else tuple(n for n in (1, 2, 3) if n != gone)
    world.run_until(lambda: agree(world, 1, 2, 3) or agree(world, *after))
    if token in asker.answers:
        assert asker.answers[token].error_code.value == 0
        assert agree(world, *after), "what was acknowledged holds"
    world.run_for(1_000)
    assert world.active() is not None
    code = add(world, 4)[0] if change == "add" else remove(world, gone)[0]
    assert code in (0, 126, 127)
    world.run_until(lambda: agree(world, *after))


def test_brokers_forward_changes_and_a_follower_refuses_them():
    world = running(4, 1, 2, 3)
    leader = leader_of(world)
    follower = next(n for n in (1, 2, 3) if n != leader)
    refused = world.client(follower, "CONTROLLER").call(80, add_body(4))
    assert refused.error_code.value == 6
    answer = world.client(follower).call(80, add_body(4))
    assert (answer.error_code.value, answer.error_message) == (0, None)
    answer = world.client(4).call(81, remove_body(4))
    assert (answer.error_code.value, answer.error_message) == (0, None)
    assert agree(world, 1, 2, 3)


def test_a_voter_whose_address_changed_tells_it_and_is_found_there():
    world = running(3, 1, 2, 3)
    leader = leader_of(world)
    moved = next(n for n in (1, 2, 3) if n != leader)
    node = world.nodes[moved]
    world.kill(moved)
    other = Endpoint("CONTROLLER", str(moved), 9999)
    listeners = (node.config.listeners[0], other)
    node.config = replace(node.config, listeners=listeners, advertised_listeners=listeners)
    world.start(moved)
    world.run_until(lambda: world.kernel(leader).core.voters.endpoint(moved) == other)
    world.run_until(lambda: agree(world, 1, 2, 3))
    world.run_for(1_000)
    world.kill(leader)
    world.run_until(lambda: world.active() not in (None, leader))


def test_stopped_voters_are_those_of_the_log_not_of_a_configuration():
    world = running(3, 1)
    assert not world.kernel(1).peers.is_quorum_refused()
    assert add(world, 2)[0] == 0
    world.kill(2)
    world.run_until(world.kernel(1).peers.is_quorum_refused)
    assert not world.kernel(3).peers.is_quorum_refused() or agree(world, 1, 2)
