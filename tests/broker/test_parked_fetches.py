"""Fetches that wait for the same records: the first leaves before the next is read for."""

import gc
from typing import Any

from broker.clients.call import Call
from broker.effects import Effect, SendParts
from broker.events import ConnectionClosed, FramesReceived, TimeAdvanced
from network.turn_budget import TURN_UNITS_MAX
from replication.leader.fetches import READ_UNITS
from replication.leader.purgatory import Watched
from tests.broker.brokers import Driven
from tests.broker.test_large_fetches import fetch, produce

READERS = (2, 3, 4)


def started() -> Driven:
    """A broker at which each reader waits for records."""
    driven = Driven()
    driven.metadata.topic()
    driven.start()
    for connection_id in (1, *READERS):
        driven.connect(connection_id)
    park(driven)
    return driven


def park(driven: Driven, offset: int = 0) -> None:
    for connection_id in READERS:
        driven.step(FramesReceived(connection_id, fetch(1, offset).frames))


def answered(effects: list[Effect]) -> list[int]:
    """Connections that get an answer, in order."""
    return [each.connection_id for each in effects if isinstance(each, SendParts)]


def take(driven: Driven, *events: Any) -> list[Effect]:
    driven.take_memory(events)
    return driven.broker.take(events, driven.now)


def test_one_answer_leaves_with_the_first_half_of_the_step_and_the_others_with_the_second() -> None:
    driven = started()
    assert answered(take(driven, FramesReceived(1, produce(0).frames))) == [1, 2]
    assert answered(driven.broker.settle()) == [3, 4]
    assert not driven.broker._replicas.is_busy


def test_answers_cost_by_their_partitions_and_the_rest_waits_for_the_next_turn() -> None:
    driven = started()
    take(driven, FramesReceived(1, produce(0).frames))
    spent = driven.broker._budget.spent
    driven.broker.settle()
    assert driven.broker._budget.spent - spent >= 2 * READ_UNITS
    park(driven, 1)
    effects = take(driven, FramesReceived(1, produce(0).frames))
    driven.broker._budget.spend(TURN_UNITS_MAX)
    assert answered(effects + driven.broker.settle()) == [1, 2]
    assert driven.broker.next_deadline_ms() == driven.now_ms, "another turn is due at once"
    assert answered(driven.step(TimeAdvanced())) == [3, 4]


def test_an_answer_behind_which_none_waits_ends_no_half() -> None:
    driven = started()
    for connection_id in READERS[1:]:
        driven.step(ConnectionClosed(connection_id))
    assert answered(take(driven, FramesReceived(1, produce(0).frames))) == [1, 2]
    assert not driven.broker._budget.is_spent


def test_who_has_gone_before_its_answer_gets_none() -> None:
    driven = started()
    take(driven, FramesReceived(1, produce(0).frames))
    driven.broker._budget.spend(TURN_UNITS_MAX)
    driven.broker.settle()
    assert driven.broker._replicas.is_busy
    driven.step(ConnectionClosed(READERS[1]))
    assert [each.request for each in driven.broker._replicas._answers._completed] == []
    assert driven.broker.counts().fetch.delayed == 0


def test_those_whose_time_is_over_are_all_answered_in_one_step() -> None:
    driven = started()
    driven.now_ms += 500
    assert answered(take(driven, TimeAdvanced())) == []
    assert answered(driven.broker.settle()) == list(READERS)


def test_requests_that_waited_leave_nothing_for_the_search_for_garbage() -> None:
    driven = started()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for offset in range(3):
            driven.step(FramesReceived(1, produce(0).frames))
            if offset < 2:
                park(driven, offset + 1)
        left = [each for each in gc.get_objects() if isinstance(each, Call | Watched)]
    finally:
        gc.enable()
        gc.unfreeze()
    assert left == []
