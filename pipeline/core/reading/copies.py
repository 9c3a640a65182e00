"""Choice among the copies of a partition: which are read, and up to where.

A cluster's folders hold each record once per replica. With replicas=one a read takes one copy of
each partition: of those that hold the committed end the one without a missing segment that reaches
furthest below it, then furthest back, then of the lowest node. With until=high_watermark nothing
above the committed end is read, since a node may still truncate it. Batch and stream choose here.
Damage inside a copy is not looked for: the reader meets it, by its mode.
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

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for the user about what is left out, if anything is."""
        if not self.above:
            return ()
        left = f"{self.above} offsets above the high watermark are not read"
        return (f"{left}; until=end reads them too",)


def choose_copies(partitions: Sequence[PartitionFiles], options: Options) -> Choice:
    """Choose among all copies of the wanted partitions, as a batch read does.

    A replica without segments, such as a snapshot given by its path, is always read.

    Raises:
        BadInputError: until=high_watermark was asked for, and no file shows it.
        OSError: a file of the metadata log cannot be read.
    """
    grouped: dict[_Key, list[PartitionFiles]] = {}
    limits: dict[str, int | None] = {}
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
        read = [longest(holding, limit)] if options.replicas == "one" else every
        for found in read:
            limits[found.directory] = limit
            if limit is not None:
                above += max(0, (_end(found, None) or 0) - limit)
    return Choice(limits, above)


def longest(copies: Sequence[PartitionFiles], limit: int | None) -> PartitionFiles:
    """The copy to read below the limit; `copies` is not empty, the first of equals is taken."""
    if len(copies) == 1:
        return copies[0]
    return max(copies, key=lambda found: _quality(found, limit))


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
