# ruff: noqa: SLF001 - the outstanding replies are private to the controller
"""I14: a controller's committed image, its index, its fencings, its unanswered requests."""

from kernel.quorum.metadata_state import MetadataState
from metadata.image import Image
from simulator.checks.metadata.fencing import FencingWatch
from simulator.checks.metadata.image_equality import image_difference
from simulator.checks.metadata.ledger import Ledger
from simulator.checks.metadata.partition_index import PartitionIndexCheck
from simulator.cluster.machine import Machine


class ControllerChecks:
    """Checks of all controllers; an image is compared once, as a quiet cluster keeps its own."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._compared: dict[int, Image] = {}
        self._equal: dict[int, tuple[Image, Image]] = {}
        """Node -> images compared last, which were equal; a run ends where something differs."""
        self._fencings: dict[int, FencingWatch] = {}
        self._indexes: dict[int, PartitionIndexCheck] = {}

    def created(self, machine: Machine) -> None:
        """Watch the fencings of a new process's controller from now on."""
        assert machine.kernel is not None
        controller = machine.kernel.state.controller
        if controller is not None:
            session_ms = machine.config.broker.session_timeout_ms
            self._fencings[machine.id] = FencingWatch(controller, session_ms)
            self._indexes[machine.id] = PartitionIndexCheck()

    def broken(self, state: MetadataState, number: int) -> str | None:
        """Describe what is wrong with a controller that is active or resigned in this step."""
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
            # A controller that committed and resigned in one step may not have published it yet.
            return "it takes for committed what is not" if controller.is_active else None
        self._compared[number] = committed
        expected = self._ledger.images.get(end_offset)
        if expected is None:
            return None
        different = image_difference(committed, expected, self._equal.get(number))
        self._equal[number] = (committed, expected)
        text = f"what it takes for committed at {end_offset} is not: {different}"
        return None if different is None else text
