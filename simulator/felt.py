"""What a fault did when it came, for the trace, the page and the counts."""

from collections.abc import Iterable
from typing import Final

import msgspec

from simulator.machine import Machine
from simulator.plan import Decision

AT_ONCE_US: Final = 0


class Felt(msgspec.Struct, kw_only=True):
    """What one fault did; who does nothing gives None instead."""

    nodes: tuple[int, ...]
    """Whom it hit, which need not be the targets of the plan."""
    how: str = ""
    """What the kind does not say: `Fetch response`, `+7 s`."""
    length_us: int | None
    """How long it lasts; None until that is known."""


def felt_by(decision: Decision, machines: Iterable[Machine], how: str = "") -> Felt | None:
    """A fault that lasts as long as was decided; None if it hit no machine."""
    nodes = tuple(machine.id for machine in machines)
    return Felt(nodes=nodes, how=how, length_us=decision.length_us) if nodes else None


def fault_text(decision: Decision, felt: Felt | None) -> str:
    """A fault as the trace tells it."""
    if felt is None:
        targets = ",".join(map(str, decision.targets))
        return f"fault {decision.kind}, planned for {targets}, does nothing"
    text = f"fault {decision.kind} of {','.join(map(str, felt.nodes))}"
    if felt.how:
        text += f" ({felt.how})"
    return f"{text} for {felt.length_us / 1e6:.3f} s" if felt.length_us else text
