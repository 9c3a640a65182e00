"""I15 and I19 refuse what was made up for them."""

import pytest

from network.peers import Channel
from raft.events import EpochStart
from raft.fetching.progress import Progress
from raft.membership.voter_history import VoterHistory
from raft.membership.voters import static_voters
from raft.quorum import VoteTally
from raft.roles import Candidate, Follower
from simulator.checks.violation import Violation
from tests.simulator.worlds import follower, leader, quiet_world
from wire.batches.batch import encode_control_batch
from wire.types import ReplicaKey

STRANGER = 77


@pytest.fixture
def world():
    return quiet_world()


def core_of(machine):
    return machine.kernel.core


def wrong_voters(world, machine):
    return world._voter_checks.broken(machine, core_of(machine))


def too_large(world, machine):
    return world.resources.broken(machine)


def test_nothing_is_wrong_with_a_quiet_world(world):
    world.scheduler.now_us += 1_000_000
    for machine in world.machines.values():
        assert wrong_voters(world, machine) is None
        assert too_large(world, machine) is None
        assert world.resources.broken_at_rest(machine) is None


def test_i15_a_leader_that_counts_a_stranger(world):
    role = core_of(leader(world)).role
    world.scheduler.now_us += 1_000_000
    role.progress[ReplicaKey(STRANGER)] = Progress()
    assert "as the other voters" in wrong_voters(world, leader(world))


def test_i15_a_leader_that_lost_a_voter(world):
    role = core_of(leader(world)).role
    world.scheduler.now_us += 1_000_000
    role.progress.pop(ReplicaKey(follower(world).id))
    assert "as the other voters" in wrong_voters(world, leader(world))


def test_i15_check_quorum_counts_an_observer(world):
    world.scheduler.now_us += 1_000_000
    core_of(leader(world)).role.fetched_voters.add(ReplicaKey(101))
    assert "check quorum counts" in wrong_voters(world, leader(world))


def test_i15_a_voter_among_the_observers(world):
    world.scheduler.now_us += 1_000_000
    voter = ReplicaKey(follower(world).id, None)
    core_of(leader(world)).role.observers[voter] = Progress()
    assert "as observers" in wrong_voters(world, leader(world))


@pytest.mark.parametrize(
    ("voters", "granted", "said"),
    [((1, 2), (1,), "wants the votes"), ((1, 2, 3), (STRANGER,), "counts the votes")],
)
def test_i15_a_candidate_that_counts_others(world, voters, granted, said):
    machine = follower(world)
    core_of(machine)._state.role = Candidate(
        epoch=9,
        voted_key=ReplicaKey(machine.id, None),
        votes=VoteTally(
            frozenset(map(ReplicaKey, voters)), frozenset(map(ReplicaKey, granted)), frozenset()
        ),
        election_deadline_ms=10**9,
    )
    assert said in wrong_voters(world, machine)


def test_i15_a_leader_that_is_no_voter(world):
    machine = follower(world)
    core_of(machine)._state.role = Follower(epoch=9, leader_id=101, fetch_deadline_ms=10**9)
    assert "[101], no voter" in wrong_voters(world, machine)


def test_i15_a_changed_set(world):
    core = core_of(follower(world))
    world.scheduler.now_us += 1_000_000
    fewer = static_voters(core.config.voters[:2])
    core._state.log._set_voters(VoterHistory(fewer))
    assert core.voters == fewer
    assert "it knows the voters" in wrong_voters(world, follower(world))


def test_i15_a_record_that_changes_the_set(world):
    machine = leader(world)
    world.scheduler.now_us += 1_000_000
    ledger = world.invariants.ledger
    content = encode_control_batch([(6, b"")], ledger.end_offset, 1, 0)
    entry = ledger.entries[-1]._replace(
        base_offset=ledger.end_offset, end_offset=ledger.end_offset + 1
    )
    ledger.commit(entry, content)
    assert "a change of the static voters" in wrong_voters(world, machine)


MANY = range(1_000)


def link_of(kernel):
    return next(iter(kernel.peers._links.values()))


def raft_of(kernel):
    return kernel.core._state


def send_on(kernel, numbers):
    link = link_of(kernel)
    link.channel = Channel.FORWARDING
    link.in_flight.update(dict.fromkeys(numbers))


GROW = {
    "parked fetches": lambda k: raft_of(k).parked.extend(raft_of(k).parked[:1] * 1_000),
    "connections of raft": lambda k: raft_of(k).request_manager._by_id.update(dict.fromkeys(MANY)),
    "epochs of raft": lambda k: raft_of(k).log._epochs.extend([EpochStart(9, 9)] * 3),
    "epochs of the log": lambda k: k.log.epoch_cache._entries.extend([None] * 9),
    "links": lambda k: k.peers._links.update(dict.fromkeys(MANY, link_of(k))),
    "observers": lambda k: raft_of(k).role.observers.update(
        {ReplicaKey(number, None): Progress() for number in MANY}
    ),
    "replies outstanding": lambda k: [k.replica.replies.expect(print) for _ in MANY],
    "requests queued for a peer": lambda k: link_of(k).queued.extend(MANY),
    "requests in flight": lambda k: link_of(k).in_flight.update(dict.fromkeys(MANY)),
    "requests sent on": lambda k: send_on(k, [1]),
    "forwarded requests": lambda k: k.forwarding._waiting.update(dict.fromkeys(MANY)),
    "append times": lambda k: k.writer._timestamps.extend((n, n) for n in MANY),
    "stalled appends": lambda k: k.writer._stalled.extend(MANY),
    "flush plans": lambda k: k.log._flushing.outstanding.extend([None] * 3),
    "open segments": lambda k: k.log._open.used.extend([None] * 6),
    "recent batches": lambda k: k.log._segments[0]._recent.update(dict.fromkeys(MANY, 0)),
    "pending batches": lambda k: k.state.controller._batches.extend(MANY),
    "connections": lambda k: k.connections._clients.update({-1: None}),
    "connections with a backlog": lambda k: k.connections._backlog.update(dict.fromkeys(MANY)),
    "deadlines": lambda k: k.state.controller._deadlines.extend(MANY),
    "sweeps": lambda k: k.state.controller._sweeps.extend(MANY),
    "contacts of brokers": lambda k: k.state.controller._liveness._contacts.update(
        dict.fromkeys(MANY)
    ),
    "adopted batches": lambda k: k.state._adopted.append(None),
    "events of raft": lambda k: k.replica._queue.append(None),
    "proposals": lambda k: k.replica._proposals.append(None),
    "unsynced segments": lambda k: k.log._flushing.unsynced.update(dict.fromkeys("ab")),
    "times of snapshots": lambda k: k.snapshots._retention._timestamps_ms.update(
        dict.fromkeys(MANY)
    ),
    "partitions to expand": lambda k: k.isr_expansion._ready.update(dict.fromkeys(MANY)),
    "absent brokers": lambda k: k.isr_expansion._absent.update({n: {} for n in MANY}),
    "partitions of an absent broker": lambda k: k.isr_expansion._absent.update(
        {1: dict.fromkeys(MANY)}
    ),
    "changes of folders": lambda k: k.folders._waiting.extend(MANY),
    "folders that go": lambda k: k.folders._going.extend(MANY),
}
"""Makes one table of a node larger than anything can explain."""


def test_every_table_is_grown_once(world):
    machine = leader(world)
    assert {name for name, _, _ in world.resources.rows(machine.id, machine.kernel)} == set(GROW)


@pytest.mark.parametrize("table", GROW)
def test_i19_a_table_that_grows(world, table):
    machine = leader(world)
    world.scheduler.now_us += 1_000_000
    GROW[table](machine.kernel)
    assert f" {table}, at most" in too_large(world, machine)


def test_i19_a_silent_peer_is_asked_anew_at_every_change_of_role():
    world = quiet_world(request_timeout_ms=6_000, fetch_timeout_ms=500, election_timeout_ms=200)
    machine = leader(world)
    world.scheduler.now_us += 1_000_000
    link_of(machine.kernel).in_flight.update(dict.fromkeys(range(100)))
    assert too_large(world, machine) is None
    world.scheduler.now_us += 1_000_000
    link_of(machine.kernel).in_flight.update(dict.fromkeys(MANY))
    assert "requests in flight, at most 136" in too_large(world, machine)


HELD = {
    "forwarded requests": lambda k: k.forwarding._waiting.update({1: None}),
    "stalled appends": lambda k: k.writer._stalled.append(None),
    "deadlines": lambda k: k.state.controller._deadlines.append(None),
    "sweeps": lambda k: k.state.controller._sweeps.append(None),
    "changes of folders": lambda k: k.folders._waiting.append(None),
    "folders that go": lambda k: k.folders._going.append(None),
    "partitions to expand": lambda k: k.isr_expansion._ready.update({1: None}),
}
"""Leaves one thing in a table in which nothing is left when all is quiet."""


@pytest.mark.parametrize("table", HELD)
def test_i19_what_is_still_held_at_rest(world, table):
    HELD[table](leader(world).kernel)
    with pytest.raises(Violation, match=f"I19: .* 1 {table} at rest"):
        world.check_resources_at_rest()


def test_i19_what_a_leader_adopted_before_it_resigned_is_no_leak(world):
    """Between the halves of a step; raft has forgotten its high watermark by then."""
    machine = leader(world)
    state = machine.kernel.state
    raft_of(machine.kernel).high_watermark = None
    state._adopted.append(None)
    assert "1 adopted batches, at most 0" in too_large(world, machine)
    state._committed_end_offset = machine.kernel.loader.end_offset + 1
    assert too_large(world, machine) is None


def test_i19_a_request_that_is_sent_on_has_one_who_waits(world):
    machine = leader(world)
    send_on(machine.kernel, MANY)
    machine.kernel.forwarding._in_flight_count = len(MANY)
    assert too_large(world, machine) is None
    with pytest.raises(Violation, match=r"I19: .* 1000 forwarded requests at rest"):
        world.check_resources_at_rest()


@pytest.mark.parametrize("table", ["forwarded requests", "deadlines"])
def test_requests_under_way_are_waited_for_before_the_look_at_rest(world, table):
    """A request whose client gave up is still sent on, for as long as its time-out allows."""
    assert not world.resources.are_requests_under_way()
    HELD[table](leader(world).kernel)
    assert world.resources.are_requests_under_way()


def test_i19_folders_that_are_being_removed_are_no_leak(world):
    folders = leader(world).kernel.folders
    folders._going.append(None)
    folders._is_running = True
    world.check_resources_at_rest()
    folders._is_running, folders._has_failed = False, True
    world.check_resources_at_rest()


def test_i19_a_connection_whose_close_is_not_taken_yet_is_no_leak(world):
    machine = leader(world)
    count = len(machine.kernel.connections)
    connection_id = next(iter(machine._inbound))
    machine.pause()
    machine.drop_inbound(connection_id, machine.incarnation)
    assert machine.connection_count == count
    assert too_large(world, machine) is None
    machine.resume()
    assert machine.connection_count == len(machine.kernel.connections) == count - 1
