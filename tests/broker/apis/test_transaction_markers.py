"""WriteTxnMarkers: the markers of coordinators and administrators at leaders."""

import pytest

from broker.apis.named_partitions import NamedPartitions
from broker.apis.transactions.transaction_markers import OFFSETS_TOPIC, WriteTxnMarkers
from quorum_controller.security.authorization import AccessRules, Operation, ResourceType
from storage.logs.unified_log import FetchIsolation
from tests.broker.apis.records import Records, key_of
from tests.broker.apis.requests import call_of
from tests.replication.partitions import WALL_MS
from tests.storage.test_unified_log import produced
from wire.api_keys import WRITE_TXN_MARKERS
from wire.batches.batch import iterate_batches
from wire.batches.control_records import ControlType, control_type, decode_coordinator_epoch
from wire.errors import ErrorCode
from wire.messages import codec

NONE = ErrorCode.none
UNKNOWN = ErrorCode.unknown_topic_or_partition
NEW = codec.newest(WRITE_TXN_MARKERS, "request")
TIMEOUT_MS = 777


class Leader:
    """Broker 1 with a handler; ends of transactions in offsets wait in `offsets`."""

    def __init__(self, rules=None):
        self.records = Records(rules)
        self.offsets = []
        self.answers = []
        self.handler = WriteTxnMarkers(
            self.records.manager,
            NamedPartitions(lambda: self.records.image, self.records.manager.partition_of),
            self.records.access,
            self.records.clock,
            complete_offsets=lambda number, end, done: self.offsets.append((number, end, done)),
            timeout_ms=TIMEOUT_MS,
        )

    def open(self, *numbers, producer=7, epoch=0, **fields):
        """Partitions of topic t with an open transaction."""
        for number in numbers:
            partition = self.records.topic("t", number, **fields)
            batch = produced(WALL_MS, producer=producer, epoch=epoch, attributes=0x10)
            partition.append_as_leader(
                batch, required_acks=1, wall_ms=WALL_MS, now_ms=self.records.clock.now_ms
            )

    def send(self, *markers, version=2):
        body = NEW.WriteTxnMarkersRequest(markers=tuple(markers))
        self.handler.serve(call_of(WRITE_TXN_MARKERS, version, body, self.answers))
        return self.taken()

    def taken(self):
        """The answers so far as rows: producer, topic, partition, code."""
        answers = [
            [
                (marker.producer_id, str(topic.name), row.partition_index, row.error_code)
                for marker in answer.markers
                for topic in marker.topics
                for row in topic.partitions
            ]
            for answer in self.answers
        ]
        self.answers.clear()
        return answers

    def ends(self, number):
        """Kind, producer epoch and coordinator epoch of the markers of a partition."""
        log = self.records.manager.partitions[key_of("t", number)].log
        found = log.slice(0, 1 << 20, FetchIsolation.LOG_END, at_least_one=True)
        return [
            (control_type(record.key), batch.header.producer_epoch,
             decode_coordinator_epoch(record.value), record.timestamp_ms)
            for batch in iterate_batches(found.read())
            if batch.header.is_control
            for record in batch.records()
        ]  # fmt: skip


def marker(topics, *, producer=7, epoch=0, is_commit=True, coordinator_epoch=4, version=0):
    return NEW.WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=is_commit,
        topics=tuple(
            NEW.WritableTxnMarkerTopic(name=name, partition_indexes=tuple(numbers))
            for name, numbers in topics.items()
        ),
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_ends_the_transaction_in_each_partition(is_commit):
    leader = Leader()
    leader.open(0, 1)
    rows = leader.send(marker({"t": [0, 1]}, is_commit=is_commit))
    assert rows == [[(7, "t", 0, NONE), (7, "t", 1, NONE)]]
    kind = ControlType.COMMIT if is_commit else ControlType.ABORT
    for number in (0, 1):
        assert leader.ends(number) == [(kind, 0, 4, WALL_MS)]
        log = leader.records.manager.partitions[key_of("t", number)].log
        assert log.producers.first_undecided_offset is None


def test_the_answer_waits_for_all_replicas_in_sync():
    leader = Leader()
    leader.open(0, isr=(1, 2), replicas=(1, 2))
    leader.open(1)
    assert leader.send(marker({"t": [0, 1]})) == []
    leader.records.advance(TIMEOUT_MS - 1)
    assert leader.taken() == []
    leader.records.advance(1)
    assert leader.taken() == [[(7, "t", 0, ErrorCode.request_timed_out), (7, "t", 1, NONE)]]


def test_several_markers_are_answered_together():
    leader = Leader()
    leader.open(0)
    leader.open(1, producer=8)
    rows = leader.send(marker({"t": [0]}), marker({"t": [1]}, producer=8))
    assert rows == [[(7, "t", 0, NONE), (8, "t", 1, NONE)]]


def test_markers_of_one_producer_are_one_row():
    leader = Leader()
    leader.open(0, 1)
    rows = leader.send(marker({"t": [0]}), marker({"t": [1]}, is_commit=False))
    assert rows == [[(7, "t", 0, NONE), (7, "t", 1, NONE)]]
    assert [leader.ends(number)[0][0] for number in (0, 1)] == [
        ControlType.COMMIT,
        ControlType.ABORT,
    ]


def test_without_markers_the_answer_is_empty():
    assert Leader().send() == [[]]


def test_partitions_that_are_not_here_are_unknown():
    leader = Leader()
    leader.open(0, 1)
    leader.records.manager.partitions[key_of("t", 1)].mark_offline()
    rows = leader.send(marker({"t": [0, 1, 5], "u": [0]}))
    assert rows == [[(7, "t", 0, NONE), (7, "t", 1, UNKNOWN), (7, "t", 5, UNKNOWN),
                     (7, "u", 0, UNKNOWN)]]  # fmt: skip
    assert leader.send(marker({"u": [3]})) == [[(7, "u", 3, UNKNOWN)]]


@pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (-2, 0), (7, -1), (-1, -1)])
def test_a_marker_of_nobody_is_refused(producer, epoch):
    leader = Leader()
    leader.open(0)
    leader.records.topic(OFFSETS_TOPIC, 3)
    topics = {"t": [0, 5], OFFSETS_TOPIC: [3]}
    rows = leader.send(marker(topics, producer=producer, epoch=epoch), marker({"t": [0]}))
    refused = ErrorCode.unknown_server_error
    found = {row[:3]: row[3] for row in rows[0]}
    if producer != 7:  # the other marker has a row of its own
        assert found[producer, "t", 0] is refused
        assert found[7, "t", 0] is NONE
    assert found[producer, OFFSETS_TOPIC, 3] is refused
    assert found[producer, "t", 5] is UNKNOWN
    assert (len(leader.ends(0)), leader.offsets) == (1, []), "of the other marker"


def test_the_first_producer_id_is_somebody():
    leader = Leader()
    leader.open(0, producer=0)
    assert leader.send(marker({"t": [0]}, producer=0)) == [[(0, "t", 0, NONE)]]


def test_a_follower_is_not_the_leader():
    leader = Leader()
    leader.open(0, isr=(1, 2), replicas=(1, 2))
    leader.records.topic("t", 1, isr=(1, 2), replicas=(1, 2), leader=2)
    assert leader.send(marker({"t": [1]})) == [[(7, "t", 1, ErrorCode.not_leader_or_follower)]]


def test_a_coordinator_that_was_replaced_is_fenced():
    leader = Leader()
    leader.open(0)
    leader.send(marker({"t": [0]}, coordinator_epoch=4))
    rows = leader.send(marker({"t": [0]}, coordinator_epoch=3))
    assert rows == [[(7, "t", 0, ErrorCode.transaction_coordinator_fenced)]]


@pytest.mark.parametrize(
    ("version", "of_client", "expected"),
    [(2, 2, ErrorCode.invalid_producer_epoch), (2, 0, NONE), (1, 2, NONE)],
)
def test_the_version_of_the_transaction_counts_where_the_request_has_it(
    version, of_client, expected
):
    leader = Leader()
    leader.open(0)
    rows = leader.send(marker({"t": [0]}, version=of_client if version == 2 else 0),
                       version=version)  # fmt: skip
    assert rows == [[(7, "t", 0, expected)]]


# ---- offsets -----------------------------------------------------------------------------------


def test_in_the_topic_of_offsets_the_coordinator_of_groups_ends_the_transaction():
    leader = Leader()
    leader.open(0)
    leader.records.topic(OFFSETS_TOPIC, 3)
    assert leader.send(marker({"t": [0], OFFSETS_TOPIC: [3]}, epoch=6, version=2)) == []
    ((number, end, done),) = leader.offsets
    assert number == 3
    assert (end.producer_id, end.producer_epoch, end.is_commit) == (7, 6, True)
    assert (end.coordinator_epoch, end.transaction_version) == (4, 2)
    done(NONE)
    assert leader.taken() == [[(7, "t", 0, NONE), (7, OFFSETS_TOPIC, 3, NONE)]]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (NONE, NONE),
        (ErrorCode.not_coordinator, ErrorCode.not_leader_or_follower),
        (ErrorCode.coordinator_load_in_progress, ErrorCode.not_leader_or_follower),
        (ErrorCode.coordinator_not_available, ErrorCode.not_leader_or_follower),
        (ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_epoch),
    ],
)
def test_a_coordinator_of_groups_that_is_not_ready_is_no_leader(code, expected):
    leader = Leader()
    leader.records.topic(OFFSETS_TOPIC, 3)
    leader.send(marker({OFFSETS_TOPIC: [3]}))
    ((_, _, done),) = leader.offsets
    done(code)
    assert leader.taken() == [[(7, OFFSETS_TOPIC, 3, expected)]]


# ---- who may -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "is_allowed"),
    [(Operation.ALTER, True), (Operation.CLUSTER_ACTION, True), (Operation.DESCRIBE, False)],
)
def test_administrators_and_brokers_may_write_markers(operation, is_allowed):
    leader = Leader(AccessRules())
    leader.open(0)
    leader.records.allow(operation, "kafka-cluster", ResourceType.CLUSTER)
    code = NONE if is_allowed else ErrorCode.cluster_authorization_failed
    assert leader.send(marker({"t": [0]})) == [[(7, "t", 0, code)]]
    assert bool(leader.ends(0)) == is_allowed
