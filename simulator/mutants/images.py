"""Mutants of images, and of the index that a controller derives from them."""

from typing import Any, Final

from msgspec.structs import replace

from metadata import apply as application
from metadata.delta import MetadataDelta
from metadata.image import Image
from metadata.records import RemoveTopicRecord
from quorum_controller.partitions.partition_index import PartitionIndex
from simulator.mutants.registry import Mutant, Patches
from wire.types import Offset


def _keeps_leaderless(patches: Patches) -> None:
    """A partition that was leaderless once stays so in the controller's index."""

    def make(original: Any) -> Any:
        def advance(self: PartitionIndex, *given: Any) -> None:
            known = set(self.leaderless)
            original(self, *given)
            self.leaderless |= known

        return advance

    patches.method(PartitionIndex, "advance", make)


def _keeps_names(patches: Patches) -> None:
    """Names of deleted topics stay, in the simulator's oracle too: all images are alike."""

    def make(original: Any) -> Any:
        def apply(image: Image, record: Any, offset: Offset, delta: MetadataDelta) -> Image:
            after: Image = original(image, record, offset, delta)
            is_removal = type(record) is RemoveTopicRecord
            kept = image.topic_names_by_normalised
            return replace(after, topic_names_by_normalised=kept) if is_removal else after

        return apply

    patches.function(application, "apply", make)


IMAGES: Final = (
    Mutant(
        number=65,
        name="keeps-leaderless",
        text="a partition that has a leader again stays among the leaderless ones of the index",
        expected=("I14",),
        seeds_max=50,
        patch=_keeps_leaderless,
    ),
    Mutant(
        number=66,
        name="keeps-names",
        text="the name of a deleted topic still collides with those of new topics",
        expected=("I17",),
        seeds_max=50,
        patch=_keeps_names,
    ),
)
