"""Transactions of the producer against a whole broker of ours, some of whose answers change."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cli.connect import ClusterError, UnreachableError
from cli.records.clients.producer import Delivered, Outgoing, Producer, ProducerConfig, SendError
from cli.records.clients.transactions import Transactions
from cli.transactions.listings import terminate
from tests.cli.transactions.real_broker import RealBroker
from wire.api_keys import END_TXN, FIND_COORDINATOR, PRODUCE
from wire.errors import ErrorCode


class Changing(RealBroker):
    """A broker whose next answers are changed on their way."""

    def __init__(self) -> None:
        super().__init__(t=1)
        self.changes: dict[int, Callable[[Any], Any]] = {}

    def call(self, api_key: int, body: Any, node: int | None = None) -> Any:
        answer = super().call(api_key, body, node)
        change = self.changes.pop(api_key, None)
        return answer if change is None else change(answer)

    def ends(self) -> list[tuple[int, int, bool]]:
        return [
            (int(body.producer_id), int(body.producer_epoch), body.committed)
            for key, body in self.asked
            if key == END_TXN
        ]


@pytest.fixture
def broker() -> Changing:
    return Changing()


@pytest.fixture
def transactions(broker: Changing) -> Transactions:
    return Transactions(broker, "x", 5_000, broker.clock)


def sent(broker: Changing, transactions: Transactions) -> tuple[Producer, list[Any]]:
    """A producer, and the end of a record that it sent."""
    config = ProducerConfig(linger_ms=0)
    producer = Producer(broker, config, broker.clock, random.Random(1), transactions)
    ends: list[Any] = []
    producer.send(Outgoing("t", None, b"v"), lambda _record, end: ends.append(end))
    producer.flush()
    return producer, ends


def refused(code: ErrorCode) -> Callable[[Any], Any]:
    """The change of an answer to a Produce of one batch."""

    def change(answer: Any) -> Any:
        (topic,) = answer.responses
        (row,) = topic.partition_responses
        row = replace(row, error_code=code)
        return replace(answer, responses=(replace(topic, partition_responses=(row,)),))

    return change


def test_without_records_nothing_is_committed(broker: Changing, transactions: Transactions) -> None:
    transactions.commit()
    assert broker.ends() == []
    producer, (end,) = sent(broker, transactions)
    assert isinstance(end, Delivered)
    producer.commit()
    transactions.commit()
    assert broker.ends() == [(transactions.producer_id, 0, True)]


def test_the_first_reason_is_told_and_the_transaction_is_aborted(
    broker: Changing, transactions: Transactions
) -> None:
    transactions.failed("one")
    transactions.failed("two")
    with pytest.raises(ClusterError, match=r"error state: one$"):
        transactions.commit()
    assert [is_commit for _, _, is_commit in broker.ends()] == [False]


def test_id_and_epoch_are_those_of_the_last_end(
    broker: Changing, transactions: Transactions
) -> None:
    producer, _ = sent(broker, transactions)
    broker.changes[END_TXN] = lambda answer: replace(answer, producer_id=99, producer_epoch=7)
    producer.commit()
    assert (transactions.producer_id, transactions.producer_epoch) == (99, 7)


def test_an_end_that_is_refused(broker: Changing, transactions: Transactions) -> None:
    producer, _ = sent(broker, transactions)
    broker.changes[END_TXN] = lambda answer: replace(answer, error_code=ErrorCode.producer_fenced)
    with pytest.raises(ClusterError, match="There is a newer producer with the same"):
        producer.commit()


def test_records_of_a_fenced_producer_fail_and_are_not_committed(
    broker: Changing, transactions: Transactions
) -> None:
    terminate(broker, "x", broker.clock)
    producer, (end,) = sent(broker, transactions)
    assert isinstance(end, SendError)
    with pytest.raises(ClusterError):
        producer.commit()


def test_a_producer_that_the_leader_forgot_does_not_begin_anew(
    broker: Changing, transactions: Transactions
) -> None:
    broker.changes[PRODUCE] = refused(ErrorCode.unknown_producer_id)
    _, (end,) = sent(broker, transactions)
    assert isinstance(end, SendError)
    assert len([key for key, _ in broker.asked if key == PRODUCE]) == 1


def test_records_come_again_while_the_transaction_before_ends(
    broker: Changing, transactions: Transactions
) -> None:
    broker.changes[PRODUCE] = refused(ErrorCode.concurrent_transactions)
    _, (end,) = sent(broker, transactions)
    assert isinstance(end, Delivered)
    assert len([key for key, _ in broker.asked if key == PRODUCE]) == 2


def test_the_coordinator_is_looked_for_again_when_no_node_answers(
    broker: Changing, transactions: Transactions
) -> None:
    def unreachable(_answer: Any) -> Any:
        raise UnreachableError("gone")

    broker.changes[FIND_COORDINATOR] = unreachable
    _, ends = sent(broker, transactions)
    assert isinstance(ends[0], Delivered)
