"""The log that `history` reads, around damage: another snapshot, the log alone, another replica.

Nothing is lost by it: what replaces a snapshot or a replica begins no later and ends no earlier,
and a replica has the same batches below the damage.
"""

from collections.abc import Sequence

import msgspec

from pipeline.core.audit.findings import ERROR, Finding, in_file
from pipeline.core.errors import BadInputError, CorruptSegmentError, DataLossError
from pipeline.core.reading.discovery import PartitionFiles, SegmentFile
from pipeline.core.reading.log_positions import locate
from pipeline.core.reading.opening import input_errors, open_segment
from pipeline.core.reading.ranges import judge_tail
from pipeline.core.reading.reader import is_cut
from pipeline.core.reading.watermark import batches_of
from pipeline.core.reading.whole_snapshot import check_snapshot
from pipeline.core.records.batches import Fault, scan
from pipeline.jobs.history.damage import FAILFAST
from pipeline.jobs.history.input import NO_POSITION, LogChoice, choose_log

_Batch = tuple[int, int, int]  # end offset, epoch, checksum


@input_errors()
def choose_sound_log(
    inputs: Sequence[str], continue_at: int | None = None, mode: str = FAILFAST
) -> LogChoice:
    """`choose_log` without what is damaged, as long as something else holds the same.

    Damage that nothing replaces ends the run with FAILFAST; with another mode it is read around,
    and what is lost by that is damage of the choice, or of the scan of its log.

    Raises:
        BadInputError: as `choose_log`; a damaged snapshot that nothing replaces.
        CorruptSegmentError: a damaged log that no other copy replaces.
        DataLossError: as `choose_log`.
    """
    choice = choose_log(inputs, continue_at)
    without: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    bypassed: list[str] = []
    while True:
        found = _damaged_snapshot(choice, kept) or _damaged_log(choice, kept)
        if found is None:
            return msgspec.structs.replace(
                choice, bypassed=tuple(bypassed), mode=mode, damage=_seed_damage(choice, kept)
            )
        path, error, before = found
        after = _replacement(inputs, continue_at, without | {path}, choice, before)
        if after is not None:
            without |= {path}
            place = after.partition.directory
            bypassed.append(f"{error}: left out, {place} is read without it")
            choice = after
        elif mode == FAILFAST:
            raise error
        else:
            kept |= {path}


def _replacement(
    inputs: Sequence[str], continue_at: int | None, without: frozenset[str], choice: LogChoice,
    before: frozenset[_Batch],
) -> LogChoice | None:  # fmt: skip
    """A choice that holds all that the given one does, without some paths; None without one."""
    try:
        after = choose_log(inputs, continue_at, without)
    except (BadInputError, DataLossError):
        return None
    if after.start > choice.start or after.end < choice.end:
        return None
    return after if _same_below(before, after.partition, after.end) else None


@input_errors()
def damage_between(
    choice: LogChoice, found: Sequence[Finding], start: int, end: int | None = None
) -> tuple[Finding, ...]:
    """Damage of the log from an offset to an exclusive one; the segment of each is read as a whole.

    None for `end` is the end of the log.
    """
    if not found:
        return ()  # without a walk over headers
    numbers = {file.path: number for number, file in enumerate(choice.partition.segments)}
    first = _place(choice, start)
    last = None if end is None else _place(choice, end)

    def is_between(one: Finding) -> bool:
        if one.position == NO_POSITION:
            assert one.offset is not None
            return start <= one.offset and (end is None or one.offset < end)
        place = numbers[one.path], one.position
        return place >= first and (last is None or place < last)

    return tuple(filter(is_between, found))


def _place(choice: LogChoice, offset: int) -> tuple[int, int]:
    """Number of the segment of an offset, and the position in it at which the offset is read."""
    files = choice.partition.segments
    number = max(index for index, file in enumerate(files) if file.base_offset <= offset)
    return number, locate(files[number], offset, "crc")


def _seed_damage(choice: LogChoice, kept: frozenset[str]) -> tuple[Finding, ...]:
    """Damage of the snapshot that the history begins with, which is read in spite of it."""
    seed = choice.seed
    if seed is None or seed.path not in kept:
        return ()
    detail = "a damaged or truncated snapshot: objects that it lost are missing"
    return (in_file(seed, ERROR, "snapshot_damaged", 0, offset=seed.base_offset, detail=detail),)


_Damage = tuple[str, BadInputError | CorruptSegmentError, frozenset[_Batch]]


def _damaged_snapshot(choice: LogChoice, kept: frozenset[str]) -> _Damage | None:
    for snapshot in choice.others if choice.seed is None else (choice.seed, *choice.others):
        if snapshot.path in kept:
            continue
        try:
            check_snapshot(snapshot)
        except BadInputError as error:
            return snapshot.path, error, frozenset()
    return None


def _damaged_log(choice: LogChoice, kept: frozenset[str]) -> _Damage | None:
    """The first damage in the chosen copy, and its batches before that; none without a choice."""
    if not choice.has_others or choice.partition.directory in kept:
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
