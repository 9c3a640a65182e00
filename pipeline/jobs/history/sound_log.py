"""The log that `history` reads, around damage: another snapshot, the log alone, another replica.

Nothing is lost by it: what replaces a snapshot or a replica begins no later and ends no earlier,
and a replica has the same batches below the damage.
"""

from collections.abc import Sequence

import msgspec

from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.discovery import PartitionFiles, SegmentFile
from pipeline.core.reading.log_positions import locate
from pipeline.core.reading.opening import input_errors, open_segment
from pipeline.core.reading.ranges import judge_tail
from pipeline.core.reading.reader import is_cut
from pipeline.core.reading.watermark import batches_of
from pipeline.core.reading.whole_snapshot import check_snapshot
from pipeline.core.records.batches import Fault, scan
from pipeline.jobs.history.input import LogChoice, choose_log

_Batch = tuple[int, int, int]  # end offset, epoch, checksum


@input_errors()
def choose_sound_log(inputs: Sequence[str], continue_at: int | None = None) -> LogChoice:
    """`choose_log` without what is damaged, as long as something else holds the same.

    Raises:
        BadInputError: as `choose_log`; a damaged snapshot that nothing replaces.
        CorruptSegmentError: a damaged log that no other copy replaces.
        DataLossError: as `choose_log`.
    """
    choice = choose_log(inputs, continue_at)
    without: frozenset[str] = frozenset()
    bypassed: list[str] = []
    while True:
        found = _damaged_snapshot(choice) or _damaged_log(choice)
        if found is None:
            return msgspec.structs.replace(choice, bypassed=tuple(bypassed))
        path, error, before = found
        without |= {path}
        try:
            after = choose_log(inputs, continue_at, without)
        except (BadInputError, DataLossError):
            raise error from None
        if after.start > choice.start or after.end < choice.end:
            raise error
        if not _same_below(before, after.partition, after.end):
            raise error
        bypassed.append(f"{error}: left out, {after.partition.directory} is read without it")
        choice = after


_Damage = tuple[str, BadInputError | CorruptSegmentError, frozenset[_Batch]]


def _damaged_snapshot(choice: LogChoice) -> _Damage | None:
    for snapshot in choice.others if choice.seed is None else (choice.seed, *choice.others):
        try:
            check_snapshot(snapshot)
        except BadInputError as error:
            return snapshot.path, error, frozenset()
    return None


def _damaged_log(choice: LogChoice) -> _Damage | None:
    """The first damage in the chosen copy, and its batches before that; none without a choice."""
    if not choice.has_others:
        return None  # the reader reports it
    copy, _ = judge_tail(choice.partition)
    before: set[_Batch] = set()
    for file in copy.segments:
        if file.base_offset >= choice.end:
            break
        fault = _first_fault(file, locate(file, choice.start), before)
        if fault is not None:
            error = CorruptSegmentError(
                file.path, fault.position, fault.base_offset, f"{fault.reason}: {fault.detail}"
            )
            return copy.directory, error, frozenset(before)
    return None


def _first_fault(file: SegmentFile, start: int, before: set[_Batch]) -> Fault | None:
    """The first damage from a position on; the batches before it are added."""
    with open_segment(file.path) as descriptor:
        for table in scan(
            descriptor, start, file.size, frozen_size=file.size, is_last=file.is_last,
        ):  # fmt: skip
            before.update((one.last_offset + 1, one.epoch, one.crc) for one in table.refs())
            if table.fault is not None and not is_cut(table.fault, file):
                return table.fault
    return None


def _same_below(before: frozenset[_Batch], other: PartitionFiles, end: int) -> bool:
    """Return True if the other copy has the same batches, where both have some, up to the end."""
    theirs = batches_of(other) if before else set()
    return all(one in theirs for one in before if other.first_offset < one[0] <= end)
