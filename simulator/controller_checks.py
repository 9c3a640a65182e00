# ruff: noqa: SLF001 - who waits for an answer is nobody's business but the controller's
"""I14: what a controller takes for committed, and whom it leaves behind when it resigns."""

from kernel.metadata_state import MetadataState
from metadata.image import Image
from simulator.image_compare import image_difference
from simulator.ledger import Ledger


class ControllerChecks:
    """Compares an image once: the controller of a quiet cluster keeps the one it has."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._compared: dict[int, Image] = {}

    def broken(self, state: MetadataState, number: int) -> str | None:
        """What is wrong with the controller of a node, active or resigned in this step."""
        controller = state.controller
        assert controller is not None
        waiting = len(state._replies)
        if waiting and not controller.is_active:
            return f"inactive and {waiting} requests were not answered"
        committed = controller.committed
        if self._compared.get(number) is committed:
            return None
        end_offset = committed.provenance.end_offset
        if end_offset > self._ledger.end_offset:
            # Who committed and resigned in one step may not have published it yet.
            return "it takes for committed what is not" if controller.is_active else None
        self._compared[number] = committed
        expected = self._ledger.images.get(end_offset)
        different = None if expected is None else image_difference(committed, expected)
        if different is None:
            return None
        return f"what it takes for committed at {end_offset} is not: {different}"
