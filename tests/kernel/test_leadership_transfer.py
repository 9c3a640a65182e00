"""Transfer of the leadership: asked of any node, with requests of clients held back meanwhile."""

import dataclasses
from datetime import timedelta

import pytest

from kernel.quorum.messages.table import response_to_wire
from kernel.serving.forwarding import is_not_controller
from quorum_controller.security.authorization import (
    CLUSTER_NAME,
    AccessRules,
    Operation,
    ResourceType,
)
from raft.messages import TransferLeadershipResponse
from tests.kernel.dynamic import dynamic_world
from tests.kernel.harness import World, create_topic_body
from wire.errors import ErrorCode
from wire.messages import codec

ALTER_REASSIGNMENTS, CREATE_ACLS, CREATE_TOPICS = 45, 30, 19
TOPIC = "__cluster_metadata"
IDLE_MS_MAX = 20
"""Each message takes 1 ms here, as does each flush."""


def body_of(*replicas, topic=TOPIC, index=0, timeout_ms=30_000, others=()):
    new = codec.newest(ALTER_REASSIGNMENTS, "request")
    rows = [
        new.ReassignableTopic(
            name=name,
            partitions=(new.ReassignablePartition(partition_index=at, replicas=wanted),),
        )
        for name, at, wanted in [(topic, index, replicas or None), *others]
    ]
    return new.AlterPartitionReassignmentsRequest(
        timeout=timedelta(milliseconds=timeout_ms),
        allow_replication_factor_change=True,
        topics=tuple(rows),
    )


def row_of(answer):
    (row,) = answer.responses[0].partitions
    assert (answer.responses[0].name, row.partition_index) == (TOPIC, 0)
    return row.error_code, row.error_message


def running(count=3, world=None, **more) -> World:
    world = world or World(count, **more)
    world.start_all()
    world.run_until(world.is_ready)
    world.run_for(1_000)
    return world


def transfer_to(world, target, **more):
    return body_of(target, *[n for n in world.nodes if n != target], **more)


def followers(world):
    return [n for n in world.nodes if n != world.active()]


def dynamic(count):
    return dynamic_world(count, *range(1, count + 1))


@pytest.mark.parametrize("make", [World, dynamic])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("place", [0, -1])
def test_the_target_is_elected_whichever_it_is(make, count, place):
    world = running(world=make(count))
    former, target = world.active(), followers(world)[place]
    epoch = world.kernel(former).core.epoch
    client = world.client(former, "CONTROLLER")
    answer = client.call(ALTER_REASSIGNMENTS, transfer_to(world, target))
    assert row_of(answer) == (ErrorCode.none, f"node {target} leads epoch {epoch + 1}")
    assert answer.error_code is ErrorCode.none
    world.run_until(world.is_ready)
    assert world.active() == target
    election = world.kernel(former).elections.newest[-1]
    assert election.cause == "operator"
    assert election.leaderless_ms <= IDLE_MS_MAX


def test_the_target_needs_no_third_voter():
    world = running()
    former, (target, third) = world.active(), followers(world)
    world.kill(third)
    world.run_for(1_000)
    client = world.client(former, "CONTROLLER")
    answer = client.call(ALTER_REASSIGNMENTS, transfer_to(world, target))
    assert row_of(answer) == (ErrorCode.none, f"node {target} leads epoch 2")
    assert world.kernel(former).elections.newest[-1].leaderless_ms <= IDLE_MS_MAX


@pytest.mark.parametrize("through", ["leader", "another"])
def test_a_broker_forwards_it(through):
    world = running()
    former, (target, third) = world.active(), followers(world)
    client = world.client(former if through == "leader" else third)
    code, text = row_of(client.call(ALTER_REASSIGNMENTS, transfer_to(world, target)))
    assert (code, text) == (ErrorCode.none, f"node {target} leads epoch 2")
    world.run_until(world.is_ready)
    again = client.call(ALTER_REASSIGNMENTS, transfer_to(world, target))
    assert row_of(again) == (ErrorCode.none, f"node {target} leads epoch 2 already")


def test_a_controller_that_does_not_lead_refuses():
    world = running()
    target = followers(world)[0]
    client = world.client(target, "CONTROLLER")
    answer = client.call(ALTER_REASSIGNMENTS, transfer_to(world, target))
    assert answer.error_code is ErrorCode.not_controller
    text = f"The active controller appears to be node {world.active()}."
    assert row_of(answer) == (ErrorCode.not_controller, text)


@pytest.mark.parametrize("code", [ErrorCode.not_controller, ErrorCode.request_timed_out])
def test_brokers_look_for_not_controller_at_the_top(code):
    """A leader that is deposed before the core has the request."""
    message = TransferLeadershipResponse(error_code=code.value, error_message="said")
    answer = response_to_wire(message)
    assert row_of(answer) == (code, "said")
    assert is_not_controller(answer) is (code is ErrorCode.not_controller)


def test_a_partition_of_another_topic_is_reassigned_as_ever():
    world = running()
    former = world.active()
    client = world.client(former)
    client.create_topic("other", replicas=3)
    target = followers(world)[0]
    answer = client.call(ALTER_REASSIGNMENTS, transfer_to(world, target, topic="other"))
    assert answer.responses[0].partitions[0].error_code is ErrorCode.none
    topic = world.kernel(former).cache.image.topic_named("other")
    assert topic.partitions[0].replicas[0] == target
    assert world.active() == former


def test_no_request_of_a_client_fails_by_a_transfer():
    world = running()
    former, target = world.active(), followers(world)[0]
    clients = {n: world.client(n) for n in world.nodes}
    sent, mover = [], world.client(former)
    for number in range(60):
        if number == 20:
            mover.send(ALTER_REASSIGNMENTS, transfer_to(world, target))
        for node, client in clients.items():
            name = f"{node}-{number}"
            sent.append((client, client.send(CREATE_TOPICS, create_topic_body(name))))
        world.run_for(1)
    world.run_until(lambda: all(number in client.answers for client, number in sent))
    codes = {client.answers[number].topics[0].error_code for client, number in sent}
    assert codes == {ErrorCode.none}
    assert world.active() == target
    assert len(world.kernel(target).cache.image.topics) == len(sent)


def held():
    """A leader that waits for a paused target, and a create that it holds back."""
    world = running()
    former, (target, third) = world.active(), followers(world)
    world.pause(target)
    client = world.client(third, "PLAINTEXT")
    assert client.create_topic("before").error_code is ErrorCode.none
    mover = world.client(former, "CONTROLLER")
    asked = mover.send(ALTER_REASSIGNMENTS, transfer_to(world, target))
    world.run_until(lambda: world.kernel(former).core.is_handing_over)
    return world, former, client, mover, asked


def test_what_was_held_back_goes_on_when_it_is_given_up():
    world, former, client, mover, asked = held()
    end_offset = world.kernel(former).core.log_end_offset
    creation = client.send(CREATE_TOPICS, create_topic_body("held"))
    world.run_for(900)
    assert creation not in client.answers
    assert world.kernel(former).core.log_end_offset == end_offset
    world.run_until(lambda: creation in client.answers)
    assert client.answers[creation].topics[0].error_code is ErrorCode.none
    code, text = row_of(mover.answers[asked])
    assert code is ErrorCode.request_timed_out
    assert text.endswith(f"node {former} goes on leading epoch 1")
    assert world.active() == former


def test_a_voter_that_describes_itself_meanwhile_goes_on_fetching():
    """It is refused, and its next fetch would go to another voter: to the target, which is down."""
    world = running()
    former, (target, third) = world.active(), followers(world)
    world.pause(target)
    role = world.kernel(third).core.role
    due_ms = role.update_voter_ms
    world.run_for(due_ms - 400 - world.now_ms)
    mover = world.client(former, "CONTROLLER")
    asked = mover.send(ALTER_REASSIGNMENTS, transfer_to(world, target))
    assert world.now_ms < due_ms
    world.run_until(lambda: asked in mover.answers)
    assert row_of(mover.answers[asked])[0] is ErrorCode.request_timed_out, (
        "a NoOp record is missing"
    )
    assert due_ms < role.update_voter_ms, "it was sent meanwhile"
    for _ in range(40):
        world.run_for(100)
        assert world.active() == former


def test_the_timeout_of_a_request_that_is_held_back_fires():
    world, *_, client, mover, asked = held()
    body = dataclasses.replace(create_topic_body("held"), timeout=timedelta(milliseconds=300))
    creation = client.send(CREATE_TOPICS, body)
    world.run_until(lambda: creation in client.answers, 400)
    assert client.answers[creation].topics[0].error_code is ErrorCode.request_timed_out
    assert asked not in mover.answers


def test_a_second_one_is_refused_meanwhile():
    world, former, *_ = held()
    again = world.client(former, "CONTROLLER")
    answer = again.call(ALTER_REASSIGNMENTS, transfer_to(world, former))
    assert row_of(answer)[0] is ErrorCode.reassignment_in_progress


def test_the_time_of_the_request_bounds_the_wait():
    world = running()
    former, target = world.active(), followers(world)[0]
    world.pause(target)
    assert world.client(former).create_topic("before").error_code is ErrorCode.none
    body = transfer_to(world, target, timeout_ms=60)
    answer = world.client(former, "CONTROLLER").call(ALTER_REASSIGNMENTS, body, 100)
    assert row_of(answer)[0] is ErrorCode.request_timed_out


@pytest.mark.parametrize("body", [
    body_of(2, 1, 3, index=1),
    body_of(),
    body_of(2, 1, 3, others=[("other", 0, (1,))]),
])  # fmt: skip
def test_all_else_about_that_topic_is_refused_as_by_kafka(body):
    world = running()
    former = world.active()
    answer = world.client(former).call(ALTER_REASSIGNMENTS, body)
    row = answer.responses[0].partitions[0]
    assert row.error_code is ErrorCode.unknown_topic_or_partition
    assert row.error_message == f"Unable to find a topic named {TOPIC}."
    world.run_for(100)
    assert world.active() == former


def test_it_needs_alter_on_the_cluster():
    world = running(access=AccessRules(allows_without_acl=True))
    former = world.active()
    new = codec.newest(CREATE_ACLS, "request")
    only_nodes = new.AclCreation(
        resource_type=ResourceType.CLUSTER,
        resource_name=CLUSTER_NAME,
        resource_pattern_type=3,
        principal="User:ANONYMOUS",
        host="*",
        operation=int(Operation.CLUSTER_ACTION),
        permission_type=3,
    )
    client = world.client(former)
    client.call(CREATE_ACLS, new.CreateAclsRequest(creations=(only_nodes,)))
    answer = client.call(ALTER_REASSIGNMENTS, transfer_to(world, followers(world)[0]))
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    world.run_for(100)
    assert world.active() == former
