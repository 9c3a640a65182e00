"""A whole quorum in one process: start, topics through any node, failures, restarts."""

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from tests.kernel.dynamic import add_body, remove_body
from tests.kernel.harness import CLUSTER_ID, World, create_topic_body
from wire.api_keys import END_QUORUM_EPOCH
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import Endpoint


def ready_world(count: int = 3, seed: int = 0) -> World:
    world = World(count, seed)
    world.start_all()
    world.run_until(world.is_ready)
    return world


def topic_names(world: World, node_id: int) -> set[str]:
    return set(world.kernel(node_id).cache.image.topic_id_by_name)


def log_bytes(world: World, node_id: int, end_offset: int) -> bytes:
    return world.kernel(node_id).log.read(0, 1 << 30, end_offset)


def test_a_quorum_starts_within_a_second() -> None:
    world = World(3)
    world.start_all()
    assert world.run_until(world.is_ready) <= 1_000


def test_one_node_is_a_quorum() -> None:
    world = ready_world(1)
    assert world.client(1).create_topic("a").error_code is ErrorCode.none


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_a_topic_is_created_through_any_node(node_id: int) -> None:
    world = ready_world()
    answer = world.client(node_id).create_topic("a", partitions=3, replicas=3)
    assert answer.error_code is ErrorCode.none
    world.run_until(lambda: all("a" in topic_names(world, i) for i in world.alive))
    world.run_for(100)
    for node in world.nodes.values():
        assert {"a-0", "a-1", "a-2"} <= set(node.vfs.list("/data"))


def test_an_existing_topic_is_refused_with_kafkas_text() -> None:
    world = ready_world()
    client = world.client(2)
    client.create_topic("a")
    answer = client.create_topic("a")
    assert answer.error_code is ErrorCode.topic_already_exists
    assert answer.error_message == "Topic 'a' already exists."


def test_many_requests_are_in_flight_through_a_broker() -> None:
    world = ready_world()
    follower = next(i for i in world.alive if i != world.active())
    client = world.client(follower)
    sent = [client.send(19, create_topic_body(f"t{number}")) for number in range(64)]
    took_ms = world.run_until(lambda: len(client.answers) == len(sent))
    assert took_ms < 100
    assert all(client.answers[i].topics[0].error_code is ErrorCode.none for i in sent)


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_leader_is_replaced_on_evidence(seed: int) -> None:
    world = ready_world(seed=seed)
    leader = world.active()
    assert leader is not None
    survivor = world.client(next(i for i in world.alive if i != leader))
    assert survivor.create_topic("before").error_code is ErrorCode.none
    world.kill(leader)
    took_ms = world.run_until(lambda: world.active() is not None)
    assert took_ms <= 300
    assert survivor.create_topic("after").error_code is ErrorCode.none
    world.start(leader)
    world.run_until(lambda: {"before", "after"} <= topic_names(world, leader))


def test_a_request_that_waits_for_a_leader_is_answered_by_the_next_one() -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    client = world.client(next(i for i in world.alive if i != leader))
    world.run_for(10)
    world.kill(leader)
    assert client.create_topic("a").error_code is ErrorCode.none


def test_all_nodes_killed_at_once_keep_what_was_acknowledged() -> None:
    world = ready_world()
    assert world.client(1).create_topic("a", partitions=2, replicas=3).error_code is ErrorCode.none
    for node_id in list(world.alive):
        world.kill(node_id)
    world.start_all()
    world.run_until(world.is_ready, 40_000)
    assert all("a" in topic_names(world, i) for i in world.alive)


def test_sigterm_hands_over_and_exits_with_zero() -> None:
    world = ready_world()
    leader = world.active()
    assert leader is not None
    world.terminate(leader)
    world.run_until(lambda: world.nodes[leader].kernel is None)
    exit_effect = world.nodes[leader].exit
    assert exit_effect is not None
    assert exit_effect.code == 0
    assert world.run_until(lambda: world.active() is not None) <= 100


def test_logs_are_equal_up_to_the_high_watermark() -> None:
    world = ready_world()
    client = world.client(3)
    for number in range(20):
        client.create_topic(f"t{number}", partitions=2, replicas=3)
    world.run_for(1_000)
    ends = [world.kernel(i).core.high_watermark or 0 for i in world.alive]
    contents = {log_bytes(world, i, min(ends)) for i in world.alive}
    assert len(contents) == 1


def test_the_leaders_image_is_what_its_log_says() -> None:
    """Adopted images and images read back are the same (style: the pair assertion)."""
    world = ready_world()
    client = world.client(1)
    for number in range(5):
        client.create_topic(f"t{number}", partitions=2, replicas=3)
    leader = world.active()
    assert leader is not None
    world.run_until(
        lambda: len({world.kernel(i).cache.image.provenance.end_offset for i in world.alive}) == 1
    )
    images = [world.kernel(i).cache.image for i in world.alive]
    assert all(image == images[0] for image in images)


def test_a_standby_refuses_and_names_the_leader() -> None:
    world = ready_world()
    standby = next(i for i in world.alive if i != world.active())
    answer = world.client(standby, "CONTROLLER").create_topic("a")
    assert answer.error_code is ErrorCode.not_controller


def test_a_leader_is_named_by_its_advertised_controller_listener() -> None:
    world = World(1)
    node = world.nodes[1]
    advertised = (Endpoint("PLAINTEXT", "1", 9092), Endpoint("CONTROLLER", "proxy", 1))
    node.config = replace(node.config, advertised_listeners=advertised)
    world.start_all()
    world.run_until(lambda: world.active() == 1)
    new = codec.newest(END_QUORUM_EPOCH, "request")
    partition = new.PartitionData(
        partition_index=0, leader_id=1, leader_epoch=0, preferred_candidates=()
    )
    topic = new.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    body = new.EndQuorumEpochRequest(cluster_id=CLUSTER_ID, topics=(topic,), leader_endpoints=())
    answer = world.client(1, "CONTROLLER").call(END_QUORUM_EPOCH, body)
    [where] = answer.node_endpoints
    assert (where.node_id, where.host, where.port) == (1, "proxy", 1)


def test_an_api_that_is_not_served_closes_only_its_connection() -> None:
    world = ready_world()
    bad, good = world.client(1), world.client(1)
    world.run_for(20)
    join_group = b"\x00\x00\x00\x0a\x00\x0b\x00\x03\x00\x00\x00\x01\xff\xff"
    world.send(bad.pipe, join_group)
    world.run_for(20)
    assert not world.is_open(bad.pipe)
    assert good.create_topic("a").error_code is ErrorCode.none
    assert any("not served" in str(log.fields) for log in world.nodes[1].logs)


def test_describe_quorum_through_a_broker() -> None:
    world = ready_world()
    new = codec.newest(55, "request")
    body = new.DescribeQuorumRequest(
        topics=(
            new.TopicData(
                topic_name="__cluster_metadata",
                partitions=(new.PartitionData(partition_index=0),),
            ),
        )
    )
    follower = next(i for i in world.alive if i != world.active())
    partition = world.client(follower).call(55, body).topics[0].partitions[0]
    assert partition.leader_id == world.active()
    assert {voter.replica_id for voter in partition.current_voters} == {1, 2, 3}


def snapshot_body(*partitions: tuple[str, int]) -> Any:
    """FetchSnapshot of partitions, each in a topic of its own."""
    new = codec.newest(59, "request")
    return new.FetchSnapshotRequest(
        topics=tuple(
            new.TopicSnapshot(
                name=topic,
                partitions=(
                    new.PartitionSnapshot(
                        partition=index,
                        current_leader_epoch=1,
                        snapshot_id=new.SnapshotId(end_offset=5, epoch=1),
                        position=0,
                    ),
                ),
            )
            for topic, index in partitions
        )
    )


@pytest.mark.parametrize("name", [("__cluster_metadata", 1), ("other", 0)])
def test_a_snapshot_of_another_partition_is_unknown(name: tuple[str, int]) -> None:
    world = ready_world(1)
    answer = world.client(1, "CONTROLLER").call(59, snapshot_body(name))
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert answer.error_code is ErrorCode.none
    assert (topic.name, partition.index) == name
    assert partition.error_code is ErrorCode.unknown_topic_or_partition


def test_snapshots_of_two_partitions_or_none_are_invalid() -> None:
    world = ready_world(1)
    client = world.client(1, "CONTROLLER")
    for names in ((), (("__cluster_metadata", 0), ("other", 0))):
        answer = client.call(59, snapshot_body(*names))
        assert (answer.error_code, answer.topics) == (ErrorCode.invalid_request, ())


def test_the_quorum_of_other_partitions_is_unknown() -> None:
    world = ready_world(1)
    new = codec.newest(55, "request")
    partitions = tuple(new.PartitionData(partition_index=i) for i in (0, 1))
    body = new.DescribeQuorumRequest(
        topics=(new.TopicData(topic_name="other", partitions=partitions),)
    )
    answer = world.client(1).call(55, body)
    assert answer.error_code is ErrorCode.none
    assert [
        (topic.topic_name, partition.partition_index, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ] == [("other", i, ErrorCode.unknown_topic_or_partition) for i in (0, 1)]


def test_a_voter_that_describes_itself_is_accepted_though_voters_do_not_change() -> None:
    """Kafka 4.3 sends UpdateRaftVoter at kraft.version 0 and expects no error of the leader."""
    world = ready_world()
    new = codec.newest(82, "request")
    body = new.UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=1,
        voter_id=2,
        voter_directory_id=UUID(int=2),
        listeners=(new.Listener(name="CONTROLLER", host="elsewhere", port=9),),
        k_raft_version_feature=new.KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
    )
    leader_id = world.active()
    voters = world.kernel(1).core.config.voters
    for node_id in world.nodes:
        answer = world.client(node_id, "CONTROLLER").call(82, body)
        is_leader = node_id == leader_id
        expected = ErrorCode.none if is_leader else ErrorCode.not_leader_or_follower
        assert answer.error_code is expected
        leader = answer.current_leader
        assert (leader.leader_id, leader.host, leader.port) == (leader_id, str(leader_id), 9093)
    assert all(world.kernel(i).core.config.voters == voters for i in world.nodes)


@pytest.mark.parametrize("listener", ["CONTROLLER", "PLAINTEXT"])
def test_static_voters_are_neither_added_nor_removed(listener: str) -> None:
    """The code and the text are those of Kafka 4.3.1."""
    world = ready_world(1)
    for key, body, what in ((80, add_body(2), "adding"), (81, remove_body(1), "removing")):
        answer = world.client(1, listener).call(key, body)
        assert answer.error_code is ErrorCode.unsupported_version
        text = f"Cluster doesn't support {what} voter because the kraft.version feature is 0"
        assert answer.error_message == text


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (ready_world(seed=7) for _ in range(2))
    assert first.now_ms == second.now_ms
    assert log_bytes(first, 1, 5) == log_bytes(second, 1, 5)
