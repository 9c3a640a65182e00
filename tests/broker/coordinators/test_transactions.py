"""The coordinator of transactions of a broker: whose timers it looks at, when it writes."""

import msgspec
import pytest

from broker.coordinators.transactions import Transactions
from coordinator.records.kinds import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.transaction.config import TransactionsConfig
from coordinator.transaction.markers import RETRY_MS
from metadata.image import Image
from network.clock import Now
from network.turn_budget import TurnBudget
from tests.broker.apis.test_txn_offset_commit import STATE, Transactional
from tests.broker.coordinators.coordinated import OFFSETS, Coordinated
from tests.broker.fronts import services_of
from tests.coordinator.transaction.test_markers import A, Brokers, ending
from wire.errors import ErrorCode
from wire.types import NodeId, TopicId

OWNER = ending().owner


class Coordinating(Brokers):
    """The coordinator of a broker that leads partition 0 of topic a."""

    def __init__(self) -> None:
        super().__init__()
        driven = Coordinated()
        self.image: Image = driven.metadata.image
        self.transactions = Transactions(
            TransactionsConfig(),
            image=lambda: self.image,
            send=lambda node_id, _, body, take: self.send(node_id, body, take),
            new_producer_id=lambda: pytest.fail("nobody asks for one"),
            replicas=driven.broker._replicas,
            services=services_of(self.clock, [], TurnBudget()),
            on_failure=lambda _, error: pytest.fail(str(error)),
        )
        self.markers = self.transactions.markers

    def touched(self) -> set[int]:
        """Partitions whose timers were looked at again since the last time."""
        found = set(self.transactions._touched)
        self.transactions.next_ms()
        return found


def test_the_timers_of_a_partition_are_looked_at_when_its_markers_are_written() -> None:
    brokers = Coordinating()
    brokers.begin(A)
    assert brokers.touched() == set()
    brokers.answer(1)
    assert brokers.completed == ["x"]
    assert brokers.touched() == {OWNER}
    brokers.begin(A)
    brokers.answer(1, {A: ErrorCode.not_leader_or_follower})
    assert brokers.touched() == set(), "nothing is complete"


def test_they_are_looked_at_when_a_topic_is_gone_before_its_markers_are_sent_again() -> None:
    brokers = Coordinating()
    brokers.begin(A)
    brokers.answer(1, {A: ErrorCode.not_leader_or_follower})
    brokers.image = msgspec.structs.replace(
        brokers.image, topic_id_by_name=brokers.image.topic_id_by_name.delete("a")
    )
    brokers.clock.set(Now(brokers.clock.now_ms + RETRY_MS, 0))
    brokers.transactions.tick()
    assert brokers.completed == ["x"]
    assert brokers.touched() == {OWNER}


@pytest.mark.parametrize(("minimum", "code"), [("2", "coordinator_not_available"), ("1", "none")])
def test_nothing_is_written_while_too_few_replicas_are_in_sync(minimum: str, code: str) -> None:
    """Those of groups are written, and wait."""
    broker = Transactional()
    broker.init()
    for name, topic_id, numbers in ((TRANSACTION_STATE, STATE, 1), (CONSUMER_OFFSETS, OFFSETS, 3)):
        broker.metadata.config(name, min_insync_replicas=minimum)
        for number in range(numbers):
            replicas = (NodeId(1), NodeId(2))
            broker.metadata.change(number, topic_id, replicas=replicas, isr=replicas[:1])
    broker.publish()
    broker.turns()
    log = broker.broker._replicas.partitions[TopicId(STATE), 0].log
    assert log is not None
    before = log.end_offset
    assert broker.add_offsets() is ErrorCode[code]
    assert (log.end_offset > before) is (code == "none")
    assert (broker.commit({"a": [(0, 5)]}) is None) is (minimum == "2")
