"""Swaps of cleaned segments: under readers, at every crash, with truncations in between."""

import random

import msgspec
import pytest

from simulator.cluster.memory_vfs import MemoryVfs, SimulatedCrashError
from storage.cleaner.clean_job import GroupCleaned
from storage.cleaner.cleaner import clean
from storage.cleaner.segment_swap import SegmentSwap, SwapState
from storage.logs.log_validator import AppendRules
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from tests.storage.cleaner.compacted import (
    DIRECTORY,
    append,
    cleaned,
    job_for,
    newest,
    opened,
    records_of,
    swap,
)
from tests.storage.cleaner.rounds import put
from tests.storage.segments import segment_bases

LEFTOVERS = (".cleaned", ".swap", ".deleted")


def filled(vfs: MemoryVfs, segment_bytes: int = 260) -> UnifiedLog:
    """Keys a and b again and again, c once, and a producer; 10 segments and the active one."""
    log = opened(vfs, segment_bytes=segment_bytes)
    append(log, (b"c", b"once"))
    for number in range(12):
        producer = (7, 0, number // 3) if number % 3 == 0 else (-1, -1, -1)
        append(log, (b"ab"[number % 2 : number % 2 + 1], b"%d" % number), producer=producer)
        append(log, (b"a", b"%d!" % number), (b"d", b"x"))
    log.log.flush()
    config = msgspec.structs.replace(log.log.config, segment_bytes=3 * segment_bytes)
    log.configure(config, AppendRules())  # so that some are joined
    return log


def names(vfs: MemoryVfs) -> list[str]:
    return vfs.list(DIRECTORY)


def test_readers_see_the_cleaned_segments_and_all_of_the_keys() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    before, end = newest(records_of(log)), log.end_offset
    held = log.slice(0, 1 << 20, FetchIsolation.HIGH_WATERMARK, at_least_one=True)
    assert held is not None
    content = held.read()
    count = len(log.log.segments)
    first_dirty = cleaned(vfs, log)
    assert first_dirty == log.log.segments[-1].base_offset
    assert len(log.log.segments) < count
    assert newest(records_of(log)) == before
    assert log.end_offset == end
    assert held.read() == content, "whoever holds a slice reads on"
    assert not any(name.endswith((".cleaned", ".swap")) for name in names(vfs))
    assert log.log.size_bytes == sum(
        vfs.size(f"{DIRECTORY}/{name}") for name in names(vfs) if name.endswith(".log")
    )


def test_a_start_finds_what_was_there_before_it() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    cleaned(vfs, log)
    after, bases = records_of(log), [each.base_offset for each in log.log.segments]
    producers = log.producers.snapshot_entries()
    log.close()
    for is_clean in (True, False):
        again = opened(vfs.crash(), log.end_offset, is_clean=is_clean)
        assert records_of(again) == after
        assert [each.base_offset for each in again.log.segments] == bases
        assert again.producers.snapshot_entries() == producers


def test_the_old_files_are_renamed_with_the_snapshots_of_segments_that_vanish() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    events = clean(vfs, job_for(log))
    group = next(
        each for each in events if isinstance(each, GroupCleaned) and len(each.segments) > 1
    )
    snapshots = {name for name in names(vfs) if name.endswith(".snapshot")}
    gone = {f"{base:020d}.snapshot" for base in group.segments[1:]}
    assert gone <= snapshots
    renamed = swap(vfs, log, group)
    assert {name for name in names(vfs) if name.endswith(".snapshot")} == snapshots - gone
    assert sorted(renamed) == [
        f"{DIRECTORY}/{name}" for name in names(vfs) if name.endswith(".deleted")
    ]
    assert {f"{DIRECTORY}/{base:020d}.log.deleted" for base in group.segments} <= set(renamed)


def test_a_cleaned_segment_is_as_old_as_the_last_that_it_replaces() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    for number, segment in enumerate(log.log.segments):
        vfs.set_modified_ms(segment.path, 1000 + number)
    cleaned(vfs, log)
    assert vfs.modified_ms(log.log.segments[0].path) < 1100


def crashed(vfs: MemoryVfs, at: int) -> tuple[UnifiedLog, bool]:
    """A log of which a round with its swaps was cut off at an operation; True if it ended."""
    log = filled(vfs, 500)
    vfs.crash_at = vfs.operations + at
    try:
        cleaned(vfs, log)
    except SimulatedCrashError:
        return log, False
    return log, True


def operations() -> int:
    vfs = MemoryVfs()
    log = filled(vfs, 500)
    before = vfs.operations
    cleaned(vfs, log)
    return vfs.operations - before


OPERATIONS = operations()
WHOLE = newest(records_of(filled(MemoryVfs(), 500)))
ORIGINAL = {each.offset: each for each in records_of(filled(MemoryVfs(), 500))}
BASES = segment_bases(vfs_of := MemoryVfs(), filled(vfs_of, 500).log)


def check(vfs: MemoryVfs, end_offset: int) -> None:
    """The log opens with all keys, and nothing is left of the swap."""
    log = opened(vfs, end_offset, segment_bytes=500)
    assert log.recovery_report == ()
    records = records_of(log)
    assert newest(records) == WHOLE
    assert all(ORIGINAL[each.offset] == each for each in records)
    assert [each.offset for each in records] == sorted({each.offset for each in records})
    assert log.end_offset == end_offset
    assert not any(name.endswith(LEFTOVERS) for name in names(vfs))
    assert {each.base_offset for each in log.log.segments} <= set(BASES)
    entry = log.producers.entry(7)
    assert entry is not None
    assert entry.last_sequence == 3, "the sequence of the producer is known"
    append(log, (b"a", b"later"))
    assert newest(records_of(log))[b"a"] == b"later"


@pytest.mark.parametrize("part", range(4))
def test_a_crash_at_every_operation_loses_nothing(part: int) -> None:
    for at in range(part, OPERATIONS + 1, 4):
        vfs = MemoryVfs()
        log, is_done = crashed(vfs, at)
        assert is_done is (at >= OPERATIONS)
        vfs.crash_at = None
        disks = [vfs.crash(), *(vfs.crash(random.Random(seed)) for seed in range(3))]
        for disk in disks:
            check(disk, log.end_offset)
        vfs.kill()
        check(vfs, log.end_offset)


@pytest.mark.parametrize("part", range(2))
def test_a_crash_of_the_start_after_a_crash_loses_nothing(part: int) -> None:
    for at in range(part, OPERATIONS, 2):
        vfs = MemoryVfs()
        log, _ = crashed(vfs, at)
        vfs.crash_at = None
        second = 0
        while True:
            disk = vfs.crash(random.Random(at))
            disk.crash_at = second
            try:
                opened(disk, log.end_offset, segment_bytes=500)
            except SimulatedCrashError:
                second += 1
                disk.crash_at = None
                check(disk.crash(random.Random(second)), log.end_offset)
                continue
            break


# -- a truncation in between ----------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(7))
@pytest.mark.parametrize("whole", [True, False])
def test_a_truncation_meets_no_file_of_a_swap(steps: int, whole: bool) -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    group = next(each for each in clean(vfs, job_for(log)) if isinstance(each, GroupCleaned))
    one = SegmentSwap(vfs, log.log, group)
    for step in (one.begin, one.sync, one.replace, one.sync, one.finish, one.sync)[:steps]:
        step()
    assert (log.log.swap is one) is (0 < steps < 5)
    if whole:
        log.truncate_fully_and_start_at(3, 0)
    else:
        log.truncate_to(4, 0)
    assert log.log.swap is None
    if steps == 0:
        one.undo()
    assert one.state is SwapState.ENDED
    after = records_of(log)
    for disk in (vfs.crash(), vfs.crash(random.Random(steps)), vfs):
        again = opened(disk, log.end_offset)
        assert records_of(again) == after
        assert again.end_offset <= log.end_offset, "a gap at the end is not seen by a start"
        assert not any(name.endswith((".cleaned", ".swap")) for name in names(disk))


def test_a_log_that_is_closed_or_renamed_ends_its_swap() -> None:
    for ends in ("close", "rename"):
        vfs = MemoryVfs()
        log = filled(vfs)
        group = next(each for each in clean(vfs, job_for(log)) if isinstance(each, GroupCleaned))
        one = SegmentSwap(vfs, log.log, group)
        one.begin()
        one.sync()
        one.replace()
        if ends == "close":
            log.close()
        else:
            log.renamed_to(DIRECTORY)
        assert one.state is SwapState.ENDED
        assert not any(name.endswith((".cleaned", ".swap")) for name in names(vfs))


# -- what a start does with files that are left ---------------------------------------------------


def test_a_start_undoes_what_was_not_renamed_as_a_whole() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    log.close()
    before = {name: vfs.read(f"{DIRECTORY}/{name}") for name in names(vfs) if ".log" in name}
    put(vfs, f"{5:020d}.log.swap", b"")
    put(vfs, f"{3:020d}.index.cleaned", b"")
    put(vfs, "x.cleaned", b"")
    again = opened(vfs, log.end_offset)
    assert {n: vfs.read(f"{DIRECTORY}/{n}") for n in names(vfs) if ".log" in n} == before
    assert newest(records_of(again)) == newest(records_of(log))


def test_a_swap_below_what_was_being_cleaned_is_finished() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    log.close()
    first = log.log.segments[0]
    content = vfs.read(first.path)
    put(vfs, f"{0:020d}.log.swap", content)
    put(vfs, f"{first.base_offset + 1:020d}.log.cleaned", b"")
    opened(vfs, log.end_offset)
    assert vfs.read(first.path) == content
    assert not any(name.endswith((".cleaned", ".swap")) for name in names(vfs))


def test_an_index_alone_is_renamed() -> None:
    vfs = MemoryVfs()
    log = filled(vfs)
    log.close()
    index = vfs.read(f"{DIRECTORY}/{0:020d}.index")
    vfs.rename(f"{DIRECTORY}/{0:020d}.index", f"{DIRECTORY}/{0:020d}.index.swap")
    opened(vfs, log.end_offset)
    assert vfs.read(f"{DIRECTORY}/{0:020d}.index") == index
