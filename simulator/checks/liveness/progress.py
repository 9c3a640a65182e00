"""Progress under tolerable faults: one slow disk and packets lost on every link; writes go on.

It runs for a quarter of the seeds, after the digest is taken and everything has converged, so a run
is the same with and without it. What is lost of a TCP stream is sent again: it arrives late, and
what was sent after it waits.
"""

from functools import partial
from random import Random
from typing import Final

from simulator.checks.violation import Violation
from simulator.cluster.network import RETRANSMIT_US
from simulator.cluster.world import World

CHANCE: Final = 0.25
LOSS: Final = 0.05
SLOWER: Final = 10
"""Factor for the duration of a flush on the slow disk."""
WRITES: Final = 5
THINK_US: Final = range(2_000_000)
"""Pause between two writes: long enough to miss a time-out."""
PROGRESS_US: Final = 20_000_000
"""Time within which one of the successive writes has to be acknowledged."""


def endure(world: World) -> None:
    """Keep writing under tolerable faults, which end with the call.

    Raises:
        Violation: `liveness`: no write was acknowledged for too long, or an invariant.
    """
    rng = world.streams.stream("tolerable")
    if rng.random() >= CHANCE:
        return
    world.probes.hit("progress_under_faults")
    slow = rng.choice(sorted(world.voters))
    network, slow_disks = world.network, world.nemesis.slow_disks
    slow_disks[slow] = SLOWER
    before, network.extra_delay_us = network.extra_delay_us, partial(_lost_us, rng)
    try:
        _write_on(world, rng, slow)
    finally:
        network.extra_delay_us = before
        del slow_disks[slow]


def _lost_us(rng: Random, _: bytes) -> int:
    """Draw the extra delay of a chunk; every further loss doubles the wait."""
    delay_us = 0
    while rng.random() < LOSS:
        delay_us = 2 * delay_us + RETRANSMIT_US
    return delay_us


def _write_on(world: World, rng: Random, slow: int) -> None:
    brokers = [number for number, m in world.machines.items() if m.config.is_broker]
    acknowledged = attempt = 0
    end_us = world.scheduler.now_us + PROGRESS_US
    while acknowledged < WRITES:
        world.run(min(end_us, world.scheduler.now_us + rng.choice(THINK_US)))
        operation = world.workload.create_fresh(f"topic-tolerable-{attempt}", rng.choice(brokers))
        attempt += 1
        is_answered = world.run_until(operation.has_returned, end_us)
        if operation.outcome == "ok":
            acknowledged += 1
            end_us = world.scheduler.now_us + PROGRESS_US
        elif not is_answered:
            raise Violation(
                "liveness",
                f"no write for {PROGRESS_US // 1_000_000} s with a slow disk at node {slow} and "
                f"{LOSS:.0%} of packets lost, after {acknowledged} writes",
            )
