"""Faults as a test says them, and their way to the nodes."""

from types import SimpleNamespace

import pytest

from broker.broker import Broker
from broker.clients.faults import Action, Faults
from broker.clients.faulty_front import FaultyFront
from broker.faulty_broker import FaultyBroker
from inspection.recorder import Recorder
from node.process import _open
from testing import Cluster, ClusterError
from testing.errors import RefusedError
from testing.fault_rules import APIS, NOT_LOST, RuleError, rule
from testing.faults import Fault
from testing.requests import CLIENT_ID
from tests.node.test_serves_records import CLUSTER_ID, settings
from wire.api_keys import PRODUCE
from wire.errors import ErrorCode


def test_a_rule():
    found = rule(
        action="refuse", api="Produce", error="UNKNOWN_SERVER_ERROR", times=2, topic="t",
        partition=0,
    )  # fmt: skip
    assert found.action is Action.REFUSE
    assert found.api_key == PRODUCE
    assert found.error is ErrorCode.unknown_server_error
    assert (found.times, found.topic, found.partition) == (2, "t", 0)
    assert found.spared == (CLIENT_ID,)


def test_every_api():
    found = rule(action="delay", api=None, delay_ms=1, times=1)
    assert (found.api_key, found.delay_ms, found.times) == (None, 1, 1)
    assert rule(action="drop", api=None).times is None
    assert found.error is ErrorCode.none


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"action": "drop", "api": "prodcue"}, "no API 'prodcue'; is it Produce?"),
        ({"action": "drop", "api": "Vote"}, "no API 'Vote'"),
        ({"action": "refuse", "api": "Fetch", "error": "NOT_LEADER"}, "is it NOT_LEADER_OR_FOLL"),
        ({"action": "refuse", "api": "Fetch", "error": "NONE"}, "no error 'NONE'"),
        ({"action": "refuse", "api": None, "error": "OFFSET_OUT_OF_RANGE"}, "every API cannot be"),
        ({"action": "refuse", "api": "DescribeTransactions"}, "cannot be refused"),
        ({"action": "lose", "api": None}, "every API cannot be lost"),
        ({"action": "lose", "api": "Metadata"}, "of Metadata cannot be lost"),
        ({"action": "drop", "api": "Fetch", "times": 0}, "times=0; allowed: 1 or more"),
        ({"action": "delay", "api": "Fetch"}, "delay_ms=0; allowed: 1 or more"),
        ({"action": "drop", "api": "Fetch", "partition": 0}, "partition=0 of which topic?"),
    ],
)
def test_what_cannot_be(said, reason):
    with pytest.raises(RuleError, match=reason.replace("?", r"\?")) as refused:
        rule(**said)
    assert isinstance(refused.value, RefusedError), "which the test reads as it is"


def test_a_name_that_is_like_no_other():
    with pytest.raises(RuleError, match=r"^no API 'xyz'$"):
        rule(action="drop", api="xyz")


def asked(answers):
    """A function that notes what is asked for, and answers."""
    notes = []

    def ask(op, **more):
        notes.append((op, more))
        return answers[op]

    return ask, notes


def test_hits_are_those_of_all_nodes_until_its_end():
    answers = {"fault_hits": 1, "fault_end": 2}
    ask, notes = asked(answers)
    with Fault(ask, {10: 1, 11: 4}) as fault:
        assert fault.hits == 2
    assert fault.hits == 4
    fault.end()
    assert notes == [
        (op, {"pid": pid, "number": number})
        for op in ("fault_hits", "fault_end")
        for pid, number in ((10, 1), (11, 4))
    ]


class Asked(Cluster):
    """A cluster of two nodes that notes what it asks for, and starts nothing."""

    def __init__(self, **more):
        super().__init__(2, **more)
        self.notes = []
        self._pids = {1: 10, 2: 11}

    def _asked(self):
        return self

    def ask(self, op, **more):
        self.notes.append((op, more))
        return {"alive": [10], "leader": 2}.get(op, 7)

    def _port_of(self, node_id):
        return node_id


def asks(cluster):
    """All that it asked for, without who lives."""
    return [note for note in cluster.notes if note[0] != "alive"]


def said(**more):
    return {"topic": None, "partition": None, **more}


def test_a_fault_is_that_of_all_nodes_that_live():
    cluster = Asked()
    assert cluster.refuse("Produce", "NOT_CONTROLLER").end() is None
    wanted = said(action="refuse", api="Produce", error="NOT_CONTROLLER", times=1)
    assert asks(cluster) == [
        ("fault", {"pid": 10, **wanted}),
        ("fault_end", {"pid": 10, "number": 7}),
    ]


def test_a_fault_of_one_node():
    cluster = Asked()
    cluster.delay("Fetch", 50, times=3, topic="t", partition=1, node_id=2)
    wanted = {"action": "delay", "api": "Fetch", "delay_ms": 50, "times": 3}
    assert asks(cluster) == [("fault", {"pid": 11, "topic": "t", "partition": 1, **wanted})]
    with pytest.raises(ClusterError, match="no node 3"):
        cluster.delay("Fetch", 50, node_id=3)


def test_drops():
    cluster = Asked()
    cluster.drop("Fetch")
    cluster.drop(None, times=None)
    cluster.drop("Produce", done=True)
    assert asks(cluster) == [
        ("fault", {"pid": 10, **said(action="drop", api="Fetch", times=1)}),
        ("fault", {"pid": 10, **said(action="drop", api=None, times=None)}),
        ("fault", {"pid": 10, **said(action="lose", api="Produce", times=1)}),
    ]


def test_faults_end_together_if_there_are_some():
    cluster = Asked()
    cluster.end_faults()
    assert cluster.notes == []
    cluster.drop("Fetch")
    cluster.notes.clear()
    cluster.end_faults()
    cluster.end_faults()
    assert asks(cluster) == [("faults_end", {"pid": 10})]


def test_nodes_without_the_switch_take_none():
    cluster = Asked(faults=False)
    with pytest.raises(ClusterError, match="started with faults=False"):
        cluster.drop("Fetch")
    assert asks(cluster) == []


def test_the_leader_is_killed_if_it_lives():
    cluster = Asked()
    with pytest.raises(ClusterError, match="t-0 has no leader that lives: 2"):
        cluster.kill_leader("t")
    cluster._pids = {1: 11, 2: 10}
    assert cluster.kill_leader("t") == 2
    assert asks(cluster)[-2][0] == "signal"
    assert asks(cluster)[-2][1]["pid"] == 10


def test_what_the_records_of_a_node_do_is_what_can_be_lost(tmp_path):
    config = settings(tmp_path, 1, 2)
    for door, kind in ((None, Broker), (SimpleNamespace(faults=Faults()), FaultyBroker)):
        identity, kernel, broker = _open(config, CLUSTER_ID, Recorder(0), door)
        assert type(broker) is kind
        done_here = {key for key in APIS.values() if key in broker.apis}
        assert set(APIS.values()) - NOT_LOST == done_here
        kernel.close()
        for lock in identity.locks:
            lock.release()
    assert type(broker._front) is FaultyFront
