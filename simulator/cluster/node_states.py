"""State of the nodes when a run ends or is stopped."""

from collections.abc import Iterable

import msgspec

from simulator.cluster.machine import Machine


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one node; None where only a process would know and none runs."""

    number: int
    power: str
    """`up`, `paused` or `down`."""
    role: str | None = None
    epoch: int | None = None
    leader: int | None = None
    """None also when unknown."""
    log_end_offset: int | None = None
    high_watermark: int | None = None
    """None also when unknown."""
    applied_end_offset: int | None = None


def states_of(machines: Iterable[Machine]) -> list[NodeState]:
    """States of machines, in their order."""
    return [_state_of(machine) for machine in machines]


def _state_of(machine: Machine) -> NodeState:
    kernel = machine.kernel
    if kernel is None:
        return NodeState(number=machine.id, power=machine.power.value)
    core = kernel.core
    return NodeState(
        number=machine.id,
        power=machine.power.value,
        role=type(core.role).__name__,
        epoch=core.epoch,
        leader=core.leader.leader_id,
        log_end_offset=core.log_end_offset,
        high_watermark=core.high_watermark,
        applied_end_offset=kernel.loader.end_offset,
    )


def state_text(state: NodeState) -> str:
    """`node 1: up, Leader in epoch 3, leader 1, log end 9, high watermark 8, applied up to 8`."""
    text = f"node {state.number}: {state.power}"
    if state.role is None:
        return text
    return (
        f"{text}, {state.role} in epoch {state.epoch}, leader {_known(state.leader)}, "
        f"log end {state.log_end_offset}, high watermark {_known(state.high_watermark)}, "
        f"applied up to {state.applied_end_offset}"
    )


def _known(value: int | None) -> str:
    return "unknown" if value is None else str(value)
