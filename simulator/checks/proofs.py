"""When the answer to a client tells what is committed, as only somebody outside can know.

A broker answers lookups from its own image, which may be old. It is not older than what was
committed when the lookup began if it had all of that already then: images never go back.

A controller that writes nothing answers from its own image too, old if it was deposed and does not
know. It was not if it had everything committed when the request began, and was the one active
controller from then to the answer.
"""

from typing import NamedTuple

from simulator.checks.invariants import Invariants
from simulator.cluster.machine import Machine


class Reign(NamedTuple):
    """One active controller, and how many there had ever been."""

    node_id: int
    epoch: int
    number: int


class Proofs:
    """Looks at all machines of a world."""

    def __init__(self, machines: dict[int, Machine], invariants: Invariants) -> None:
        self._machines = machines
        self._invariants = invariants

    def of_lookup(self, target: int) -> bool:
        """Whether the image of a node has all that is committed."""
        kernel = self._machines[target].kernel
        end_offset = self._invariants.ledger.end_offset
        return kernel is not None and kernel.cache.image.provenance.end_offset >= end_offset

    def of_refusal(self) -> Reign | None:
        """The reign under which a request begins; None where none is sure to know everything."""
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
        """Who is the one active controller; None if nobody or several are."""
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
