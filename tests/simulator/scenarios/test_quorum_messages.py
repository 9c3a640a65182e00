"""Messages of a scenario's replicas: taken, lost with an isolated or stopped one."""

import pytest

from simulator.scenarios.command import ScenarioError
from simulator.scenarios.raft_quorum import Message, ScenarioQuorum


def message(source, target, sent=None):
    return Message(source_id=source, target_id=target, sent=sent)


@pytest.fixture
def quorum():
    made = ScenarioQuorum()
    made.network = [message(1, 2), message(2, 3), message(2, 1), message(2, 3), message(3, 2)]
    return made


def test_the_oldest_message_of_a_link_is_taken(quorum):
    _, older, _, newer, _ = quorum.network
    assert quorum.take_message(2, 3) is older
    assert quorum.take_message(2, 3) is newer
    with pytest.raises(ScenarioError, match="no message from 2 to 3"):
        quorum.take_message(2, 3)
    assert len(quorum.network) == 3


def test_an_isolated_replica_loses_what_is_in_flight(quorum):
    quorum.isolate(1)
    assert [(m.source_id, m.target_id) for m in quorum.network] == [(2, 3), (2, 3), (3, 2)]


def test_a_request_that_is_withdrawn_does_not_arrive(quorum):
    first, second = ["request"], ["request"]
    others = quorum.network
    quorum.network = [message(1, 2, first), *others, message(1, 2, second)]
    quorum.withdraw(first)
    assert quorum.network == [*others, message(1, 2, second)]
    assert quorum.network[-1].sent is second


def test_the_requests_of_a_stopped_replica_are_forgotten(quorum):
    quorum._callers = {1: (1, None), 2: (2, None), 3: (1, None), 4: (None, None)}
    quorum.forget_caller(1)
    assert quorum._callers == {2: (2, None), 4: (None, None)}
