"""Impact of a fault, for the trace, the page and the counts."""

from collections.abc import Iterable
from typing import Final

import msgspec

from simulator.cluster.machine import Machine
from simulator.faults.decision import Decision

AT_ONCE_US: Final = 0


class Impact(msgspec.Struct, kw_only=True):
    """Impact of one fault; a fault that does nothing has None instead."""

    nodes: tuple[int, ...]
    """Nodes that it hit, which need not be the targets of the plan."""
    how: str = ""
    """Details beyond the kind: `Fetch response`, `+7 s`."""
    length_us: int | None
    """Length; None until that is known."""


def impact_on(machines: Iterable[Machine], decision: Decision, how: str = "") -> Impact | None:
    """Make the impact of a fault that lasts as long as decided; None if it hit no machine."""
    nodes = tuple(machine.id for machine in machines)
    return Impact(nodes=nodes, how=how, length_us=decision.length_us) if nodes else None


def fault_text(decision: Decision, impact: Impact | None) -> str:
    """Line of the trace for a fault."""
    if impact is None:
        targets = ",".join(map(str, decision.targets))
        return f"fault {decision.kind}, planned for {targets}, does nothing"
    text = f"fault {decision.kind} of {','.join(map(str, impact.nodes))}"
    if impact.how:
        text += f" ({impact.how})"
    return f"{text} for {impact.length_us / 1e6:.3f} s" if impact.length_us else text
