"""OffsetForLeaderEpoch: ends of epochs, for brokers and for consumers that look for truncation."""

import pytest

from broker.apis.records.leader_epochs import OffsetForLeaderEpoch
from quorum_controller.security.authorization import AccessRules, Operation
from tests.broker.apis.requests import CLUSTER, Broker, ask
from tests.replication.partitions import append, led, registration
from wire.api_keys import OFFSET_FOR_LEADER_EPOCH
from wire.errors import ErrorCode
from wire.messages import codec


def ask_epochs(broker, *rows, version=4):
    """Rows of topic, partition, epoch and current leader epoch; the answered ones by topic."""
    new = codec.newest(OFFSET_FOR_LEADER_EPOCH, "request")
    topics = tuple(
        new.OffsetForLeaderTopic(
            topic=name,
            partitions=(
                new.OffsetForLeaderPartition(
                    partition=number, leader_epoch=epoch, current_leader_epoch=current
                ),
            ),
        )
        for name, number, epoch, current in rows
    )
    handler = OffsetForLeaderEpoch(broker.partitions, broker.access)
    body = new.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
    answer = ask(handler, OFFSET_FOR_LEADER_EPOCH, version, body)
    return [
        (topic.topic, p.partition, p.error_code, p.leader_epoch, p.end_offset)
        for topic in answer.topics
        for p in topic.partitions
    ]


def led_twice():
    """Two records of epoch 1, one of epoch 3."""
    broker = Broker("a")
    partition = broker.host(led(2, isr=(1,)))
    partition.make_leader(registration(epoch=3, isr=(1,)), 0)
    append(partition, 0)
    return broker


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("epoch", "found"), [(0, (0, 0)), (1, (1, 2)), (2, (1, 2)), (3, (3, 3)), (4, (-1, -1))]
)
def test_the_end_of_the_largest_epoch_up_to_that_one(version, epoch, found):
    assert ask_epochs(led_twice(), ("a", 0, epoch, -1), version=version) == [
        ("a", 0, ErrorCode.none, *found)
    ]


@pytest.mark.parametrize(
    ("current", "code"),
    [
        (2, ErrorCode.fenced_leader_epoch),
        (3, ErrorCode.none),
        (4, ErrorCode.unknown_leader_epoch),
    ],
)
def test_the_current_leader_epoch_is_compared(current, code):
    ((*_, answered, epoch, end),) = ask_epochs(led_twice(), ("a", 0, 1, current))
    assert answered is code
    assert (epoch, end) == ((1, 2) if code is ErrorCode.none else (-1, -1))


def test_only_the_leader_answers():
    broker = led_twice()
    broker.hosted[next(iter(broker.hosted))].make_follower(registration(leader=2, epoch=4), 0)
    broker.host(led(), 1).mark_offline()
    rows = ask_epochs(
        broker, ("a", 0, 1, -1), ("a", 1, 1, -1), ("a", 2, 1, -1), ("a", 9, 1, -1), ("x", 0, 1, -1)
    )
    assert rows == [
        ("a", 0, ErrorCode.not_leader_or_follower, -1, -1),
        ("a", 1, ErrorCode.kafka_storage_error, -1, -1),
        ("a", 2, ErrorCode.not_leader_or_follower, -1, -1),
        ("a", 9, ErrorCode.unknown_topic_or_partition, -1, -1),
        ("x", 0, ErrorCode.unknown_topic_or_partition, -1, -1),
    ]


def test_a_consumer_needs_describe_and_a_broker_cluster_action():
    broker = Broker("a", "b", rules=AccessRules())
    rows = ("a", 0, 1, -1), ("b", 0, 1, -1)
    refused, other = ErrorCode.topic_authorization_failed, ErrorCode.not_leader_or_follower
    assert [row[2] for row in ask_epochs(broker, *rows)] == [refused, refused]
    broker.allow(Operation.DESCRIBE, "b")
    assert [row[2] for row in ask_epochs(broker, *rows)] == [refused, other]
    broker.allow(*CLUSTER)
    assert [row[2] for row in ask_epochs(broker, *rows)] == [other, other]
