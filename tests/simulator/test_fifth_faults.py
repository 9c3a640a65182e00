"""Links of clients, uneven links, kills and reads at a bad moment, disks whose faults last."""

import errno

import pytest
from msgspec.structs import replace

from simulator.draw import FIFTH_FAULTS, VARIATIONS, Options
from simulator.fifth_faults import READS_AHEAD_MAX, FailingRead
from simulator.invariants import Violation
from simulator.log_mirror import segment_paths
from simulator.plan import Decision
from simulator.run import prepare, run_seed
from simulator.schedule import Schedule, read_schedule, write_schedule
from simulator.shrink import Shrinker
from storage.memory_vfs import SimulatedCrashError
from tests.selection import thinned
from tests.simulator.worlds import (
    SECOND_US,
    append,
    follower,
    leader,
    log_of,
    observer,
    quiet_world,
    run_on,
    strike,
)

FAST = Options(duration_us=4_000_000, write_count=15)
NEW = (*FIFTH_FAULTS, *VARIATIONS)


@pytest.fixture
def world():
    return quiet_world()


# ---- draws ---------------------------------------------------------------------------------------


def has_new(seed):
    return bool(set(prepare(seed, FAST)[0].faults) & set(NEW))


def test_each_is_on_in_one_of_twelve_seeds():
    on = [set(prepare(seed, Options())[0].faults) for seed in range(1_200)]
    for name in NEW:
        assert 70 <= sum(name in each for each in on) <= 130


def test_a_seed_without_them_is_the_same_plan_as_before():
    count = 0
    for seed in range(200):
        settings, _, plan = prepare(seed, Options(draws=5))
        before, _, earlier = prepare(seed, Options(draws=4))
        if not set(settings.faults) & set(VARIATIONS):
            kept = tuple(name for name in settings.faults if name not in NEW)
            assert replace(settings, faults=kept) == before
            assert [decision for decision in plan if decision.kind not in NEW] == earlier
            count += 1
    assert count > 100


@pytest.mark.parametrize("seed", thinned([s for s in range(700, 730) if not has_new(s)], 30))
def test_a_seed_without_them_has_the_digest_that_it_had(seed):
    now, before = (run_seed(seed, replace(FAST, draws=draws)) for draws in (5, 4))
    assert (now.digest, now.event_count) == (before.digest, before.event_count)


@pytest.mark.parametrize("kind", FIFTH_FAULTS)
def test_they_need_no_draw_to_be_asked_for(kind):
    settings, _, plan = prepare(1, Options(faults=(kind,), draws=1))
    assert settings.faults == (kind,)
    assert {decision.kind for decision in plan} == {kind}


@pytest.mark.parametrize("kind", NEW)
def test_a_seed_with_nothing_but_one_of_them_holds(kind):
    outcome = run_seed(4, replace(FAST, faults=(kind,)))
    assert outcome.invariant is None, outcome.text
    assert set(outcome.faults) == {kind} - set(VARIATIONS)


@pytest.mark.parametrize("kind", FIFTH_FAULTS)
def test_a_schedule_repeats_them(kind, tmp_path):
    options = replace(FAST, faults=(kind,))
    before = run_seed(4, options)
    path = tmp_path / "run.jsonl"
    write_schedule(path, Schedule(seed=4, options=options, plan=before.plan))
    found = read_schedule(path)
    assert run_seed(4, found.options, plan=found.plan).digest == before.digest


@pytest.mark.long
@pytest.mark.parametrize("kind", FIFTH_FAULTS)
def test_a_failure_by_them_is_made_smaller(kind):
    """One that wants nothing but that such a fault does something."""
    options = replace(FAST, faults=(kind,), write_count=3)

    def run(tried, plan):
        outcome = run_seed(4, tried, plan=plan)
        assert outcome.invariant is None, outcome.text
        return replace(outcome, invariant="I7" if outcome.faults_felt.get(kind) else None)

    failed = run(options, prepare(4, options)[2])
    shrunk = Shrinker(failed, options, run).shrink()
    (left,) = shrunk.plan
    assert (left.kind, left.amount, len(left.targets)) == (kind, 1, 1)


# ---- links of clients ----------------------------------------------------------------------------

BUSY = {"write_count": 100_000, "think_us": 50_000}


def busy_world():
    """Clients that write all the time; 40 decisions meet every way in which their links break."""
    return quiet_world(**BUSY)


def ended_badly(world):
    return [o for o in world.workload.history if o.error in ("CLOSED", "TIMED_OUT")]


def test_clients_of_a_healthy_broker_are_told_nothing_and_know_nothing():
    world = busy_world()
    assert not ended_badly(world)
    incarnations = [machine.incarnation for machine in world.machines.values()]
    for amount in range(40):
        machine = (leader, follower, observer)[amount % 3](world)
        strike(world, "client_links", machine, amount=amount, length_us=6 * SECOND_US)
        run_on(world, 2 * SECOND_US)
    counts = world.probes.counts
    assert counts["client_connection_reset"] > 0
    assert counts["client_link_cut"] > 0
    assert counts["client_link_clogged"] > 0
    errors = {operation.error for operation in ended_badly(world)}
    assert errors == {"CLOSED", "TIMED_OUT"}
    assert all(operation.outcome == "info" for operation in ended_badly(world))
    assert [machine.incarnation for machine in world.machines.values()] == incarnations


@pytest.mark.long
def test_links_of_clients_are_whole_when_faults_have_stopped():
    world = busy_world()
    for amount in range(40):
        strike(world, "client_links", follower(world), amount=amount, length_us=50 * SECOND_US)
    world.nemesis.stop()
    assert not any(world.network.is_cut(a, b) for a in world.machines for b in range(1_000, 1_004))
    count = len(ended_badly(world))
    run_on(world, 20 * SECOND_US)
    late = [o for o in ended_badly(world)[count:] if o.called_us > 10 * SECOND_US]
    assert not late


def test_a_request_that_was_held_may_run_when_its_client_is_long_gone():
    plan = [
        Decision(at_us=SECOND_US, kind="client_links", targets=(1,), length_us=7, amount=1),
        Decision(at_us=SECOND_US, kind="client_links", targets=(1,), length_us=8, amount=1),
    ]
    world = quiet_world(plan)
    assert {operation.late_us for operation in world.workload.history} == {15}


def test_who_serves_no_clients_is_not_struck():
    options = replace(FAST, faults=("client_links",))
    for seed in range(30):
        settings, _, plan = prepare(seed, options)
        least = 1 if settings.is_combined else 101
        assert all(target >= least for decision in plan for target in decision.targets)
    world = quiet_world(is_combined=False)
    strike(world, "client_links", follower(world), amount=2)
    assert world.nemesis.fired == {"client_links": 1}
    assert world.nemesis.felt == {}


# ---- uneven links --------------------------------------------------------------------------------


def test_links_of_a_far_node_take_longer_each_way_by_itself(world):
    network, far = world.network, follower(world)
    strike(world, "uneven_links", far, amount=20)
    others = [number for number in world.machines if number != far.id]
    assert set(network.factors) == {pair for n in others for pair in ((n, far.id), (far.id, n))}
    assert set(network.factors.values()) <= set(range(1, 21))
    assert len(set(network.factors.values())) > 3
    assert any(network.factors[a, b] != network.factors[b, a] for a, b in network.factors)
    run_on(world, 2 * SECOND_US)
    assert network.factors == {}


def test_a_far_node_hears_later():
    def delays(factor):
        world = quiet_world()
        led, far = leader(world).id, follower(world).id
        world.network.factors[led, far] = factor
        found = []
        world.network.on_sent = lambda _, way, due_us, __: (
            found.append(due_us - world.scheduler.now_us) if way.link == (led, far) else None
        )
        run_on(world, 3 * SECOND_US)
        return sum(found) / len(found)

    assert 8 * delays(1) < delays(20) < 40 * delays(1)


def test_links_are_alike_when_faults_have_stopped(world):
    strike(world, "uneven_links", *world.machines.values(), amount=20)
    assert world.network.factors
    world.nemesis.stop()
    assert world.network.factors == {}


def test_it_is_drawn_once_for_the_whole_phase_and_mostly_of_one_node():
    plans = [prepare(seed, replace(FAST, faults=("uneven_links",)))[2] for seed in range(40)]
    for (decision,) in plans:
        assert decision.at_us + decision.length_us == FAST.duration_us
    sizes = [len(decision.targets) for (decision,) in plans]
    assert 20 < sizes.count(1) < 40


# ---- reads of a start ----------------------------------------------------------------------------


def test_the_nth_read_fails_once():
    failing = FailingRead(2)
    calls = [("read", "a"), ("write", "b"), ("read", "c"), ("read", "d")]
    assert [failing(*call) for call in calls] == [None, None, errno.EIO, None]
    assert failing.path == "c"


@pytest.mark.parametrize("amount", range(4))
@pytest.mark.parametrize("who", [leader, follower, observer])
def test_a_start_that_cannot_read_is_refused_and_the_next_one_is_not(world, who, amount):
    machine = who(world)
    end_offset = machine.kernel.replica.core.log_end_offset
    strike(world, "start_read_error", machine, amount=amount)
    assert not machine.is_up
    assert world.probes.counts["start_refused_by_read_error"] == 1
    assert machine.vfs.failing is None
    run_on(world, 2 * SECOND_US)
    assert machine.is_up
    assert machine.kernel.replica.core.log_end_offset >= end_offset


def test_a_start_that_reads_less_is_none_that_failed(world):
    machine = follower(world)
    strike(world, "start_read_error", machine, amount=READS_AHEAD_MAX - 1)
    assert machine.is_up
    assert world.probes.counts["start_refused_by_read_error"] == 0


def test_i18_a_node_that_starts_without_what_it_could_not_read_is_named(world):
    machine = follower(world)
    read = machine.vfs.read

    def swallowing(path):
        try:
            return read(path)
        except OSError:
            return read(path)

    machine.vfs.read = swallowing
    with pytest.raises(Violation, match=r"I18: node \d+: it started and could not read /data/"):
        strike(world, "start_read_error", machine, amount=0)


# ---- kills at an operation -----------------------------------------------------------------------


def test_a_kill_between_two_operations_keeps_the_page_cache(world):
    machine = observer(world)
    vfs, before = machine.vfs, machine.incarnation
    strike(world, "kill_at_operation", machine, length_us=5 * SECOND_US)
    follower(world).kill()  # so that something is written: it is fenced
    while machine.is_up:
        run_on(world, 100_000)
    assert machine.vfs is vfs
    assert (machine.kill_at, vfs.crash_at) == (None, None)
    assert world.probes.counts["killed_between_disk_operations"] == 1
    assert world.probes.counts["crashed_between_disk_operations"] == 0
    run_on(world, 10 * SECOND_US)
    assert machine.incarnation == before + 2
    assert machine.kernel.replica.core.leader == leader(world).kernel.replica.core.leader


def test_i18_a_kill_within_a_truncation_may_leave_a_cut_that_was_not_synced():
    unsynced = 0
    for amount in range(11, 16):  # before it the flushed end is recorded
        world = quiet_world()
        machine = follower(world)
        log, vfs = log_of(machine), machine.vfs
        path = segment_paths(vfs)[-1]
        machine.kill_at = vfs.crash_at = vfs.operations + amount
        try:
            log.truncate_to(log.end_offset - 1)
        except SimulatedCrashError as killed:
            machine.crashed(killed)
            unsynced += len(vfs.written_content(path)) < len(vfs.durable_content(path))
            world.restart(machine)
            assert machine.is_up
    assert unsynced > 0


@pytest.mark.parametrize("amount", range(1, 20, 3))
def test_a_process_may_be_killed_at_any_operation(world, amount):
    machine = follower(world)
    strike(world, "kill_at_operation", machine, amount=amount, length_us=3 * SECOND_US)
    run_on(world, 12 * SECOND_US)
    world.nemesis.stop()  # some came to it when the fault was over
    run_on(world, 10 * SECOND_US)
    assert machine.is_up
    assert machine.kernel.replica.core.leader == leader(world).kernel.replica.core.leader


def test_a_power_failure_that_comes_first_is_one(world):
    machine = observer(world)
    vfs = machine.vfs
    strike(world, "kill_at_operation", machine, amount=5, length_us=50 * SECOND_US)
    strike(world, "crash_at_operation", machine, amount=1, length_us=50 * SECOND_US)
    follower(world).kill()
    while machine.is_up:
        run_on(world, 100_000)
    assert machine.vfs is not vfs
    assert world.probes.counts["killed_between_disk_operations"] == 0
    assert world.probes.counts["crashed_between_disk_operations"] == 1


# ---- disk faults that last -----------------------------------------------------------------------


def lasting_world():
    decision = Decision(at_us=10**9, kind="lasting_disk_fault", targets=(1,), length_us=1, amount=1)
    return quiet_world([decision])


def test_without_them_a_power_failure_makes_room_as_it_always_did(world):
    machine = observer(world)
    strike(world, "disk_full", machine, length_us=5 * SECOND_US)
    machine.power_off()
    assert machine.vfs.bytes_max is None


def test_a_full_disk_is_full_after_a_power_failure_until_the_fault_is_over():
    world = lasting_world()
    machine = observer(world)
    strike(world, "lasting_disk_fault", machine, amount=1, length_us=3 * SECOND_US)
    first, size = machine.vfs, machine.vfs.bytes_max
    assert size is not None
    run_on(world, SECOND_US + 1)
    assert machine.vfs is not first
    assert machine.vfs.bytes_max == size
    assert world.probes.counts["power_failed_on_a_faulty_disk"] == 1
    run_on(world, 5 * SECOND_US)
    assert machine.vfs.bytes_max is None
    assert machine.is_up


def test_a_disk_that_takes_no_writes_takes_none_after_a_power_failure():
    world = lasting_world()
    machine = observer(world)
    strike(world, "lasting_disk_fault", machine, amount=10, length_us=6 * SECOND_US)
    failing = machine.vfs.failing
    assert failing.is_lasting
    with pytest.raises(OSError, match="injected into"):
        append(machine, 1)
    machine.kill()
    run_on(world, 3 * SECOND_US)
    assert machine.vfs.failing is failing
    run_on(world, 10 * SECOND_US)
    assert machine.vfs.failing is None
    assert machine.is_up


def test_a_damaged_machine_keeps_its_power():
    world = lasting_world()
    machine = observer(world)
    strike(world, "lost_write", machine, amount=2, length_us=9 * SECOND_US)
    assert machine.id in world._damages._damages
    vfs = machine.vfs
    strike(world, "lasting_disk_fault", machine, length_us=3 * SECOND_US)
    run_on(world, 5 * SECOND_US)
    assert machine.vfs is vfs
    run_on(world, 10 * SECOND_US)
    assert machine.is_up


def test_a_disk_whose_next_sync_fails_is_another_one_after_a_power_failure():
    world = lasting_world()
    machine = observer(world)
    strike(world, "sync_error", machine)
    assert machine.vfs.failing is not None
    machine.power_off()
    assert machine.vfs.failing is None


# ---- clients and voters --------------------------------------------------------------------------


def test_some_seeds_have_other_clients_that_ask_other_things():
    options = replace(FAST, faults=("operation_mix",))
    drawn = [prepare(seed, options)[0] for seed in range(60)]
    assert {settings.client_count for settings in drawn} == {2, 4, 5, 6}
    assert {settings.lookup_percent for settings in drawn} == {0, 10, 35, 60, 85}
    assert len({settings.register_percent for settings in drawn}) == 4
    assert len({settings.against_percent for settings in drawn}) == 4
    usual = prepare(0, replace(FAST, faults=()))[0]
    assert all(
        settings.think_us == usual.think_us * settings.client_count // usual.client_count
        for settings in drawn
    )


def test_so_many_clients_ask_so_many_things():
    world = quiet_world(has_lookups=True, client_count=6, register_percent=100, lookup_percent=0)
    assert {operation.client for operation in world.workload.history} <= set(range(1_000, 1_006))
    assert {operation.name for operation in world.workload.history} == {"register"}


def test_some_seeds_have_two_or_four_voters():
    options = replace(FAST, faults=("even_voters",))
    assert {prepare(seed, options)[0].voter_count for seed in range(20)} == {2, 4}
    fixed = replace(options, node_count=3)
    assert {prepare(seed, fixed)[0].voter_count for seed in range(20)} == {3}


@pytest.mark.parametrize("fails_without", [True, False])
def test_a_failure_is_made_smaller_without_them_where_they_are_not_needed(fails_without):
    options = replace(FAST, faults=VARIATIONS, duration_us=1_000, write_count=0)
    failed = replace(run_seed(1, options), invariant="I7", text="made up")

    def run(options, plan):
        settings = prepare(1, options)[0]
        fails = fails_without or settings.client_count == failed.settings.client_count != 3
        return replace(failed, settings=settings, plan=plan, invariant="I7" if fails else None)

    shrunk = Shrinker(failed, options, run).shrink()
    assert shrunk.options.faults == (() if fails_without else ("operation_mix",))
