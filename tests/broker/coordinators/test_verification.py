"""Questions of leaders to coordinators of transactions: batches, errors, fences, retries."""

import msgspec
import pytest
from immutables import Map

from broker.coordinators.verification import (
    PRODUCE_OPERATIONS,
    TXN_OFFSET_COMMIT_OPERATIONS,
    Inquiry,
    Question,
    TransactionVerifier,
    operation_of,
)
from coordinator.records.kinds import TRANSACTION_STATE
from coordinator.runtime.write import ProducerIdAndEpoch
from coordinator.transaction.config import TransactionsConfig
from metadata.image import EMPTY, Topic
from network.clock import Clock, Now
from network.peers import Failure
from tests.broker.apis.records import Records
from tests.replication.partitions import registration
from wire.api_keys import ADD_PARTITIONS_TO_TXN
from wire.errors import ErrorCode
from wire.messages import codec

A, B = ("a", 0), ("b", 1)
ADD, VERIFY, OLD = Inquiry.ADD_PARTITION, Inquiry.GENERIC_ERROR, Inquiry.DEFAULT_ERROR
CODE = ErrorCode
TOPIC_ID = bytes(15) + b"\x09"


class Leader:
    """Broker 1, of which broker 2 coordinates all transactional ids."""

    def __init__(self):
        self.clock = Clock(Now(1_000, 0))
        records = Records()
        records.broker(2)
        records.broker(3, fenced=True)
        self.image = records.image
        self.elect(2)
        self.sent = []
        self.done = {}
        self.verifier = TransactionVerifier(
            self.clock,
            lambda: self.image,
            lambda node, key, body, answered: self.sent.append((node, key, body, answered)),
            TransactionsConfig(retry_backoff_ms=20, retry_ms_max=100),
        )

    def elect(self, leader):
        topic = Topic(TOPIC_ID, TRANSACTION_STATE)
        fields = {"replicas": (1, 2), "isr": (1, 2)}
        partitions = Map({0: registration(leader, **fields)})
        topic = msgspec.structs.replace(topic, partitions=partitions)
        self.image = msgspec.structs.replace(
            self.image,
            topics=self.image.topics.set(TOPIC_ID, topic),
            topic_id_by_name=self.image.topic_id_by_name.set(TRANSACTION_STATE, TOPIC_ID),
        )

    def ask(self, *partitions, name="x", epoch=0, operation=ADD):
        producer = ProducerIdAndEpoch(7, epoch)
        question = Question(name, producer, frozenset(partitions or (A,)), operation)
        number = len(self.done)
        self.done[number] = None

        def done(errors):
            assert self.done[number] is None, "INV-TV-1"
            self.done[number] = dict(errors)

        self.verifier.ask(question, done)
        return number

    def questions(self):
        return [
            (row.transactional_id, row.producer_epoch, row.verify_only, [
                (str(topic.name), number) for topic in row.topics for number in topic.partitions
            ])
            for _, _, body, _ in self.sent for row in body.transactions
        ]  # fmt: skip

    def answer(self, codes=None, *, error=CODE.none, only=None):
        """Answer the request: with these codes by partition, else without an error."""
        _, key, body, answered = self.sent.pop(0)
        assert key == ADD_PARTITIONS_TO_TXN
        new = codec.newest(ADD_PARTITIONS_TO_TXN, "response")
        answered(
            new.AddPartitionsToTxnResponse(
                throttle_time=0,
                error_code=error,
                results_by_transaction=tuple(
                    new.AddPartitionsToTxnResult(
                        transactional_id=row.transactional_id,
                        topic_results=tuple(
                            new.AddPartitionsToTxnTopicResult(
                                name=topic.name,
                                results_by_partition=tuple(
                                    new.AddPartitionsToTxnPartitionResult(
                                        partition_index=number,
                                        partition_error_code=(codes or {}).get(
                                            (topic.name, number), CODE.none
                                        ),
                                    )
                                    for number in topic.partitions
                                ),
                            )
                            for topic in row.topics
                        ),
                    )
                    for row in body.transactions
                    if only is None or row.transactional_id in only
                ),
            )
        )

    def advance(self, ms):
        self.clock.set(Now(self.clock.now_ms + ms, 0))
        due_ms = self.verifier.next_ms()
        if due_ms is not None and due_ms <= self.clock.now_ms:
            self.verifier.tick()


@pytest.fixture
def leader():
    return Leader()


def test_the_version_of_a_request_says_what_is_asked():
    kinds = [operation_of(version, PRODUCE_OPERATIONS) for version in (10, 11, 12, 13)]
    assert kinds == [OLD, VERIFY, ADD, ADD]
    kinds = [operation_of(version, TXN_OFFSET_COMMIT_OPERATIONS) for version in (3, 4, 5)]
    assert kinds == [OLD, VERIFY, ADD]


@pytest.mark.parametrize("operation", list(Inquiry))
def test_a_question_goes_to_the_coordinator_of_its_id(leader, operation):
    number = leader.ask(B, A, operation=operation)
    assert leader.questions() == [("x", 0, operation is not ADD, [A, B])]
    assert leader.sent[0][0] == 2
    leader.answer()
    assert leader.done[number] == {}


@pytest.mark.parametrize("lost", ["topic", "leader", "broker", "unfenced broker"])
def test_without_a_coordinator_there_is_none_to_ask(leader, lost):
    if lost == "topic":
        leader.image = EMPTY
    else:
        leader.elect({"leader": -1, "broker": 9, "unfenced broker": 3}[lost])
    assert leader.done[leader.ask(A, B)] == dict.fromkeys((A, B), CODE.coordinator_not_available)
    assert leader.sent == []


def test_what_comes_while_a_coordinator_is_asked_goes_together(leader):
    leader.ask(name="x")
    numbers = [leader.ask(name="y"), leader.ask(name="z"), leader.ask(B, name="y")]
    assert leader.questions() == [("x", 0, False, [A])]
    leader.answer()
    assert leader.questions() == [("y", 0, False, [A]), ("z", 0, False, [A])]
    leader.answer()
    assert leader.questions() == [("y", 0, False, [B])], "an id is in a request once"
    leader.answer()
    assert [leader.done[number] for number in numbers] == [{}, {}, {}]
    assert leader.sent == []


def test_a_newer_epoch_fences_what_waits(leader):
    leader.ask(name="w")
    old = leader.ask(epoch=1)
    new = leader.ask(epoch=2)
    assert leader.done[old] == {A: CODE.invalid_producer_epoch}
    late = leader.ask(epoch=1)
    assert leader.done[late] == {A: CODE.invalid_producer_epoch}
    leader.answer()
    assert leader.questions() == [("x", 2, False, [A])]
    leader.answer()
    assert leader.done[new] == {}


@pytest.mark.parametrize(
    ("code", "operation", "expected"),
    [
        (CODE.producer_fenced, ADD, CODE.invalid_producer_epoch),
        (CODE.producer_fenced, OLD, CODE.invalid_producer_epoch),
        (CODE.transaction_abortable, OLD, CODE.invalid_txn_state),
        (CODE.transaction_abortable, VERIFY, CODE.transaction_abortable),
        (CODE.transaction_abortable, ADD, CODE.transaction_abortable),
        (CODE.concurrent_transactions, VERIFY, CODE.concurrent_transactions),
        (CODE.invalid_producer_id_mapping, ADD, CODE.invalid_producer_id_mapping),
        (CODE.operation_not_attempted, ADD, CODE.operation_not_attempted),
    ],
)
def test_errors_are_those_that_the_client_knows(leader, code, operation, expected):
    number = leader.ask(A, B, operation=operation)
    leader.answer({A: code})
    assert leader.done[number] == {A: expected}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CODE.cluster_authorization_failed, CODE.invalid_txn_state),
        (CODE.unknown_server_error, CODE.unknown_server_error),
    ],
)
def test_an_error_of_the_whole_is_that_of_each(leader, error, expected):
    number = leader.ask(A, B)
    leader.answer(error=error)
    assert leader.done[number] == dict.fromkeys((A, B), expected)


@pytest.mark.parametrize("failure", list(Failure))
def test_without_an_answer_nothing_is_known_but_an_old_coordinator_cannot_verify(leader, failure):
    number, other = leader.ask(A), leader.ask(name="y")
    leader.sent.pop(0)[3](failure)
    is_old = failure is Failure.UNSUPPORTED_VERSION
    assert leader.done[number] == ({} if is_old else {A: CODE.network_exception})
    leader.answer()
    assert leader.done[other] == {}, "the next is asked"


def test_an_id_that_the_answer_lacks_has_none(leader):
    leader.ask(name="w")
    numbers = [leader.ask(name="x"), leader.ask(name="y")]
    leader.answer()
    leader.answer(only={"y"})
    assert [leader.done[number] for number in numbers] == [{A: CODE.network_exception}, {}]


def test_a_partition_is_asked_for_again_while_the_last_transaction_ends(leader):
    number = leader.ask()
    for _ in range(5):
        leader.answer({A: CODE.concurrent_transactions})
        assert (leader.sent, leader.done[number]) == ([], None)
        leader.advance(19)
        assert leader.sent == []
        leader.advance(1)
        assert leader.questions() == [("x", 0, False, [A])]
    leader.answer({A: CODE.concurrent_transactions})
    assert leader.done[number] == {A: CODE.concurrent_transactions}, "100 ms are over"
    assert leader.verifier.next_ms() is None


def test_it_may_have_ended_then(leader):
    number = leader.ask()
    leader.answer({A: CODE.concurrent_transactions})
    leader.advance(20)
    leader.answer()
    assert leader.done[number] == {}
