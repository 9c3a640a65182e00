"""DescribeProducers: the state of the producers that a replica knows."""

from broker.apis.records.producers import DescribeProducers
from quorum_controller.security.authorization import AccessRules, Operation
from storage.producers.append_source import CLIENT, COORDINATOR
from tests.broker.apis.requests import Broker, ask
from tests.replication.partitions import WALL_MS, append, led, registration
from tests.storage.test_unified_log import NOW, marker, produced
from wire.api_keys import DESCRIBE_PRODUCERS
from wire.errors import ErrorCode
from wire.messages import codec


def ask_producers(broker, *rows):
    """Rows of topic and partition; the answered ones by topic."""
    new = codec.newest(DESCRIBE_PRODUCERS, "request")
    topics = tuple(
        new.TopicRequest(name=name, partition_indexes=numbers) for name, *numbers in rows
    )
    handler = DescribeProducers(broker.partitions, broker.access)
    answer = ask(handler, DESCRIBE_PRODUCERS, 0, new.DescribeProducersRequest(topics=topics))
    return {
        (topic.name, p.partition_index): (p.error_code, p.error_message, p.active_producers)
        for topic in answer.topics
        for p in topic.partitions
    }


def states(broker):
    code, text, producers = ask_producers(broker, ("a", 0))["a", 0]
    assert (code, text) == (ErrorCode.none, None)
    return [
        (
            p.producer_id,
            p.producer_epoch,
            p.last_sequence,
            p.last_timestamp,
            p.coordinator_epoch,
            p.current_txn_start_offset,
        )
        for p in producers
    ]


def write(partition, batch, source=CLIENT):
    partition.append_as_leader(batch, required_acks=1, wall_ms=WALL_MS, now_ms=0, source=source)


def test_the_states_of_the_producers():
    broker = Broker("a")
    partition = broker.host(led(1, isr=(1,)))
    assert states(broker) == []
    write(partition, produced(NOW, NOW + 2, producer=8, epoch=4, sequence=0))
    write(partition, produced(NOW + 3, producer=7, attributes=0x10))
    idempotent = (8, 4, 1, NOW + 2, -1, -1)
    assert states(broker) == [idempotent, (7, 0, 0, NOW + 3, -1, 3)]
    write(partition, marker(1), COORDINATOR)
    (first, ended) = states(broker)
    assert first == idempotent
    assert (ended[0], ended[5]) == (7, -1)
    assert ended[4] != -1


def test_a_follower_answers_too():
    broker = Broker("a")
    partition = broker.host(led(isr=(1,)))
    write(partition, produced(NOW, producer=8))
    partition.make_follower(registration(leader=2, epoch=2), 0)
    assert [row[0] for row in states(broker)] == [8]


def test_partitions_and_topics_that_are_not_here():
    broker = Broker("a")
    append(broker.host(led(), 1), 0)
    broker.hosted[next(iter(broker.hosted))].mark_offline()
    found = ask_producers(broker, ("a", 0, 1, 9), ("x", 0), ("a/b", 0))
    invalid = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    unhosted = "This server does not host this topic-partition."
    assert found == {
        ("a", 0): (ErrorCode.not_leader_or_follower, None, ()),
        ("a", 1): (ErrorCode.kafka_storage_error, None, ()),
        ("a", 9): (ErrorCode.unknown_topic_or_partition, None, ()),
        ("x", 0): (ErrorCode.unknown_topic_or_partition, unhosted, ()),
        ("a/b", 0): (
            ErrorCode.invalid_topic_exception,
            f"Topic name is invalid: 'a/b' {invalid}",
            (),
        ),
    }


def test_the_caller_needs_read():
    broker = Broker("a", "b", rules=AccessRules())
    broker.allow(Operation.READ, "b")
    broker.allow(Operation.DESCRIBE, "a")
    found = ask_producers(broker, ("a", 0), ("b", 0), ("x", 0))
    refused = (ErrorCode.topic_authorization_failed, "Topic authorization failed.", ())
    assert found == {
        ("a", 0): refused,
        ("b", 0): (ErrorCode.not_leader_or_follower, None, ()),
        ("x", 0): refused,
    }
