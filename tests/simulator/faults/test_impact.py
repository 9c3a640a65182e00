"""Impact of a fault in the counts, in the trace and on the page."""

from itertools import pairwise

import pytest

from simulator.campaign.draw import FAULT_NAMES, SHORT, Until
from simulator.campaign.page import data_of
from simulator.campaign.recording import Recording
from simulator.campaign.run import run_seed
from simulator.cluster.streams import Streams
from simulator.cluster.world import World
from simulator.faults.decision import OPERATIONS_AHEAD_MAX, Decision
from tests.selection import thinned
from tests.simulator.worlds import follower, leader, observer, quiet_settings, quiet_world

SECOND_US = 1_000_000
AMOUNT = OPERATIONS_AHEAD_MAX // 2 + 7


def decided(world, kind, *machines, amount=AMOUNT, messages="Fetch response"):
    return Decision(
        at_us=world.scheduler.now_us,
        kind=kind,
        targets=tuple(machine.id for machine in machines),
        length_us=SECOND_US,
        amount=amount,
        messages=messages,
    )


def told_world(plan=()):
    """(world, lines of its trace, its recording)."""
    lines, recording, settings = [], Recording(), quiet_settings()
    world = World(settings, Streams(1), list(plan), lambda _, text: lines.append(text), recording)
    world.start()
    world.run(settings.duration_us)
    return world, lines, recording


@pytest.mark.parametrize("kind", thinned(FAULT_NAMES, every=3))
def test_each_kind_says_that_it_did_something(kind):
    world = quiet_world()
    first = observer(world) if kind == "empty_disk" else follower(world)
    world.nemesis._fire(decided(world, kind, first, leader(world)))
    assert world.nemesis.fired == {kind: 1}
    assert world.nemesis.struck == {kind: 1}


@pytest.mark.parametrize(
    "kind", ["kill", "power_failure", "terminate", "pause", "crash_at_operation", "read_error"]
)
def test_a_fault_that_finds_no_process_came_and_did_nothing(kind):
    world, lines, recording = told_world()
    machine = follower(world)
    machine.kill()
    world.nemesis._fire(decided(world, kind, machine))
    assert (world.nemesis.fired, world.nemesis.struck) == ({kind: 1}, {})
    assert lines[-1] == f"fault {kind}, planned for {machine.id}, does nothing"
    assert [impact for _, impact in recording.faults] == [None]


def test_only_those_that_were_hit_are_named():
    world, lines, _ = told_world()
    dead, alive = follower(world), leader(world)
    dead.kill()
    world.nemesis._fire(decided(world, "pause", dead, alive))
    assert lines[-1] == f"fault pause of {alive.id} for 1.000 s"


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("clock_jump", "+7 s"),
        ("crash_at_operation", f"after {AMOUNT} operations of its disk"),
        ("lost_messages", "Fetch response"),
        ("slow_disk", f"{5 * AMOUNT} times slower"),
        ("one_way", "what they are sent"),
    ],
)
def test_how_is_told(kind, how):
    world, lines, _ = told_world()
    world.nemesis._fire(decided(world, kind, follower(world)))
    assert any(line.startswith(f"fault {kind} of ") and f" ({how})" in line for line in lines)


def test_a_clock_that_jumps_by_nothing_is_not_felt():
    world = quiet_world()
    decision = decided(world, "clock_jump", leader(world), amount=OPERATIONS_AHEAD_MAX // 2)
    world.nemesis._fire(decision)
    assert world.nemesis.struck == {}


def test_links_that_are_cut_already_are_cut_once():
    world = quiet_world()
    for _ in range(2):
        world.nemesis._fire(decided(world, "partition", follower(world)))
    assert (world.nemesis.fired, world.nemesis.struck) == ({"partition": 2}, {"partition": 1})


def test_damage_names_its_file():
    world, lines, _ = told_world()
    machine = follower(world)
    world.nemesis._fire(decided(world, "lost_write", machine))
    damage = world._damages._damages[machine.id]
    file = damage.path.rpartition("/")[2]
    assert (
        f"fault lost_write of {machine.id} ({file} at byte {damage.position}) for 1.000 s" in lines
    )


def test_a_fault_is_told_before_what_it_brings_about():
    world, lines, _ = told_world()
    machine = follower(world)
    world.nemesis._fire(decided(world, "kill", machine))
    assert (f"fault kill of {machine.id} for 1.000 s", f"node {machine.id}: killed") in pairwise(
        lines
    )


def test_who_is_deposed_is_the_leader_until_another_leads():
    target = 101
    plan = [Decision(at_us=900_000, kind="depose_leader", targets=(target,), length_us=1, amount=2)]
    world, lines, recording = told_world(plan)
    [(_, impact)] = recording.faults
    number = leader(world).id
    assert (impact.nodes, impact.length_us) == ((number,), None)
    assert f"fault depose_leader of {number} (the leader)" in lines
    world.run(world.scheduler.now_us + 10 * SECOND_US)
    assert 100_000 < impact.length_us < 6_000_000
    assert world.nemesis.struck == {"depose_leader": 1}


def test_a_successor_that_is_cut_off_too_is_told_and_not_counted():
    plan = [Decision(at_us=900_000, kind="depose_leader", targets=(1,), length_us=1, amount=5)]
    world, _, recording = told_world(plan)
    world.run(world.scheduler.now_us + 10 * SECOND_US)
    (first, cut_off), (second, successor) = recording.faults
    assert cut_off.nodes != successor.nodes
    assert second.at_us > first.at_us
    assert (world.nemesis.fired, world.nemesis.struck) == ({"depose_leader": 1},) * 2


def test_the_page_has_what_was_felt():
    recording = Recording()
    outcome = run_seed(1, SHORT, recording=recording, until=Until(event=20))
    done = Decision(at_us=5, kind="kill", targets=(1,), length_us=7)
    world = quiet_world()
    world.nemesis.on_fault = lambda *fault: recording.faults.append(fault)
    world.nemesis._fire(decided(world, "kill", leader(world)))
    ((_, impact),) = recording.faults
    recording.faults[:] = [(done, impact), (done, None)]
    late = outcome.settings.duration_us
    shown = data_of(outcome, recording)["faults"]
    assert shown[0][:1] + shown[0][2:] == [5, "kill", list(impact.nodes), ""]
    assert 5 < shown[0][1] <= late
    assert shown[1] == [5, 5, "kill", [], "planned for 1, did nothing"]
