"""Mutants of what a node publishes of committed records: images, deltas, batches."""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kernel.kernel import Kernel
from kernel.quorum.metadata_state import MetadataState
from metadata.delta import MetadataDelta
from metadata.loader import CommittedBatch, Loader
from metadata.records import ConfigRecord
from simulator.mutants.registry import Mutant, Patches
from wire.types import Offset

Original = Callable[..., Any]
_PUBLISHED_MAX: Final = 12


def _publishes_part(patches: Patches) -> None:
    """The last record of a read comes with the next commit."""

    def make(original: Original) -> Original:
        def commit(self: Loader, batches: Any) -> Any:
            taken: list[CommittedBatch] = list(batches)
            held = vars(self).pop("held", ())
            if not taken:
                return original(self, taken)
            first = taken[0]
            taken[0] = replace(first, records=(*held, *first.records))
            last = taken[-1]
            if len(last.records) > 1:
                vars(self)["held"] = last.records[-1:]
                taken[-1] = replace(last, records=last.records[:-1])
            return original(self, taken)

        return commit

    patches.method(Loader, "commit", make)


def _forgets_changed_partitions(patches: Patches) -> None:
    """A delta names the partitions of new topics only."""

    def make(original: Original) -> Original:
        def on_partition_changed(self: MetadataDelta, topic_id: Any, partition_id: int) -> None:
            if topic_id in self.topics_created:
                original(self, topic_id, partition_id)

        return on_partition_changed

    patches.method(MetadataDelta, "on_partition_changed", make)


def _stops_publishing(patches: Patches) -> None:
    """A process publishes only the first twelve of the changes that it applies."""

    def make(original: Original) -> Original:
        def publish(self: Kernel, image: Any, delta: Any) -> None:
            count = vars(self)["_published_count"] = vars(self).get("_published_count", 0) + 1
            if count <= _PUBLISHED_MAX:
                original(self, image, delta)

        return publish

    patches.method(Kernel, "_publish", make)


def _applies_configs_twice(patches: Patches) -> None:
    """A node applies every record of a config that it reads from its log two times."""

    def make(original: Original) -> Original:
        def apply_from_log(self: MetadataState, high_watermark: Offset) -> None:
            read = self._read_batches
            self._read_batches = lambda content: map(_with_configs_twice, read(content))
            try:
                original(self, high_watermark)
            finally:
                self._read_batches = read

        return apply_from_log

    patches.method(MetadataState, "_apply_from_log", make)


def _with_configs_twice(batch: CommittedBatch) -> CommittedBatch:
    twice = ((r, r) if type(r) is ConfigRecord else (r,) for r in batch.records)
    return replace(batch, records=tuple(record for each in twice for record in each))


PUBLICATIONS: Final = (
    Mutant(
        number=32,
        name="publishes-part",
        text="a batch is published without its last record",
        expected=("I13", "I14", "I17"),
        seeds_max=200,
        patch=_publishes_part,
    ),
    Mutant(
        number=41,
        name="forgets-changed-partitions",
        text="a delta lacks the changed partitions of topics that existed before it",
        expected=("I14", "I17"),
        seeds_max=50,
        patch=_forgets_changed_partitions,
    ),
    Mutant(
        number=50,
        name="stops-publishing",
        text="a node goes on applying committed records and stops publishing them",
        expected=("I17",),
        seeds_max=50,
        patch=_stops_publishing,
    ),
    Mutant(
        number=61,
        name="applies-configs-twice",
        text="a node applies the records of configs twice",
        expected=("I8",),
        seeds_max=50,
        patch=_applies_configs_twice,
    ),
)
