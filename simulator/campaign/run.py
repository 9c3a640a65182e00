"""Run of one seed: a phase with faults, then one in which everything has to come to rest."""

import zlib
from typing import Final

import msgspec

from metadata.snapshot import encode_snapshot, snapshot_records
from simulator.campaign.draw import (
    Options,
    Settings,
    Until,
    add_by_kind,
    add_chores,
    add_hand_over,
    add_later,
    add_quick_disks,
    add_reads,
    decided,
    draw_settings,
)
from simulator.campaign.early_stop import ReachedError, stop_at
from simulator.campaign.recording import Recording
from simulator.checks.liveness.convergence import converge
from simulator.checks.liveness.liveness import come_to_rest
from simulator.checks.liveness.progress import endure
from simulator.checks.operations.histories import Refuted, count_definite
from simulator.checks.raft.log_mirror import segment_paths
from simulator.checks.violation import Violation
from simulator.cluster.members import machine_ids
from simulator.cluster.node_states import NodeState, states_of
from simulator.cluster.requests import READS
from simulator.cluster.scheduler import EndlessStepError, StuckError, returning_within
from simulator.cluster.streams import Streams
from simulator.cluster.world import Traced, World
from simulator.faults.decision import Decision
from simulator.faults.plan import draw_apart, draw_by_kind, draw_chores, draw_later, draw_plan
from wire.types import LeaderEpoch

CPU_SECONDS_MAX: Final = 300
"""Limit of one run. A standard seed takes 2 to 5; more is a step that does not return."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a seed."""

    seed: int
    invariant: str | None
    """Broken invariant, None if all held."""
    text: str
    at_us: int
    event_count: int
    events_by_kind: dict[str, int]
    virtual_us: int
    digest: int
    marks: dict[str, int]
    skips: dict[str, int]
    """Checks that could not be made (simulator/campaign/probes.py)."""
    faults: dict[str, int]
    """Number of faults by kind; `effective_faults` counts those with an effect."""
    effective_faults: dict[str, int]
    elections: int
    acknowledged: int
    operations: int
    """Operations of clients; `definite` are those with an answer that proves something."""
    definite: int
    verdict: str | None
    """Verdict on the history: `ok`, `illegal`, `unknown`; None if the run did not get there."""
    refuted: Refuted | None = None
    """The clients' history, if it is not linearizable."""
    messages: int
    plan: list[Decision]
    settings: Settings
    is_complete: bool = True
    """False when `until` stopped it."""
    nodes: list[NodeState] = []
    """State of the nodes at the end."""


def settings_of(seed: int, options: Options) -> tuple[Settings, Streams]:
    """Settings of a seed, and its streams after the draws that made them."""
    streams = Streams(seed)
    options = decided(seed, options)
    settings = draw_settings(seed, streams.stream("draw"), streams.stream("rare"), options)
    later, sites = streams.stream("later"), streams.stream("later_sites")
    settings = add_later(settings, later, sites, options)
    settings = add_by_kind(settings, streams.stream, options)
    settings = add_hand_over(settings, streams.stream, options)
    settings = add_quick_disks(settings, streams.stream, options)
    settings = add_reads(settings, streams.stream, options)
    return add_chores(settings, streams.stream, options), streams


def prepare(seed: int, options: Options) -> tuple[Settings, Streams, list[Decision]]:
    """Draw what a seed decides before it runs."""
    settings, streams = settings_of(seed, options)
    machines = machine_ids(settings)
    plan = draw_plan(settings, streams.stream("nemesis"), machines)
    plan += draw_apart(settings, streams.stream("apart"), machines)
    plan += draw_later(settings, streams.stream("later_plan"), machines)
    plan += draw_by_kind(settings, streams.stream, machines)
    plan += draw_chores(settings, streams.stream, machines)
    plan.sort(key=lambda decision: decision.at_us)
    return settings, streams, plan


def run_seed(
    seed: int,
    options: Options,
    *,
    plan: list[Decision] | None = None,
    trace: Traced | None = None,
    recording: Recording | None = None,
    until: Until | None = None,
) -> Outcome:
    """Run one seed to its end or to the first violation.

    Args:
        seed: of every random stream.
        options: choices of the caller.
        plan: faults instead of those that the seed draws.
        trace: called with every line of the trace.
        recording: keeps what the page needs.
        until: stop there, in any phase.
    """
    settings, streams, drawn = prepare(seed, options)
    used = drawn if plan is None else plan
    world = World(settings, streams, used, trace, recording)
    invariant, text, is_complete = None, "", True
    digest: int | None = None
    if until is not None:
        stop_at(world.scheduler, until, lambda: world.event_count)
    try:
        with returning_within(CPU_SECONDS_MAX):
            digest = _run(world)
            converge(world)
            endure(world)
    except ReachedError:
        is_complete = False
    except Violation as violation:
        invariant, text = violation.invariant, str(violation)
    except (StuckError, EndlessStepError) as error:
        invariant, text = "I20", str(error)
    except BrokenPipeError:
        raise  # nobody reads the trace any more
    except Exception as error:  # noqa: BLE001 - any exception of the code under test is a finding
        invariant, text = "I20", f"{type(error).__name__}: {error}"
    if trace is not None and invariant is not None:
        trace(world.scheduler.now_us, f"VIOLATION {text.partition(chr(10))[0]}")
    return Outcome(
        seed=seed,
        invariant=invariant,
        text=text,
        at_us=world.scheduler.now_us,
        event_count=world.event_count,
        events_by_kind=world.events_by_kind,
        virtual_us=world.scheduler.now_us,
        digest=final_digest(world) if digest is None else digest,
        marks=world.probes.marks,
        skips=world.probes.skips,
        faults=world.nemesis.fired,
        effective_faults=world.nemesis.struck,
        elections=world.invariants.elections,
        acknowledged=sum(o.outcome == "ok" and o.kind not in READS for o in world.workload.history),
        operations=len(world.workload.history),
        definite=count_definite(world.workload, world.sent_again),
        verdict=world.verdict,
        refuted=world.refuted,
        messages=world.network.sent,
        plan=used,
        settings=settings,
        is_complete=is_complete,
        nodes=states_of(world.machines.values()),
    )


def _run(world: World) -> int:
    """Run what belongs to the digest, and return that."""
    world.start()
    world.run(world.settings.duration_us)
    come_to_rest(world)
    return final_digest(world)


def final_digest(world: World) -> int:
    """CRC-32 over every step and all bytes sent, and over the log and image of every node."""
    digest = zlib.crc32(int.to_bytes(world.network.sent_checksum, 4, "big"), world.digest)
    for machine in world.machines.values():
        for path in segment_paths(machine.vfs):
            content = machine.vfs.written_content(path)
            assert content is not None
            digest = zlib.crc32(content, zlib.crc32(path.encode(), digest))
        if machine.kernel is None:
            continue
        image = machine.kernel.cache.image
        pieces = encode_snapshot(
            snapshot_records(image),
            level=image.metadata_version,
            epoch=LeaderEpoch(0),
            last_contained_timestamp_ms=0,
            timestamp_ms=0,
        )
        for piece in pieces:
            digest = zlib.crc32(piece, digest)
    return digest
