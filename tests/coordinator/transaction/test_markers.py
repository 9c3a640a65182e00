"""Markers to leaders: in one request for each broker, sent again until all are written."""

from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.markers import MARKERS_MAX, RETRY_MS, Ending, Markers
from network.clock import Clock, Now
from wire.api_keys import WRITE_TXN_MARKERS
from wire.errors import ErrorCode
from wire.messages import codec
from wire.types import NodeId

A, B, C = ("a", 0), ("b", 0), ("b", 1)
NONE = ErrorCode.none
GONE = ErrorCode.unknown_topic_or_partition
NO_LEADER = ErrorCode.leader_not_available


def ending(name: str = "x", owner: int = 3, producer_id: int = 7, **fields: Any) -> Ending:
    given: Any = {"is_commit": True, "coordinator_epoch": 5, "transaction_version": 2}
    return Ending(owner, name, ProducerIdAndEpoch(producer_id, 4), **given | fields)


class Brokers:
    """Leaders by partition; requests wait in `sent` for their answers."""

    def __init__(self, **_: Any) -> None:
        self.clock = Clock(Now(1_000, 0))
        self.leaders: dict[Any, Any] = {A: 1, B: 2, C: 2}
        self.sent: list[tuple[int, Any, Callable[[Any], None]]] = []
        self.completed: list[str] = []
        self.markers = Markers(self.clock, lambda partition: self.leaders[partition], self.send)

    def send(self, node_id: NodeId, body: Any, answered: Callable[[Any], None]) -> None:
        self.sent.append((node_id, body, answered))

    def begin(self, *partitions: Any, of: Ending | None = None) -> None:
        self.markers.begin(
            of or ending(), partitions, lambda done: self.completed.append(done.transactional_id)
        )

    def requests(self) -> list[tuple[int, list[tuple[int, Any]]]]:
        """Broker, and producer and partition of each marker."""
        return [
            (node_id, [
                (marker.producer_id, (str(topic.name), number))
                for marker in body.markers
                for topic in marker.topics
                for number in topic.partition_indexes
            ])
            for node_id, body, _ in self.sent
        ]  # fmt: skip

    def answer(self, node_id: int, codes: dict[Any, ErrorCode] | None = None) -> None:
        """Answer the request to a broker: with the codes by partition, else without an error."""
        (index,) = [i for i, sent in enumerate(self.sent) if sent[0] == node_id]
        _, body, answered = self.sent.pop(index)
        new = codec.newest(WRITE_TXN_MARKERS, "response")
        answered(
            new.WriteTxnMarkersResponse(
                markers=tuple(
                    new.WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=tuple(
                            new.WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=tuple(
                                    new.WritableTxnMarkerPartitionResult(
                                        partition_index=number,
                                        error_code=(codes or {}).get((topic.name, number), NONE),
                                    )
                                    for number in topic.partition_indexes
                                ),
                            )
                            for topic in marker.topics
                        ),
                    )
                    for marker in body.markers
                )
            )
        )

    def lose(self, node_id: int) -> None:
        (index,) = [i for i, sent in enumerate(self.sent) if sent[0] == node_id]
        self.sent.pop(index)[2](None)

    def advance(self, ms: int = RETRY_MS) -> None:
        self.clock.set(Now(self.clock.now_ms + ms, 0))
        due_ms = self.markers.next_ms()
        if due_ms is not None and due_ms <= self.clock.now_ms:
            self.markers.tick()


class AtOnce(Brokers):
    """Leaders that answer before the request is sent, as this broker may itself."""

    @override
    def send(self, node_id: NodeId, body: Any, answered: Callable[[Any], None]) -> None:
        super().send(node_id, body, answered)
        self.answer(node_id)


def test_each_leader_gets_the_marker_of_its_partitions() -> None:
    brokers = Brokers()
    brokers.begin(A, B, C)
    assert brokers.requests() == [(1, [(7, A)]), (2, [(7, B), (7, C)])]
    marker = brokers.sent[0][1].markers[0]
    assert (marker.producer_epoch, marker.transaction_result) == (4, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
    brokers.answer(1)
    assert brokers.completed == []
    brokers.answer(2)
    assert (brokers.completed, len(brokers.markers), brokers.markers.next_ms()) == (["x"], 0, None)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_says_how_its_transaction_ended(is_commit: bool) -> None:
    brokers = Brokers()
    brokers.begin(A, of=ending(is_commit=is_commit, transaction_version=0, coordinator_epoch=9))
    marker = brokers.sent[0][1].markers[0]
    assert (marker.transaction_result, marker.transaction_version) == (is_commit, 0)
    assert marker.coordinator_epoch == 9


def test_without_partitions_it_is_complete_at_once() -> None:
    brokers = Brokers()
    brokers.begin()
    assert (brokers.completed, brokers.sent) == (["x"], [])


@pytest.mark.parametrize("waits", [False, True])
def test_an_answer_may_come_while_its_request_is_sent(waits: bool) -> None:
    brokers = AtOnce()
    if waits:
        brokers.leaders[A] = NO_LEADER
    brokers.begin(A)
    if waits:
        assert brokers.completed == []
        brokers.leaders[A] = 1
        brokers.advance()
    assert (brokers.completed, len(brokers.markers)) == (["x"], 0)


def test_what_comes_while_a_broker_is_asked_goes_together() -> None:
    brokers = Brokers()
    for number, name in enumerate("xyz"):
        brokers.begin(A, of=ending(name, producer_id=number))
    assert brokers.requests() == [(1, [(0, A)])]
    brokers.answer(1)
    assert brokers.completed == ["x"]
    assert brokers.requests() == [(1, [(1, A), (2, A)])]
    brokers.answer(1)
    assert brokers.completed == ["x", "y", "z"]


def test_a_request_is_bounded() -> None:
    brokers = Brokers()
    for number in range(MARKERS_MAX + 2):
        brokers.begin(A, of=ending(str(number), producer_id=number))
    brokers.answer(1)
    assert len(brokers.sent[0][1].markers) == MARKERS_MAX
    brokers.answer(1)
    assert brokers.requests() == [(1, [(MARKERS_MAX + 1, A)])]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.cluster_authorization_failed,
    ],
)
def test_what_a_leader_refuses_goes_to_the_leader_of_then(code: ErrorCode) -> None:
    brokers = Brokers()
    brokers.begin(B, C)
    brokers.answer(2, {C: code})
    assert (brokers.sent, brokers.completed) == ([], [])
    brokers.leaders[C] = 1
    brokers.advance(RETRY_MS - 1)
    assert brokers.sent == []
    brokers.advance(1)
    assert brokers.requests() == [(1, [(7, C)])]
    brokers.answer(1)
    assert brokers.completed == ["x"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.invalid_producer_epoch,
        ErrorCode.transaction_coordinator_fenced,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_version,
    ],
)
def test_a_partition_with_a_later_marker_needs_none(code: ErrorCode) -> None:
    brokers = Brokers()
    brokers.begin(A)
    brokers.answer(1, {A: code})
    assert brokers.completed == ["x"]


def test_a_broker_that_does_not_answer_is_asked_again() -> None:
    brokers = Brokers()
    brokers.begin(A, B)
    brokers.lose(1)
    brokers.answer(2)
    assert brokers.completed == []
    brokers.advance()
    assert brokers.requests() == [(1, [(7, A)])]


def test_a_row_that_an_answer_lacks_is_sent_again() -> None:
    brokers = Brokers()
    brokers.begin(A)
    _, _, answered = brokers.sent.pop()
    answered(codec.newest(WRITE_TXN_MARKERS, "response").WriteTxnMarkersResponse(markers=()))
    brokers.advance()
    assert brokers.requests() == [(1, [(7, A)])]


def test_a_partition_without_a_leader_waits_for_one() -> None:
    brokers = Brokers()
    brokers.leaders[A] = NO_LEADER
    brokers.begin(A, B)
    assert brokers.requests() == [(2, [(7, B)])]
    brokers.answer(2)
    for _ in range(2):
        brokers.advance()
        assert (brokers.sent, brokers.completed) == ([], [])
    brokers.leaders[A] = 2
    brokers.advance()
    brokers.answer(2)
    assert brokers.completed == ["x"]


def test_a_deleted_partition_needs_no_marker() -> None:
    brokers = Brokers()
    brokers.leaders[A] = GONE
    brokers.begin(A)
    assert brokers.completed == ["x"]
    brokers.begin(A, B, of=ending("y"))
    brokers.lose(2)
    brokers.leaders[B] = GONE
    brokers.advance()
    assert (brokers.completed, brokers.sent) == (["x", "y"], [])


def test_a_partition_that_is_not_coordinated_any_more_sends_nothing() -> None:
    brokers = Brokers()
    brokers.begin(A)
    brokers.begin(A, B, of=ending("y", producer_id=8))
    brokers.begin(A, of=ending("z", owner=4, producer_id=9))
    brokers.markers.cancel(3)
    brokers.answer(1)
    assert brokers.requests() == [(2, [(8, B)]), (1, [(9, A)])], "what is under way stays"
    brokers.lose(2)
    brokers.answer(1)
    brokers.advance()
    assert (brokers.completed, brokers.sent, len(brokers.markers)) == (["z"], [], 0)


def test_an_election_begins_anew() -> None:
    """Answers to what was sent before it are not counted."""
    brokers = Brokers()
    brokers.begin(A)
    brokers.begin(A, of=ending(coordinator_epoch=6))
    assert len(brokers.markers) == 1
    brokers.answer(1)
    assert brokers.completed == []
    assert brokers.sent[0][1].markers[0].coordinator_epoch == 6
    brokers.answer(1)
    assert brokers.completed == ["x"]


def test_transactions_that_wait_for_a_leader() -> None:
    brokers = Brokers()
    brokers.leaders[A] = NO_LEADER
    brokers.begin(A, B)
    brokers.begin(B, of=ending("y", producer_id=8))
    brokers.answer(2, {B: ErrorCode.not_leader_or_follower})
    assert brokers.markers.unknown_count() == 1, "what a leader refused has one"
    brokers.leaders[A] = 1
    assert brokers.markers.unknown_count() == 0


def test_owners_of_complete_transactions_are_told_once() -> None:
    brokers = Brokers()
    brokers.begin(A, of=ending("x", owner=3))
    brokers.begin(B, of=ending("y", owner=4))
    assert brokers.markers.take_completed_owners() == set()
    brokers.answer(1)
    assert brokers.markers.take_completed_owners() == {3}
    brokers.answer(2)
    assert brokers.markers.take_completed_owners() == {4}
