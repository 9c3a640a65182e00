# ruff: noqa: SLF001 - who waits for an answer is nobody's business but the controller's
"""I14: what a controller takes for committed, its index, whom it fences, whom it leaves behind."""

from kernel.quorum.metadata_state import MetadataState
from metadata.image import Image
from simulator.checks.fencing import FencingWatch
from simulator.checks.image_compare import image_difference
from simulator.checks.ledger import Ledger
from simulator.checks.partition_index import PartitionIndexCheck
from simulator.cluster.machine import Machine


class ControllerChecks:
    """Compares an image once: the controller of a quiet cluster keeps the one it has."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._compared: dict[int, Image] = {}
        self._equal: dict[int, tuple[Image, Image]] = {}
        """Node -> what was compared last; a run ends where something differs."""
        self._fencings: dict[int, FencingWatch] = {}
        self._indexes: dict[int, PartitionIndexCheck] = {}

    def created(self, machine: Machine) -> None:
        """A process has its kernel: look at whom its controller fences from now on."""
        assert machine.kernel is not None
        controller = machine.kernel.state.controller
        if controller is not None:
            session_ms = machine.config.broker.session_timeout_ms
            self._fencings[machine.id] = FencingWatch(controller, session_ms)
            self._indexes[machine.id] = PartitionIndexCheck()

    def broken(self, state: MetadataState, number: int) -> str | None:
        """What is wrong with the controller of a node, active or resigned in this step."""
        controller = state.controller
        assert controller is not None
        wrong = self._fencings[number].broken
        if wrong is None and controller.is_active:
            wrong = self._indexes[number].broken(controller)
        if wrong is not None:
            return wrong
        if state._replies and not controller.is_active:
            return f"inactive and {len(state._replies)} requests were not answered"
        committed = controller.committed
        if self._compared.get(number) is committed:
            return None
        end_offset = committed.provenance.end_offset
        if end_offset > self._ledger.end_offset:
            # Who committed and resigned in one step may not have published it yet.
            return "it takes for committed what is not" if controller.is_active else None
        self._compared[number] = committed
        expected = self._ledger.images.get(end_offset)
        if expected is None:
            return None
        different = image_difference(committed, expected, self._equal.get(number))
        self._equal[number] = (committed, expected)
        told = f"what it takes for committed at {end_offset} is not: {different}"
        return None if different is None else told
