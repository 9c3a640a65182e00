"""Messages of one kind that vanish: whole frames, one way, everything else passes."""

from struct import pack

import pytest

from kernel import events
from simulator.campaign.draw import Options
from simulator.campaign.probes import Probes
from simulator.campaign.run import prepare, run_seed
from simulator.cluster.network import Pipe
from simulator.faults.decision import Decision
from simulator.faults.lost_messages import (
    API_KEYS,
    MESSAGES,
    LostMessages,
    rule_of,
)
from tests.selection import thinned
from tests.simulator.worlds import follower, leader, quiet_world

SECOND_US = 1_000_000
TO_2, TO_1 = frozenset({(1, 2)}), frozenset({(2, 1)})


class Side:
    def __init__(self, host):
        self.host = host


def request(name, correlation_id, body=b"body"):
    head = pack(">hhi", API_KEYS[name], 9, correlation_id)
    return pack(">i", len(head + body)) + head + body


def response(correlation_id, body=b"longer body"):
    return pack(">ii", 4 + len(body), correlation_id) + body


@pytest.fixture
def probes():
    return Probes()


@pytest.fixture
def lost(probes):
    return LostMessages(frozenset({1, 2}), probes)


@pytest.fixture
def pipe():
    return Pipe(Side(1), 2)


def test_one_of_several_frames_of_a_chunk_is_lost(lost, probes, pipe):
    lost.lose(rule_of("Vote request", TO_2))
    fetch, vote, begin = request("Fetch", 1), request("Vote", 2), request("BeginQuorumEpoch", 3)
    assert lost.passed(pipe, pipe.to_server, fetch + vote + begin) == fetch + begin
    assert lost.passed(pipe, pipe.to_server, vote) == b""
    assert (probes.counts["request_lost"], probes.counts["response_lost"]) == (2, 0)


def test_responses_are_known_by_their_requests(lost, probes, pipe):
    sent = request("Fetch", 7) + request("Vote", 8) + request("Fetch", 9)
    assert lost.passed(pipe, pipe.to_server, sent) == sent
    lost.lose(rule_of("Fetch response", TO_1))
    answers = response(7) + response(8) + response(9)
    assert lost.passed(pipe, pipe.to_client, answers) == response(8)
    assert lost.passed(pipe, pipe.to_server, request("Fetch", 10)) == request("Fetch", 10)
    assert (probes.counts["request_lost"], probes.counts["response_lost"]) == (0, 2)


def test_correlation_ids_are_those_of_one_connection(lost, pipe):
    other = Pipe(Side(1), 2)
    lost.passed(pipe, pipe.to_server, request("Fetch", 7))
    lost.passed(other, other.to_server, request("Vote", 7))
    lost.lose(rule_of("Fetch response", TO_1))
    assert lost.passed(other, other.to_client, response(7)) == response(7)
    assert lost.passed(pipe, pipe.to_client, response(7)) == b""


def test_what_was_sent_before_it_was_watched_passes(lost, pipe):
    lost.lose(rule_of("Fetch response", TO_1))
    assert lost.passed(pipe, pipe.to_client, response(7)) == response(7)


def test_another_link_and_connections_of_clients_are_left_alone(lost, pipe):
    lost.lose(rule_of("Fetch request", TO_1 | {(900, 2)}))
    assert lost.passed(pipe, pipe.to_server, request("Fetch", 1)) == request("Fetch", 1)
    client = Pipe(Side(900), 2)
    assert lost.passed(client, client.to_server, request("Fetch", 1)) == request("Fetch", 1)


def test_a_frame_in_two_chunks_passes_and_hides_no_later_one(lost, pipe):
    lost.lose(rule_of("Vote request", TO_2))
    long, vote = request("Vote", 1, bytes(range(100))), request("Vote", 2)
    assert lost.passed(pipe, pipe.to_server, long[:40]) == long[:40]
    assert lost.passed(pipe, pipe.to_server, long[40:60]) == long[40:60]
    assert lost.passed(pipe, pipe.to_server, long[60:] + vote) == long[60:]


# ---- in a world ----------------------------------------------------------------------------------


def strike(world, messages, *targets):
    decision = Decision(
        at_us=world.scheduler.now_us,
        kind="lost_messages",
        targets=targets,
        length_us=3 * SECOND_US,
        messages=messages,
    )
    world.nemesis._fire(decision)


def test_a_follower_whose_fetches_are_not_answered_falls_behind_and_is_not_followed():
    world = quiet_world(request_timeout_ms=500)
    led, machine = leader(world), follower(world)
    strike(world, "Fetch response", led.id, machine.id)
    epoch = led.kernel.core.epoch
    world.run(world.scheduler.now_us + 1_500_000)
    assert world.probes.counts["response_lost"] > 0
    assert leader(world) is led
    assert led.kernel.core.epoch == epoch
    lost = world.probes.counts["response_lost"]
    world.run(world.scheduler.now_us + 5 * SECOND_US)
    after = world.probes.counts["response_lost"]
    assert after > lost
    world.run(world.scheduler.now_us + 5 * SECOND_US)
    assert world.probes.counts["response_lost"] == after, "it is over"
    assert machine.kernel.core.leader == led.kernel.core.leader


def test_a_leader_that_hears_no_fetch_is_replaced():
    world = quiet_world()
    led = leader(world)
    epoch = led.kernel.core.epoch
    for machine in world.machines.values():
        if machine is not led:
            strike(world, "Fetch request", machine.id)
    world.run(world.scheduler.now_us + 4 * SECOND_US)
    assert world.probes.counts["request_lost"] > 2
    assert led.kernel.core.epoch > epoch
    assert leader(world) is not led


def test_nothing_is_lost_any_more_when_faults_have_stopped():
    world = quiet_world()
    strike(world, "Fetch request", leader(world).id)
    for machine in world.machines.values():
        strike(world, "BrokerHeartbeat request", machine.id)
    world.nemesis.stop()
    world.run(world.scheduler.now_us + 2 * SECOND_US)
    assert world.probes.counts["request_lost"] == 0
    assert world.events_by_kind[events.BytesReceived.__name__] > 0


def test_messages_are_drawn_of_all_kinds_for_one_node_or_two():
    drawn, counts = set(), set()
    for seed in range(60):
        _, _, plan = prepare(seed, Options(faults=("lost_messages",)))
        drawn |= {decision.messages for decision in plan}
        counts |= {len(set(decision.targets)) for decision in plan}
    assert drawn == set(MESSAGES)
    assert counts == {1, 2}


@pytest.mark.parametrize("seed", thinned([1, 2, 4], every=3))
def test_seeds_with_nothing_but_lost_messages_hold(seed):
    options = Options(faults=("lost_messages",), duration_us=6_000_000, write_count=20)
    outcome = run_seed(seed, options)
    assert outcome.invariant is None, outcome.text
    assert outcome.marks["request_lost"] + outcome.marks["response_lost"] > 0
