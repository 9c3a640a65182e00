"""Liveness of a shutdown: a process that was asked to end does so in bounded time.

The bounds are the node's own: a broker gives up its controlled shutdown some seconds after the last
answer of the controller, or after minutes, a voter the hand-over of its leadership after some
seconds. They count by its own clock and begin anew after a pause.
"""

from typing import Final

from kernel.lifecycle.controlled_shutdown import UNHEARD_MS_MAX as BROKER_MS_MAX
from raft.config import SHUTDOWN_MS_MAX as VOTER_MS_MAX
from simulator.cluster.machine import Machine

SLACK_MS: Final = 1_000
"""Slack for the steps in which it finds a bound reached; the longest stall is a third of it."""


def why_still_there(machine: Machine) -> str | None:
    """Describe a process that shuts down for longer than it may, None if it does not."""
    broker_ms = BROKER_MS_MAX if machine.config.is_broker else 0
    voter_ms = VOTER_MS_MAX if machine.config.is_controller else 0
    bound_ms = broker_ms + voter_ms + SLACK_MS
    taken_ms = machine.shutting_down_ms()
    lifecycle = None if machine.kernel is None else machine.kernel.lifecycle
    if lifecycle is not None:
        taken_ms = min(taken_ms, machine.now().monotonic_ms - lifecycle.heard_ms)
    if taken_ms <= bound_ms:
        return None
    return f"node {machine.id} shuts down for {taken_ms} ms, its bound is {bound_ms} ms"
