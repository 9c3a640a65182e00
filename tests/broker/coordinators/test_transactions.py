"""The coordinator of transactions of a broker: whose timers it looks at again."""

import msgspec
import pytest

from broker.coordinators.transactions import Transactions
from coordinator.transaction.config import TransactionsConfig
from coordinator.transaction.markers import RETRY_MS
from metadata.image import Image
from network.clock import Now
from network.turn_budget import TurnBudget
from tests.broker.coordinators.coordinated import Coordinated
from tests.broker.fronts import services_of
from tests.coordinator.transaction.test_markers import A, Brokers, ending
from wire.errors import ErrorCode

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
