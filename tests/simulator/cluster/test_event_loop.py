"""Steps in two halves: what is taken together, what leaves between them, what is published late."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from kernel import effects as out
from kernel import events
from kernel.kernel import Kernel
from kernel.turn import Turn
from simulator.campaign.draw import Options, add_later
from simulator.campaign.run import prepare, settings_of
from simulator.checks.violation import Violation
from simulator.cluster.machine import Machine
from simulator.cluster.streams import Streams
from simulator.cluster.world import World
from tests.simulator.worlds import BUSIER, follower, leader, quiet_settings, quiet_world

SECOND_US = 1_000_000
MARKS = (
    "events_taken_together",
    "event_between_halves",
    "flushed_between_halves",
    "apply_stalled",
)


def turning_world(**more):
    return quiet_world(**(BUSIER | {"turn_us": 300, "apply_stall_us": 20_000} | more))


def test_a_cluster_serves_in_turns_and_every_mark_is_met():
    world = turning_world()
    for mark in MARKS:
        assert world.probes.counts[mark] > 0, mark
    assert sum(operation.outcome == "ok" for operation in world.workload.history) > 5
    quiet = quiet_world()
    assert [quiet.probes.counts[mark] for mark in MARKS] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("turn_us", "apply_stall_us", "has_loops"),
    [(0, 0, False), (300, 0, True), (0, 20_000, True), (300, 20_000, True)],
)
def test_each_of_both_settings_gives_machines_their_event_loop(turn_us, apply_stall_us, has_loops):
    settings = quiet_settings(turn_us=turn_us, apply_stall_us=apply_stall_us)
    world = World(settings, Streams(1), [])
    assert settings.has_event_loops is has_loops
    for machine in world.machines.values():
        assert (machine.take is not None) is has_loops


def test_a_flush_behind_a_turn_waits_until_the_turn_is_over(monkeypatch):
    flushed, flush_behind = [], Turn.flush_behind

    def flushing(turn, effect):
        loop = turn._driver
        assert loop._settle_us is None
        assert not loop._is_taking
        flushed.append(loop.has_waiting)
        return flush_behind(turn, effect)

    monkeypatch.setattr(Turn, "flush_behind", flushing)
    world = turning_world(has_quick_disks=True, turn_us=2_100)
    assert world.probes.counts["flushed_behind_a_turn"] == len(flushed) > 10
    assert set(flushed) == {False, True}, "on a thread and in the loop"
    assert sum(operation.outcome == "ok" for operation in world.workload.history) > 5
    assert turning_world().probes.counts["flushed_behind_a_turn"] == 0


def test_quick_disks_are_drawn_for_half_of_the_seeds_with_turns():
    found = {}
    for seed in range(60):
        newest, *_ = prepare(seed, Options(draws=7))
        before, *_ = prepare(seed, Options(draws=6))
        assert not before.has_quick_disks
        assert replace(newest, has_quick_disks=False) == before
        has_turns = bool(newest.turn_us or newest.apply_stall_us)
        found.setdefault(has_turns, []).append(newest.has_quick_disks)
    assert 0.3 < sum(found[True]) / len(found[True]) < 0.7
    assert not any(found[False])


def test_one_seed_is_one_run_in_turns_too():
    first, second = turning_world(), turning_world()
    assert (first.digest, first.event_count) == (second.digest, second.event_count)


def test_nothing_waits_or_stalls_when_faults_have_stopped():
    world = World(quiet_settings(**BUSIER, turn_us=300, apply_stall_us=20_000), Streams(1), [])
    world.nemesis.is_over = True
    world.start()
    world.run(2 * SECOND_US)
    assert world.probes.counts["event_between_halves"] == 0
    assert world.probes.counts["apply_stalled"] == 0
    assert sum(operation.outcome == "ok" for operation in world.workload.history) > 5


def order_of_halves(monkeypatch):
    """(node, what) of every half and of every send, as they come."""
    found = []
    take, settle, send = Kernel.take, Kernel.settle, Machine._send_peer

    def taken(self, given, now):
        found.append((int(self.config.node_id), "take"))
        return take(self, given, now)

    def settled(self):
        found.append((int(self.config.node_id), "settle"))
        return settle(self)

    def sent(self, effect):
        found.append((self.id, "send"))
        send(self, effect)

    monkeypatch.setattr(Kernel, "take", taken)
    monkeypatch.setattr(Kernel, "settle", settled)
    world = turning_world()
    for machine in world.machines.values():
        machine._perform[out.SendPeerBytes] = lambda effect, m=machine: sent(m, effect)
    found.clear()
    world.run(world.scheduler.now_us + 2 * SECOND_US)
    return found


def test_what_the_first_half_sends_leaves_before_the_second(monkeypatch):
    found = order_of_halves(monkeypatch)
    number = 101
    mine = [what for node, what in found if node == number]
    pairs = set(pairwise(mine))
    assert ("take", "send") in pairs
    assert ("send", "settle") in pairs
    assert ("settle", "settle") not in pairs
    assert ("send", "take") in pairs


def test_a_pause_between_the_halves_ends_with_the_second():
    world = turning_world()
    machine = follower(world)
    loop = machine.take.__self__
    while loop._settle_us is None:
        assert world.scheduler.run(world.scheduler.now_us + 60 * SECOND_US, 1)
    machine.pause()
    world.run(world.scheduler.now_us + SECOND_US)
    assert loop._settle_us is not None
    machine.resume()
    world.run(world.scheduler.now_us + 2 * SECOND_US)
    assert machine.kernel.core.leader == leader(world).kernel.core.leader
    assert not loop._is_stalled


@pytest.mark.parametrize("end", [Machine.kill, Machine.power_off])
def test_a_process_that_ends_between_the_halves_takes_nothing_into_the_next(end):
    world = turning_world()
    machine = follower(world)
    loop = machine.take.__self__
    while loop._settle_us is None:
        assert world.scheduler.run(world.scheduler.now_us + 60 * SECOND_US, 1)
    end(machine)
    world.restart(machine)
    world.run(world.scheduler.now_us + 3 * SECOND_US)
    assert loop._waiting_for == machine.incarnation
    assert machine.kernel.core.leader == leader(world).kernel.core.leader


def test_i20_an_exception_in_the_second_half(monkeypatch):
    world = turning_world()

    def fails(_):
        raise MemoryError("asked for by nobody")

    monkeypatch.setattr(Kernel, "settle", fails)
    with pytest.raises(Violation, match=r"I20: .* asked for by nobody"):
        world.run(world.scheduler.now_us + 2 * SECOND_US)


def test_the_invariants_see_what_each_event_of_raft_left():
    """A leader that commits and is deposed within one step has committed for everybody."""
    world = turning_world()
    looked = {"within a step": 0, "at its end": 0}
    look = world.invariants.after_step

    def looking(machine, event):
        is_within = machine.kernel.replica._is_draining
        looked["within a step" if is_within else "at its end"] += 1
        look(machine, event)

    world.invariants.after_step = looking
    world.run(world.scheduler.now_us + 2 * SECOND_US)
    for place, count in looked.items():
        assert count, f"no event of raft was looked at {place}: {looked}"


def test_the_sites_are_drawn_for_some_seeds_and_not_with_the_first_draws():
    drawn = [settings_of(seed, Options(draws=4))[0] for seed in range(60)]
    assert 5 < sum(settings.turn_us > 0 for settings in drawn) < 30
    assert 5 < sum(settings.apply_stall_us > 0 for settings in drawn) < 30
    for seed in range(60):
        settings, _, _ = prepare(seed, Options(draws=1))
        assert (settings.turn_us, settings.apply_stall_us) == (0, 0)
        streams = Streams(seed)
        again = add_later(
            settings, streams.stream("later"), streams.stream("later_sites"), Options(draws=4)
        )
        assert replace(again, faults=drawn[seed].faults) == drawn[seed]


def test_an_event_of_an_older_process_is_not_taken():
    world = turning_world()
    machine = follower(world)
    loop = machine.take.__self__
    machine.post(events.TimeAdvanced(), machine.incarnation)
    assert loop._waiting
    machine.kill()
    machine.start()
    machine.post(events.TimeAdvanced(), machine.incarnation)
    assert len(loop._waiting) == 1
    world.run(world.scheduler.now_us + SECOND_US)
    assert machine.is_up
