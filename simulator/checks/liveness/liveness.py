"""The end of a run: faults stop, first only for a majority, then for all; progress MUST happen.

First a core of voters (a majority, sometimes all) works while the rest stays down, deaf or mute:
within the budget it has a leader, a fresh write is committed on all its nodes, then its epoch does
not change, and silent brokers are fenced. After that the rest heals, and the whole cluster has to
come to rest with equal images and a linearizable history.
"""

from itertools import chain
from random import Random
from typing import Final

from broker_publisher.local_changes import local_partitions
from simulator.campaign.draw import Settings
from simulator.checks.liveness.sessions import Reign, check_silent, reign_of
from simulator.checks.operations.histories import judge_run, refuted
from simulator.checks.raft.wiped_voters import is_unproven
from simulator.checks.violation import Violation
from simulator.cluster.machine import DATA, Machine
from simulator.cluster.world import World
from storage.log_dir.partition_directories import scan_partition_directories

REST_US: Final = 60_000_000
"""Budget of each of the two parts."""

STABLE_TIMEOUTS: Final = 10
"""Election time-outs for which the epoch of the core has to stay the same."""

UNANSWERED_US: Final = 40_000_000
"""A broker forwards a request for 30 s of its own clock after its client went away."""

EPOCHS_PER_MINUTE_MAX: Final = 10
ASKED_EVERY: Final = 16
"""Events between two checks whether the core is at rest."""

FRESH: Final = "topic-fresh"


def come_to_rest(world: World) -> None:
    """Run and check both parts.

    Raises:
        Violation: `liveness`, `linearizability`, or an invariant.
    """
    world.workload.is_stopped = True
    rng = world.streams.stream("rest")
    core = draw_core(world, rng)
    outside = tuple(number for number in world.machines if number not in core)
    epoch = highest_epoch(world, core)
    world.check_shutdowns()
    world.nemesis.stop()
    started_us = world.scheduler.now_us
    silent: tuple[int, ...] = ()
    if outside:
        world.probes.hit("majority_alone")
        silent = world.nemesis.leave_outside(outside, rng)
    reign = serve(world, core, rng)
    stay(world, core)
    check_silent(world, silent, reign)
    bound_elections(world, core, epoch, started_us)
    world.nemesis.stop()
    end_us = world.scheduler.now_us + REST_US
    everybody = tuple(world.machines)
    await_rest(world, everybody, end_us)
    if world.resources.are_requests_under_way():
        answered_us = world.scheduler.now_us + UNANSWERED_US
        world.run_until(
            lambda: not world.resources.are_requests_under_way(), answered_us, ASKED_EVERY
        )
        await_rest(world, everybody, world.scheduler.now_us + REST_US)
    for machine in world.machines.values():
        assert machine.kernel is not None
        world.invariants.compare_image(machine, machine.kernel)
    world.check_resources_at_rest()
    world.check_clients()
    image = world.ledger.image
    now_us = world.scheduler.now_us
    judged = judge_run(world.workload, image, now_us, world.sent_again)
    world.verdict = judged.verdict
    if judged.why is not None:
        world.refuted = refuted(judged)
        raise Violation("linearizability", judged.why)


def draw_core(world: World, rng: Random) -> tuple[int, ...]:
    """Draw voters that are a majority, and some observers; at least one of them serves clients.

    The majority is one of proven voters: an unproven one elects nobody that has records.
    """
    voters = sorted(world.voters)
    observers = [number for number in world.machines if number not in world.voters]
    rng.shuffle(voters)
    rng.shuffle(observers)
    voters.sort(key=lambda number: is_unproven(world.machines[number].vfs))
    majority = len(voters) // 2 + 1
    count = len(voters) if rng.random() < 0.3 else rng.randrange(majority, len(voters) + 1)
    voter_serves = world.machines[voters[0]].config.is_broker
    least = 0 if voter_serves or not observers else 1
    taken = rng.randrange(least, len(observers) + 1)
    return tuple(sorted(voters[:count] + observers[:taken]))


def highest_epoch(world: World, core: tuple[int, ...]) -> int:
    """Newest epoch that any node of the core ever knew, up or down."""
    return max(world.invariants.highest_epoch(number) for number in core)


def serve(world: World, core: tuple[int, ...], rng: Random) -> Reign | None:
    """Have a fresh write acknowledged and known to every node of the core within the budget.

    Gives the reign at the beginning.
    """
    end_us = world.scheduler.now_us + REST_US
    await_rest(world, core, end_us)
    reign = reign_of(world)
    brokers = [number for number in core if world.machines[number].config.is_broker]
    attempt = 0
    while True:
        operation = world.workload.create_fresh(f"{FRESH}-{attempt}", rng.choice(brokers))
        attempt += 1
        is_answered = world.run_until(operation.has_returned, end_us)
        if operation.outcome == "ok":
            break
        if not is_answered or world.scheduler.now_us >= end_us:
            raise Violation("liveness", f"no fresh write in the core {core}: {operation.error}")
    await_rest(world, core, end_us)
    return reign


def stay(world: World, core: tuple[int, ...]) -> None:
    """Check that no node of the core leaves its epoch once all is well."""
    before = leaders(world, core)
    length_us = STABLE_TIMEOUTS * world.settings.election_timeout_ms * 1_000
    world.run(world.scheduler.now_us + length_us)
    after = leaders(world, core)
    if before != after:
        raise Violation("liveness", f"the core {core} does not stay: {before}, then {after}")


def leaders(world: World, core: tuple[int, ...]) -> dict[int, tuple[int, int | None]]:
    """Node -> (epoch, leader) as the node sees them."""
    found = {}
    for number in core:
        kernel = world.machines[number].kernel
        if kernel is not None:
            leader = kernel.core.leader
            leader_id = None if leader.leader_id is None else int(leader.leader_id)
            found[number] = (int(leader.epoch), leader_id)
    return found


def bound_elections(world: World, core: tuple[int, ...], epoch: int, started_us: int) -> None:
    """Check that the rate of elections after the heal is bounded."""
    epochs = highest_epoch(world, core) - epoch
    minutes = 1 + (world.scheduler.now_us - started_us) // 60_000_000
    if epochs > EPOCHS_PER_MINUTE_MAX * minutes + epochs_of_lost_connections(world.settings):
        raise Violation("liveness", f"{epochs} epochs within {minutes} min without new faults")


def epochs_of_lost_connections(settings: Settings) -> int:
    """Bound on the epochs that pass before a silently lost connection is noticed.

    A follower notices by the time-out of its request. Until then each leader that it cannot reach
    resigns by check quorum, one and a half times the fetch time-out, which costs two epochs.
    """
    reigns = -(-2 * settings.request_timeout_ms // (3 * settings.fetch_timeout_ms))
    return 2 * reigns


def await_rest(world: World, core: tuple[int, ...], end_us: int) -> None:
    """Run until these nodes agree and serve."""
    if not world.run_until(lambda: why_not_at_rest(world, core) == "", end_us, ASKED_EVERY):
        raise Violation("liveness", f"core {core}: {why_not_at_rest(world, core)}")


def why_not_at_rest(world: World, core: tuple[int, ...]) -> str:
    """Describe what these nodes lack; empty when nothing."""
    machines = {number: world.machines[number] for number in core}
    down = [number for number, machine in machines.items() if not machine.is_up]
    if down:
        return f"nodes {down} are down"
    kernels = {n: m.kernel for n, m in machines.items() if m.kernel is not None}
    active = [number for number, kernel in kernels.items() if kernel.state.is_active]
    if len(active) != 1:
        return f"active controllers: {active}"
    if world.workload.pending_count:
        return f"{world.workload.pending_count} operations of clients are pending"
    leader = kernels[active[0]].core.leader
    end_offset = world.ledger.end_offset
    for number, kernel in kernels.items():
        if kernel.core.leader != leader:
            return f"node {number} follows {kernel.core.leader}, not {leader}"
        applied_end = kernel.loader.end_offset
        published_end = kernel.cache.image.provenance.end_offset
        if min(applied_end, published_end) < end_offset:
            return f"node {number} applied {applied_end}, published {published_end} of {end_offset}"
    fenced = [number for number, kernel in kernels.items() if not kernel.is_unfenced]
    wrong = [f"brokers {fenced} are fenced"] if fenced else []
    return next(filter(None, chain(wrong, map(why_folders_differ, machines.values()))), "")


def why_folders_differ(machine: Machine) -> str:
    """Describe how a broker's partition folders differ from its image; empty when they do not."""
    kernel = machine.kernel
    assert kernel is not None
    if kernel.folders is None:
        return ""
    hosted = local_partitions(kernel.cache.image, kernel.config.node_id)
    wanted = {(each.topic_name, each.partition, each.topic_id) for each in hosted}
    folders = scan_partition_directories(machine.vfs, DATA)
    found = {(each.topic, each.partition, each.topic_id) for each in folders if not each.suffix}
    if found == wanted:
        return ""
    lacking = sorted(f"{topic}-{number}" for topic, number, _ in wanted - found)
    left = sorted(f"{topic}-{number}" for topic, number, _ in found - wanted)
    return f"node {machine.id} lacks the folders {lacking} and has {left}"
