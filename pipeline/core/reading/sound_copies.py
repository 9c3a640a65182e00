"""Copies of partitions around damage: of a partition with several copies, one that is sound.

`copies.choose_copies` does not look into a copy. Here the chosen one is checked, and where it is
damaged another takes its place that begins no later, ends no earlier, and is of the same history:
a batch that ends at the same offset has the same leader epoch. (Cleaners make other bytes of the
same records, so checksums do not say it.) Without such a copy the damaged one stays, and its
reader meets the damage, by its mode.
"""

from collections.abc import Sequence

import msgspec

from pipeline.core.reading.copies import Choice, choose_copies
from pipeline.core.reading.discovery import PartitionFiles, SegmentFile
from pipeline.core.reading.log_positions import locate
from pipeline.core.reading.opening import open_segment
from pipeline.core.reading.options import Options
from pipeline.core.reading.ranges import judge_tail
from pipeline.core.reading.reader import is_cut
from pipeline.core.records.batches import scan


class SoundChoice(msgspec.Struct, frozen=True):
    """The copies that are read; `bypassed` has a line for each that is left out for its damage."""

    choice: Choice
    bypassed: tuple[str, ...] = ()


def choose_sound_copies(partitions: Sequence[PartitionFiles], options: Options) -> SoundChoice:
    """Choose one copy of each wanted partition, one that is sound where there is one.

    Raises:
        BadInputError: as `choose_copies`.
        OSError: as `choose_copies`.
    """
    copies: dict[tuple[str, int], list[PartitionFiles]] = {}
    for found in partitions:
        copies.setdefault((found.topic, found.partition), []).append(found)
    every = Choice({})
    bypassed: list[str] = []
    for of_partition in copies.values():
        choice, left_out = _sound_one(of_partition, options)
        every = together(every, choice)
        bypassed += left_out
    return SoundChoice(every, tuple(bypassed))


def together(one: Choice, other: Choice) -> Choice:
    """Both choices, of other partitions, as one."""
    return Choice(
        one.limits | other.limits, one.above + other.above, (*one.missing, *other.missing)
    )


class _Examined(msgspec.Struct, frozen=True):
    """A copy below its limit: its span, the epochs of its sound batches, its first damage."""

    directory: str
    begin: int
    end: int
    epochs: dict[int, int]  # by the exclusive end of the batch
    damage: str | None

    def replaces(self, other: "_Examined") -> bool:
        """True if it is sound, and has the same history from as early to as late."""
        if self.damage is not None or self.begin > other.begin or self.end < other.end:
            return False
        return all(other.epochs.get(end, epoch) == epoch for end, epoch in self.epochs.items())


def _sound_one(every: Sequence[PartitionFiles], options: Options) -> tuple[Choice, list[str]]:
    """The choice among the copies of one partition, and lines about those that it left out."""
    choice = choose_copies(every, options)
    if len(every) == 1 or len(choice.limits) != 1:  # nothing else could be read, or all is
        return choice, []
    first = _examined(every, choice)
    if first.damage is None:
        return choice, []
    left, bypassed, examined = list(every), list[str](), first
    while True:
        if examined.damage is not None:
            bypassed.append(f"{examined.damage}: left out, another copy is read")
        left = [one for one in left if one.directory != examined.directory]
        if not left:
            return choice, []
        other = choose_copies(left, options)
        examined = _examined(left, other)
        if examined.replaces(first):
            return other, bypassed


def _examined(copies: Sequence[PartitionFiles], choice: Choice) -> _Examined:
    (copy,) = (one for one in copies if one.directory in choice.limits)
    limit = choice.limits[copy.directory]
    begin = copy.log_start_offset
    judged, _ = judge_tail(copy)
    epochs: dict[int, int] = {}
    damage: str | None = None
    for file in judged.segments:
        if limit is not None and file.base_offset >= limit:
            break
        try:
            found = _scanned(file, locate(file, begin), limit, epochs)
        except OSError as error:
            found = f"{file.path}: {error.strerror}"
        damage = damage or found
    return _Examined(copy.directory, begin, max(epochs, default=begin), epochs, damage)


def _scanned(
    file: SegmentFile, start: int, limit: int | None, epochs: dict[int, int]
) -> str | None:
    """The first damage of a segment below the limit; the epochs of its batches are added."""
    damage, reached = None, 0
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, start, file.size, frozen_size=file.size, is_last=file.is_last,
            reads_old_formats=True,
        ):  # fmt: skip
            ends = (table.last_offsets + 1).tolist()
            of_batches = zip(ends, table.column("leader_epoch").tolist(), strict=True)
            epochs.update((end, one) for end, one in of_batches if limit is None or end <= limit)
            reached = max([reached, *ends])
            fault, is_above = table.fault, limit is not None and reached >= limit
            if fault is not None and not is_above and not is_cut(fault, file):
                damage = damage or f"{file.path}:{fault.position} {fault.reason}: {fault.detail}"
    return damage
