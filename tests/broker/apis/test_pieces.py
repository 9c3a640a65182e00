"""Large requests end a piece at a bound of units, and each piece asks anew who may read what."""

from datetime import timedelta

import pytest
from immutables import Map

from broker.apis.records.leader_epochs import OffsetForLeaderEpoch
from broker.apis.records.list_offsets import ListOffsets
from broker.apis.records.producers import DescribeProducers
from broker.clients.call import PIECE_UNITS
from quorum_controller.security.authorization import AccessRules, Operation
from tests.broker.apis.requests import Broker, call_of
from tests.replication.partitions import led
from wire.api_keys import DESCRIBE_PRODUCERS, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from wire.errors import ErrorCode
from wire.messages import codec

COUNT = 300
MARGIN = 70
"""Cost at most of what follows while there is room."""


def offsets_body(topics):
    new = codec.newest(LIST_OFFSETS, "request")
    rows = tuple(
        new.ListOffsetsTopic(
            name=name,
            partitions=tuple(
                new.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=-1)
                for n in numbers
            ),
        )
        for name, numbers in topics
    )
    return new.ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=rows, timeout=timedelta(0)
    )


def producers_body(topics):
    new = codec.newest(DESCRIBE_PRODUCERS, "request")
    rows = tuple(new.TopicRequest(name=name, partition_indexes=tuple(n)) for name, n in topics)
    return new.DescribeProducersRequest(topics=rows)


def epochs_body(topics):
    new = codec.newest(OFFSET_FOR_LEADER_EPOCH, "request")
    rows = tuple(
        new.OffsetForLeaderTopic(
            topic=name,
            partitions=tuple(
                new.OffsetForLeaderPartition(partition=n, current_leader_epoch=-1, leader_epoch=1)
                for n in numbers
            ),
        )
        for name, numbers in topics
    )
    return new.OffsetForLeaderEpochRequest(replica_id=-1, topics=rows)


BODIES = {
    LIST_OFFSETS: (11, offsets_body, Operation.DESCRIBE),
    DESCRIBE_PRODUCERS: (0, producers_body, Operation.READ),
    OFFSET_FOR_LEADER_EPOCH: (4, epochs_body, Operation.DESCRIBE),
}
KEYS = list(BODIES)


class Pieces:
    """A request whose pieces are done one by one."""

    def __init__(self, api_key, topics):
        version, body_of, operation = BODIES[api_key]
        self.broker = Broker("a", rules=AccessRules())
        self.broker.allow(operation, "a")
        self.broker.host(led(1, isr=(1,)))
        self.answers, self.runs = [], []
        partitions, access = self.broker.partitions, self.broker.access
        handlers = {
            LIST_OFFSETS: lambda: ListOffsets(partitions, access, lambda *_: None),
            DESCRIBE_PRODUCERS: lambda: DescribeProducers(partitions, access),
            OFFSET_FOR_LEADER_EPOCH: lambda: OffsetForLeaderEpoch(partitions, access),
        }
        self.call = call_of(api_key, version, body_of(topics), self.answers)
        self.call.run = self.runs.append
        handlers[api_key]().serve(self.call)

    def rest(self):
        """Costs of all pieces, the first of which is done."""
        return [self.call.take_units(), *self.runs[0]]

    def codes(self):
        (answer,) = self.answers
        return [row.error_code for topic in answer.topics for row in topic.partitions]


@pytest.mark.parametrize("api_key", KEYS)
def test_access_that_is_lost_between_two_pieces(api_key):
    asked = Pieces(api_key, [("a", (*range(COUNT - 1), 0)[1:])])
    asked.broker.acls = Map()
    asked.rest()
    codes = asked.codes()
    at = codes.index(ErrorCode.topic_authorization_failed)
    assert 0 < at < COUNT // 2
    assert set(codes[at:]) == {ErrorCode.topic_authorization_failed}


@pytest.mark.parametrize("api_key", KEYS)
@pytest.mark.parametrize("numbers", [(), (0,)])
def test_many_topics_are_cut_into_pieces_too(api_key, numbers):
    asked = Pieces(api_key, [(f"t{n}", numbers) for n in range(COUNT)])
    costs = asked.rest()
    assert len(costs) >= 2
    assert all(PIECE_UNITS // 2 < each < PIECE_UNITS + MARGIN for each in costs)
    assert len(asked.codes()) == COUNT * len(numbers)


@pytest.mark.parametrize("api_key", KEYS)
def test_pieces_cost_about_as_much(api_key):
    asked = Pieces(api_key, [("a", range(COUNT))])
    costs = asked.rest()
    assert all(PIECE_UNITS // 2 < each < PIECE_UNITS + MARGIN for each in costs)
    assert sum(costs) > COUNT * 6
    assert asked.codes()[0] is ErrorCode.none


def test_a_partition_that_is_asked_for_twice_is_refused_in_every_piece():
    """Counted over all topics, before the first is looked up."""
    numbers = range(1_000)
    asked = Pieces(LIST_OFFSETS, [("a", numbers), ("a", numbers)])
    assert all(each < PIECE_UNITS + MARGIN for each in asked.rest())
    assert asked.codes() == [ErrorCode.invalid_request] * 1_000


def test_a_topic_without_partitions_is_not_answered():
    asked = Pieces(LIST_OFFSETS, [("a", ()), ("a", (0,)), ("b", ())])
    (answer,) = asked.answers
    assert [topic.name for topic in answer.topics] == ["a"]
