"""Commands of scenarios of records: what cannot be performed is named, what nothing shows."""

import pytest

from simulator.scenarios.command import ScenarioError, parse_command
from simulator.scenarios.records import RecordsScenario


def run(scenario, *lines):
    return [said for line in lines for said in scenario.run(parse_command(line))]


@pytest.fixture(scope="module")
def cluster():
    scenario = RecordsScenario()
    run(scenario, "cluster brokers=2", "topic t 101,102 min.insync.replicas=1")
    return scenario


def test_before_a_cluster_only_flaws_are_known():
    scenario = RecordsScenario()
    with pytest.raises(ScenarioError, match="there is no cluster"):
        run(scenario, "advance 5")
    with pytest.raises(ScenarioError, match="no mutant 'tired'"):
        run(scenario, "flaw tired")
    assert run(scenario, "flaw no-divergence") == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("fly 101", "no command 'fly', allowed: add, advance"),
        ("start 101", "101 runs"),
        ("kill 109", "no node 109"),
        ("deliver 101 102", "nothing is held from 101 to 102"),
        ("log 101 partition=u-0", "no partition 'u-0'"),
        ("fetch 101 0 partition=t", "no partition 't'"),
        ("topic t 101", "topic_already_exists"),
        ("topic u 101 segment.bytes=1", "invalid_config"),
    ],
)
def test_what_cannot_be_performed_is_named(cluster, line, reason):
    with pytest.raises(ScenarioError, match=reason):
        run(cluster, line)


def test_what_does_not_come_is_no_answer(cluster):
    assert run(cluster, "file 101 nothing") == ["101 has no nothing"]
    said = run(cluster, "kill 102", "fetch 102 0", "produce 102 a", "state 102")
    assert said == ["=> fetch 0: no answer", "=> produce a: no answer", "102 stopped"]


def test_a_process_that_ends_by_an_error_is_a_line_and_checks_rest():
    scenario = RecordsScenario()
    run(scenario, "cluster brokers=2")
    for number in (101, 102):
        scenario.world.node(number).failed(OSError("gone"))
    said = run(scenario, "advance 1", "state")
    assert said == ["breaks I20: node 101 stopped: gone", "101 stopped", "102 stopped"]
