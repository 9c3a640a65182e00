"""Mutants of the log cleaner: its choice of records, their places, its swaps."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from simulator.mutants.records_mutant import MANY_ENDS, by_seeds
from simulator.mutants.registry import Mutant, Patches
from storage.cleaner import segment_reader
from storage.cleaner.batch_filter import BatchFilter
from storage.cleaner.segment_swap import SegmentSwap
from storage.logs.log import Log
from wire.batches import batch, record_fields
from wire.types import Offset

NO_FAULTS: Final = replace(MANY_ENDS, faults=("terminate",))


def _reads_no_end_of_a_segment(patches: Patches) -> None:
    """The last batch of a segment that is cleaned is left out, in the map and in the copy."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(*given: Any) -> Iterator[Any]:
            for position, size, batches in original(*given):
                yield position, size, batches[:-1]

        return mutated

    patches.function(segment_reader, "read_segment", make)


def _loses_the_newest_too(patches: Patches) -> None:
    """The newest record of a key is superseded by itself."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: BatchFilter, header: Any, fields: list[Any]) -> list[Any]:
            base = header.base_offset
            offsets = self._offsets
            kept = original(self, header, fields)
            return [each for each in kept if base + each[4] != offsets.get(each[5], -1)]

        return mutated

    patches.method(BatchFilter, "_retained", make)


def _drops_what_is_behind_the_map(patches: Patches) -> None:
    """Records that the map does not cover are taken for superseded."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: BatchFilter, header: Any, fields: list[Any]) -> list[Any]:
            base, latest = header.base_offset, self._latest_offset
            return [each for each in original(self, header, fields) if base + each[4] <= latest]

        return mutated

    patches.method(BatchFilter, "_retained", make)


def _moves_offsets_down(patches: Patches) -> None:
    """A batch that loses records begins one offset lower than it did."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(header: Any, compressed: bytes, count: int) -> bytes:
            base = Offset(max(0, header.base_offset - 1))
            return bytes(original(replace(header, base_offset=base), compressed, count))

        return mutated

    patches.function(batch, "with_header", make)


def _forgets_the_last_of_a_group(patches: Patches) -> None:
    """The segment behind those of a group is taken out with them."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: Log, segment: Any, old: list[Any]) -> None:
            behind = self.segments.index(old[-1]) + 1
            if behind < len(self.segments) - 1:
                old = [*old, self.segments[behind]]
            original(self, segment, old)

        return mutated

    patches.method(Log, "swap_in", make)


def _drops_tombstones_of_live_keys(patches: Patches) -> None:
    """A tombstone is no record of its key: what it deletes comes back when it goes."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(section: bytes, count: int) -> list[Any]:
            found = original(section, count)
            return [
                each if each[6] else (*each[:5], b"\0" + (each[5] or b""), each[6])
                for each in found
            ]

        return mutated

    patches.function(record_fields, "record_fields", make)


def _leaves_old_segments_in(patches: Patches) -> None:
    """Of the old segments only the first goes out of the log."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def mutated(self: SegmentSwap) -> Any:
            self._old = self._old[:1]
            return original(self)

        return mutated

    patches.method(SegmentSwap, "replace", make)


CLEANER: Final[tuple[Mutant, ...]] = (
    by_seeds(261, _reads_no_end_of_a_segment, "D8", options=NO_FAULTS),
    by_seeds(262, _loses_the_newest_too, "D8", options=NO_FAULTS),
    by_seeds(263, _drops_what_is_behind_the_map, "D8", options=NO_FAULTS),
    by_seeds(264, _moves_offsets_down, "D8", "I20", options=NO_FAULTS),
    by_seeds(265, _forgets_the_last_of_a_group, "D8", "I20", options=NO_FAULTS),
    by_seeds(266, _drops_tombstones_of_live_keys, "D8", options=NO_FAULTS),
    by_seeds(267, _leaves_old_segments_in, "D8", "I20", options=NO_FAULTS),
)
