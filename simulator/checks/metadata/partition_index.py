# ruff: noqa: SLF001 - the index is private to the controller
"""I14: the active controller's partition index equals a scan of its latest image."""

from metadata.image import Image
from quorum_controller.controller import Controller
from quorum_controller.partitions.partition_index import PartitionIndex
from wire.types import LeaderEpoch

EXACT = ("leaderless", "imbalanced", "reassigning")
"""Sets compared for equality (INV-PI-2); of topics by broker none may be missing (INV-PI-1)."""


class PartitionIndexCheck:
    """Comparison once for each epoch and value of the topics: few proposals change partitions."""

    def __init__(self) -> None:
        self._compared: tuple[LeaderEpoch | None, object] = (None, None)

    def broken(self, controller: Controller) -> str | None:
        """Describe how the index of an active controller differs, None if it does not."""
        latest = controller.latest
        epoch, topics = self._compared
        if epoch == controller.epoch and topics is latest.topics:
            return None
        self._compared = (controller.epoch, latest.topics)
        return why_index_is_wrong(controller._index, latest)


def why_index_is_wrong(index: PartitionIndex, image: Image) -> str | None:
    """Describe the first set of an index that differs from a scan, None if none does."""
    fresh = PartitionIndex(image)
    for name in EXACT:
        held, scanned = getattr(index, name), getattr(fresh, name)
        if held != scanned:
            return f"its partition index has {name} {sorted(held)}, a scan {sorted(scanned)}"
    for broker_id, scanned in fresh._topics_by_broker.items():
        missing = scanned - index.topics_of(broker_id)
        if missing:
            ids = ", ".join(sorted(topic_id.hex() for topic_id in missing))
            return f"its partition index lacks topics of broker {broker_id}: {ids}"
    return None
