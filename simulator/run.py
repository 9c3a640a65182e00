"""One seed: fault phase, then a phase without faults in which everything has to come to rest."""

import msgspec

from simulator.draw import Options, Settings, draw_settings
from simulator.histories import operations_of, refutation
from simulator.invariants import Violation
from simulator.nemesis import Decision, draw_plan
from simulator.scheduler import StuckError
from simulator.streams import Streams
from simulator.world import Traced, World, machine_ids

REST_US = 60_000_000
"""The budget of the liveness phase."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a seed."""

    seed: int
    invariant: str | None
    """Broken one, None if all held."""
    text: str
    at_us: int
    event_count: int
    events_by_kind: dict[str, int]
    virtual_us: int
    digest: int
    marks: dict[str, int]
    faults: dict[str, int]
    elections: int
    acknowledged: int
    plan: list[Decision]
    settings: Settings


def prepare(seed: int, options: Options) -> tuple[Settings, Streams, list[Decision]]:
    """What a seed decides before it runs."""
    streams = Streams(seed)
    settings = draw_settings(seed, streams.stream("draw"), options)
    plan = draw_plan(settings, streams.stream("nemesis"), machine_ids(settings))
    return settings, streams, plan


def run_seed(
    seed: int,
    options: Options,
    *,
    plan: list[Decision] | None = None,
    trace: Traced | None = None,
) -> Outcome:
    """Run one seed to its end or to the first violation.

    Args:
        seed: of every random stream.
        options: what is fixed.
        plan: faults instead of those that the seed draws.
        trace: told of every noteworthy thing.
    """
    settings, streams, drawn = prepare(seed, options)
    used = drawn if plan is None else plan
    world = World(settings, streams, used, trace)
    invariant, text = None, ""
    try:
        world.start()
        world.run(settings.duration_us)
        come_to_rest(world)
    except Violation as violation:
        invariant, text = violation.invariant, str(violation)
    except StuckError as error:
        invariant, text = "I20", str(error)
    except Exception as error:  # noqa: BLE001 - any exception of the code under test is a finding
        invariant, text = "I20", f"{type(error).__name__}: {error}"
    return Outcome(
        seed=seed,
        invariant=invariant,
        text=text,
        at_us=world.scheduler.now_us,
        event_count=world.event_count,
        events_by_kind=world.events_by_kind,
        virtual_us=world.scheduler.now_us,
        digest=world.digest,
        marks=world.probes.counts,
        faults=world.nemesis.fired,
        elections=world.invariants.elections,
        acknowledged=sum(operation.outcome == "ok" for operation in world.workload.history),
        plan=used,
        settings=settings,
    )


def come_to_rest(world: World) -> None:
    """No more faults: a leader stays, everybody catches up, every image is equal.

    Raises:
        Violation: `liveness`, or an invariant.
    """
    world.workload.is_stopped = True
    world.nemesis.stop()
    end_us = world.scheduler.now_us + REST_US
    if not world.run_until(lambda: is_at_rest(world), end_us):
        raise Violation("liveness", why_not_at_rest(world))
    for machine in world.machines.values():
        assert machine.kernel is not None
        world.invariants.compare_image(machine, machine.kernel)
    image = world.invariants.ledger.image
    operations = operations_of(world.workload, image, world.scheduler.now_us)
    why = refutation(operations)
    if why is not None:
        raise Violation("linearizability", why)


def is_at_rest(world: World) -> bool:
    """Whether the cluster is whole again."""
    return why_not_at_rest(world) == ""


def why_not_at_rest(world: World) -> str:
    """What is missing, empty when nothing is."""
    down = [number for number, machine in world.machines.items() if not machine.is_up]
    if down:
        return f"nodes {down} are down"
    kernels = {n: m.kernel for n, m in world.machines.items() if m.kernel is not None}
    active = [number for number, kernel in kernels.items() if kernel.state.is_active]
    if len(active) != 1:
        return f"active controllers: {active}"
    if world.workload.pending_count:
        return f"{world.workload.pending_count} operations of clients are pending"
    leader = kernels[active[0]].replica.core.leader
    end_offset = world.invariants.ledger.end_offset
    for number, kernel in kernels.items():
        if kernel.replica.core.leader != leader:
            return f"node {number} follows {kernel.replica.core.leader}, not {leader}"
        if kernel.state.loader.end_offset < end_offset:
            return f"node {number} applied {kernel.state.loader.end_offset} of {end_offset}"
    fenced = [number for number, kernel in kernels.items() if not kernel.is_unfenced]
    return f"brokers {fenced} are fenced" if fenced else ""
