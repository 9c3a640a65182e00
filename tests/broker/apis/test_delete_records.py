"""DeleteRecords: log starts are raised at once, the answer waits for the live replicas."""

from datetime import timedelta

import pytest

from broker.apis.records.delete_records import DeleteRecords
from network.clock import Clock, Now
from network.sampled_rate import QuotaWindow
from network.turn_budget import TurnBudget
from quorum_controller.security.authorization import AccessRules, Operation
from replication.counters import Counters
from replication.leader.alter_partition import AlterPartitions
from replication.leader.fetching import ReadRules
from replication.replica_manager import ReplicaListener, ReplicaManager
from replication.throttle import ReplicationQuota
from tests.broker.apis.requests import Broker, answer_bytes, call_of, recorded
from tests.broker.metadata_log import A
from tests.replication.partitions import LAG_MS, WALL_MS, fetch, from_follower, led
from wire.api_keys import DELETE_RECORDS
from wire.errors import ErrorCode
from wire.messages import codec


class Asked:
    """Topics whose partitions are hosted by a manager of replicas."""

    def __init__(self, *topics, rules=None):
        self.broker = Broker(*topics or ("a",), rules=rules)
        self.clock = Clock(Now(0, WALL_MS))
        self.manager = ReplicaManager(
            self.clock,
            TurnBudget(),
            AlterPartitions(1),
            image=self.broker.image,
            lag_ms_max=LAG_MS,
            listener=ReplicaListener(
                failed=lambda key, error: None, appended=lambda key, wait: None
            ),
            counters=Counters(),
            rules=ReadRules(ReplicationQuota(QuotaWindow(), self.clock)),
        )
        self.handler = DeleteRecords(self.broker.partitions, self.broker.access, self.manager)
        self.answers = []

    def host(self, partition, number=0, topic_id=A):
        self.manager.host((topic_id, number), partition)
        return partition

    def advance(self, ms):
        self.clock.set(Now(self.clock.now_ms + ms, WALL_MS))
        self.manager.tick()

    def ask(self, *rows, version=2, timeout_ms=500):
        """Rows of topic, partition and offset; the answered ones, None while it waits."""
        new = codec.newest(DELETE_RECORDS, "request")
        topics = tuple(
            new.DeleteRecordsTopic(
                name=name,
                partitions=(new.DeleteRecordsPartition(partition_index=number, offset=offset),),
            )
            for name, number, offset in rows
        )
        body = new.DeleteRecordsRequest(topics=topics, timeout=timedelta(milliseconds=timeout_ms))
        self.handler.serve(call_of(DELETE_RECORDS, version, body, self.answers))
        return self.answered()

    def answered(self):
        if not self.answers:
            return None
        answer = self.answers.pop()
        assert self.answers == []
        return [
            (topic.name, p.partition_index, p.error_code, p.low_watermark)
            for topic in answer.topics
            for p in topic.partitions
        ]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("offset", "start"), [(2, 2), (-1, 3), (0, 0)])
def test_a_leader_without_followers_answers_at_once(offset, start, version):
    asked = Asked()
    partition = asked.host(led(3, isr=(1,), replicas=(1,)))
    assert asked.ask(("a", 0, offset), version=version) == [("a", 0, ErrorCode.none, start)]
    assert partition.log.log_start_offset == start


def test_the_answer_waits_for_the_followers():
    asked = Asked("a", "b")
    waits = asked.host(led(3, isr=(1, 2), replicas=(1, 2)))
    fetch(waits, 3, from_follower())
    asked.host(led(3, isr=(1,), replicas=(1,)), 1)
    asked.host(led(3), 2).mark_offline()
    rows = ("a", 0, 2), ("a", 1, -1), ("a", 2, 1), ("b", 7, 1)
    assert asked.ask(*rows) is None
    fetch(waits, 3, from_follower(), log_start_offset=2)
    asked.manager.check((A, 0))
    assert asked.answered() == [
        ("a", 0, ErrorCode.none, 2),
        ("a", 1, ErrorCode.none, 3),
        ("a", 2, ErrorCode.kafka_storage_error, -1),
        ("b", 7, ErrorCode.unknown_topic_or_partition, -1),
    ]


def test_who_waits_too_long_is_told_so():
    asked = Asked()
    fetch(asked.host(led(3, isr=(1, 2), replicas=(1, 2))), 3, from_follower())
    assert asked.ask(("a", 0, 2), timeout_ms=20) is None
    asked.advance(19)
    assert asked.answered() is None
    asked.advance(1)
    assert asked.answered() == [("a", 0, ErrorCode.request_timed_out, -1)]


@pytest.mark.parametrize(
    ("topic", "number", "offset", "code"),
    [
        ("a", 0, 4, ErrorCode.offset_out_of_range),
        ("a", 0, -2, ErrorCode.offset_out_of_range),
        ("a", 1, 1, ErrorCode.policy_violation),
        ("a", 2, 1, ErrorCode.not_leader_or_follower),
        ("a", 9, 1, ErrorCode.unknown_topic_or_partition),
        ("x", 0, 1, ErrorCode.unknown_topic_or_partition),
        ("__consumer_offsets", 0, 1, ErrorCode.invalid_topic_exception),
        ("__consumer_offsets", 9, 1, ErrorCode.unknown_topic_or_partition),
    ],
)
def test_refusals(topic, number, offset, code):
    asked = Asked("a", "__consumer_offsets")
    asked.host(led(3, isr=(1,), replicas=(1,)))
    asked.host(led(3, isr=(1,), replicas=(1,), deletes=False), 1)
    assert asked.ask((topic, number, offset)) == [(topic, number, code, -1)]
    assert asked.manager.partitions[A, 0].log.log_start_offset == 0


def test_a_request_without_a_partition_to_delete_from_is_answered_at_once():
    asked = Asked()
    assert asked.ask() == []
    assert asked.ask(("x", 0, 1)) == [("x", 0, ErrorCode.unknown_topic_or_partition, -1)]


def test_the_caller_needs_delete():
    asked = Asked("a", "b", rules=AccessRules())
    asked.broker.allow(Operation.DELETE, "b")
    asked.broker.allow(Operation.WRITE, "a")
    assert asked.ask(("a", 0, 0), ("b", 0, 0), ("x", 0, 0)) == [
        ("a", 0, ErrorCode.topic_authorization_failed, -1),
        ("b", 0, ErrorCode.not_leader_or_follower, -1),
        ("x", 0, ErrorCode.topic_authorization_failed, -1),
    ]


def test_the_recorded_answer_of_kafka():
    request, response = recorded("static-4.3.1-00254")
    asked = Asked("s-rd-two")
    topic_id = asked.broker.image().topic_id_by_name["s-rd-two"]
    asked.host(led(isr=(1,), replicas=(1,)), 0, topic_id)
    assert answer_bytes(asked.handler, request) == response
