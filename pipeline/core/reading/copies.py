"""Choice among the copies of a partition: which are read, and up to where.

A cluster's folders hold each record once per replica. With replicas=one a read takes one copy of
each partition: the one without a missing segment that reaches furthest below what it knows to be
committed itself (above that a copy may hold the tail of an old leader), then furthest back, then
of the lowest node. If it ends before the committed end, a line says which offsets no copy has.
With until=high_watermark nothing above the committed end is read, since a node may still truncate
it. Batch and stream choose here. Damage inside a copy is not looked for: the reader meets it, by
its mode.
"""

import itertools
from collections.abc import Sequence

import msgspec

from pipeline.core.errors import BadInputError
from pipeline.core.reading.discovery import UNKNOWN_TOPIC, PartitionFiles
from pipeline.core.reading.log_positions import end_boundary
from pipeline.core.reading.options import Options
from pipeline.core.reading.ranges import gap_between
from pipeline.core.reading.watermark import committed_copies

# topic, partition, and the directory of files outside any partition: these are no copies
_Key = tuple[str, int, str]


class Choice(msgspec.Struct, frozen=True):
    """The copies that are read; `above` offsets behind their limits are left out.

    `limits` has the exclusive end of each by its directory, None for all of it.
    """

    limits: dict[str, int | None]
    above: int = 0
    missing: tuple[str, ...] = ()
    """A line for each partition of which no copy reaches the high watermark."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the user about what is left out, if anything is."""
        if not self.above:
            return self.missing
        left = f"{self.above} offsets above the high watermark are not read"
        return (*self.missing, f"{left}; until=end reads them too")


def choose_copies(partitions: Sequence[PartitionFiles], options: Options) -> Choice:
    """Choose among all copies of the wanted partitions, as a batch read does.

    A replica without segments, such as a snapshot given by its path, is always read.

    Raises:
        BadInputError: until=high_watermark was asked for, and no file shows it.
        OSError: a file of the metadata log cannot be read.
    """
    grouped: dict[_Key, list[PartitionFiles]] = {}
    limits: dict[str, int | None] = {}
    missing: list[str] = []
    above = 0
    for found in partitions:
        if not options.wants(found.topic, found.partition):
            continue
        if found.segments:
            grouped.setdefault(_key(found), []).append(found)
        else:
            limits[found.directory] = None
    for every in grouped.values():
        limit, holding = None, every
        if options.ends_at_high_watermark and every[0].topic != UNKNOWN_TOPIC:
            limit, holding = committed_copies(every)
            if limit is None and options.until is not None:
                raise unknown_watermark(every[0])
        if options.replicas == "all":
            read, ends = every, dict.fromkeys((one.directory for one in every), limit)
        else:
            one, end = choose_one(every, holding, limit)
            read, ends = [one], {one.directory: end}
            missing += _missing(one, end, limit)
        limits |= ends
        for found in read:
            if limit is not None:
                above += max(0, (_end(found, None) or 0) - limit)
    return Choice(limits, above, tuple(missing))


def choose_one(
    every: Sequence[PartitionFiles], holding: Sequence[PartitionFiles], limit: int | None
) -> tuple[PartitionFiles, int | None]:
    """The copy to read, the first of equals, and its exclusive end.

    Args:
        every: copy of the partition; not empty.
        holding: those that hold the committed end, where no copy has a high watermark of its own.
        limit: the committed end, exclusive; None if copies are read to their ends.
    """
    known = [copy for copy in every if copy.high_watermark is not None] if limit is not None else []
    copies = known or holding
    best = copies[0]
    if len(copies) > 1:
        best = max(copies, key=lambda found: _quality(found, _committed_in(found, limit)))
    return best, _committed_in(best, limit)


def _committed_in(copy: PartitionFiles, limit: int | None) -> int | None:
    if limit is None or copy.high_watermark is None:
        return limit
    return min(limit, copy.high_watermark)


def _missing(copy: PartitionFiles, end: int | None, limit: int | None) -> list[str]:
    found = None if limit is None else _end(copy, end)
    if found is None or limit is None or found >= limit:
        return []
    which = f"{copy.directory}: offsets {found} to {limit - 1} are below the high watermark"
    return [f"{which}, and no copy is known to have them"]


def unknown_watermark(files: PartitionFiles) -> BadInputError:
    """The refusal where no file shows a high watermark."""
    return BadInputError(
        f"{files.directory}: no high watermark is known from these files;"
        " until=end reads to the end, also what may be truncated later"
    )


def _key(files: PartitionFiles) -> _Key:
    place = files.directory if files.topic == UNKNOWN_TOPIC else ""
    return files.topic, files.partition, place


def _quality(files: PartitionFiles, limit: int | None) -> tuple[bool, int, int]:
    end = _end(files, limit)
    if end is None:
        return False, -1, 0
    return not _has_gap(files), end, -files.log_start_offset


def _has_gap(files: PartitionFiles) -> bool:
    if files.is_cleaned:
        return False
    return any(gap_between(*two) is not None for two in itertools.pairwise(files.segments)
               if two[1].base_offset > files.log_start_offset)  # fmt: skip


def _end(files: PartitionFiles, limit: int | None) -> int | None:
    """Exclusive end at or below the limit; None for a copy that cannot be read."""
    try:
        return end_boundary(files, limit).offset
    except OSError:
        return None
