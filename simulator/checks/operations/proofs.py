"""Proofs that an answer shows the committed state, which only an observer of all nodes can give.

A broker answers lookups from its own image, which may be old. It is not older than what was
committed when the lookup began if it had all of that already then: images never go back.

A controller that writes nothing answers from its own image too, which is old if it was deposed
without knowing. It was not if it had everything committed when the request began, and was the only
active controller from then to the answer.
"""

from typing import NamedTuple

from simulator.checks.invariants import Invariants
from simulator.cluster.machine import Machine


class Reign(NamedTuple):
    """An active controller, and the number of reigns so far."""

    node_id: int
    epoch: int
    number: int


class Proofs:
    """Proofs from the state of all machines of a world."""

    def __init__(self, machines: dict[int, Machine], invariants: Invariants) -> None:
        self._machines = machines
        self._invariants = invariants

    def of_lookup(self, target: int) -> bool:
        """True if the image of a node has all that is committed."""
        kernel = self._machines[target].kernel
        end_offset = self._invariants.ledger.end_offset
        return kernel is not None and kernel.cache.image.provenance.end_offset >= end_offset

    def of_refusal(self) -> Reign | None:
        """Reign under which a request begins; None where none is sure to know everything."""
        reign = self.reign()
        if reign is None:
            return None
        kernel = self._machines[reign.node_id].kernel
        assert kernel is not None
        controller = kernel.state.controller
        assert controller is not None, "it is active"
        known = controller.committed.provenance.end_offset
        return reign if known >= self._invariants.ledger.end_offset else None

    def reign(self) -> Reign | None:
        """The only active controller; None if there is none or several."""
        found = [
            (machine.id, machine.kernel.state.controller)
            for machine in self._machines.values()
            if machine.kernel is not None and machine.kernel.state.is_active
        ]
        if len(found) != 1:
            return None
        node_id, controller = found[0]
        assert controller is not None, "it is active"
        assert controller.epoch is not None, "it is active"
        return Reign(node_id, controller.epoch, self._invariants.reign_count)
