"""A round as a whole: where it begins and ends, what it reads, damage, and its end before time."""

import errno

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.cleaner.clean_job import GroupCleaned, Progress, RoundEnded
from storage.cleaner.cleaner import clean
from storage.errors import CorruptLogError, FsyncError, OutOfSpaceError
from storage.segments.segment import segment_name
from storage.segments.transaction_index import AbortedTransaction, encode_aborted
from tests.storage.cleaner.rounds import (
    DIRECTORY,
    NOW_MS,
    TRANSACTIONAL,
    batch,
    cleaned,
    disk,
    headers,
    job_of,
    left,
    marker,
    put,
    record,
    run,
)
from wire.batches.compression import Codec
from wire.batches.legacy_batch import LegacyRecord, iterate_any
from wire.batches.legacy_writer import encode_wrapper


def keyed(*offsets: int, key: bytes = b"a", value: bytes | None = b"v") -> bytes:
    return batch(*[record(each, key, value) for each in offsets])


def offsets(content: bytes) -> list[int]:
    return [each[0] for each in left(content)]


def names(vfs: MemoryVfs) -> list[str]:
    return [name for name in vfs.list(DIRECTORY) if name.endswith(".cleaned")]


def test_the_clean_part_is_cleaned_by_the_keys_of_the_dirty_part() -> None:
    vfs = disk({0: [keyed(0, key=b"a"), keyed(1, key=b"b")], 2: [keyed(2, key=b"a")]})
    groups, ended = run(vfs, job_of([0, 2], 3, first_dirty=2))
    assert groups == [GroupCleaned(0, (0, 2))]
    assert offsets(cleaned(vfs)) == [1, 2]
    assert ended.stats.map_messages_read == 1
    assert ended.stats.messages_read == 3
    assert ended.stats.messages_written == 2
    assert (
        ended.stats.bytes_read
        == vfs.size(f"{DIRECTORY}/{segment_name(0)}") + ended.stats.map_bytes_read
    )
    assert ended.stats.bytes_written == len(cleaned(vfs))
    assert ended.stats.buffer_utilization == 1 / 1000


def test_a_first_dirty_offset_inside_a_batch() -> None:
    vfs = disk({0: [keyed(0), keyed(1, 2, 3), keyed(4, key=b"b")]})
    _, ended = run(vfs, job_of([0], 5, first_dirty=3))
    assert ended.stats.map_messages_read == 4
    assert offsets(cleaned(vfs)) == [3, 4]
    early = disk({0: [keyed(0, 1, 2, key=b"b"), keyed(3)]})
    run(early, job_of([0], 4, first_dirty=1))
    assert offsets(cleaned(early)) == [2, 3]


def test_only_the_segments_below_the_end_of_the_map_are_copied() -> None:
    vfs = disk(
        {0: [keyed(0, key=b"a")], 1: [keyed(1, key=b"b"), keyed(2, key=b"c")], 5: [keyed(5)]}
    )
    groups, ended = run(vfs, job_of([0, 1, 5], 6, keys_max=2, slots=3))
    assert ended.end_offset == 2
    assert groups == [GroupCleaned(0, (0, 1))]
    assert offsets(cleaned(vfs)) == [0, 1, 2]
    assert ended.stats.buffer_utilization == 2 / 3


def test_offsets_that_are_missing_at_the_end_of_a_segment_are_covered() -> None:
    vfs = disk({0: [keyed(0)], 10: [keyed(10)]})
    _, ended = run(vfs, job_of([0, 10], 20))
    assert ended.end_offset == 20
    half = disk({0: [keyed(0)], 10: [keyed(10, key=b"b"), keyed(11, key=b"c")]})
    _, ended = run(half, job_of([0, 10], 20, keys_max=1, slots=1))
    assert ended.end_offset == 10


def test_aborted_keys_do_not_count() -> None:
    data = batch(record(1, b"a"), producer=(7, 0, 0), attributes=TRANSACTIONAL)
    vfs = disk(
        {0: [keyed(0)], 1: [data], 2: [marker(2, 7, commits=False)], 3: [keyed(3, key=b"b")]}
    )
    entry = AbortedTransaction(0, 7, 1, 2, 3)
    put(vfs, segment_name(2, ".txnindex"), encode_aborted(entry))
    run(vfs, job_of([0, 1, 2, 3], 4))
    assert offsets(cleaned(vfs)) == [0, 2, 3]
    assert cleaned(vfs, 0, ".txnindex") == encode_aborted(entry)


def test_a_marker_behind_the_round_aborts_what_is_in_it() -> None:
    data = batch(record(1, b"a"), producer=(7, 0, 0), attributes=TRANSACTIONAL)
    vfs = disk({0: [keyed(0)], 1: [data], 2: [marker(2, 7, commits=False)]})
    put(vfs, segment_name(2, ".txnindex"), encode_aborted(AbortedTransaction(0, 7, 1, 2, 3)))
    put(vfs, segment_name(9, ".txnindex"), encode_aborted(AbortedTransaction(0, 8, 0, 9, 10)))
    run(vfs, job_of([0, 1], 2, later=[2]))
    assert [each.base_offset for each in headers(cleaned(vfs)) if each.records_count] == [0]
    run(vfs, job_of([0, 1], 2))
    assert offsets(cleaned(vfs)) == [1], "a file that is no segment's is not read"


def test_a_batch_larger_than_a_read_is_read_alone() -> None:
    large = keyed(1, value=b"v" * 5000, key=b"b")
    vfs = disk({0: [keyed(0), large, keyed(2)]})
    events = list(clean(vfs, job_of([0], 3, read_bytes=100)))
    assert offsets(cleaned(vfs)) == [1, 2]
    sizes = [each.size_bytes for each in events if isinstance(each, Progress)]
    assert sizes.count(len(large)) == 3, "read twice, written once"
    assert sum(sizes) == 2 * vfs.size(f"{DIRECTORY}/{segment_name(0)}") + len(cleaned(vfs))


def test_a_segment_that_loses_everything_is_empty() -> None:
    vfs = disk({0: [keyed(0)], 1: [keyed(1)]})
    groups, _ = run(vfs, job_of([0, 1], 2, segment_bytes=1))
    assert groups == [GroupCleaned(0, (0,)), GroupCleaned(1, (1,))]
    assert cleaned(vfs) == b""
    assert cleaned(vfs, 0, ".timeindex") == b""
    assert vfs.exists(f"{DIRECTORY}/{segment_name(0, '.index')}.cleaned")


def test_the_cleaned_segment_has_the_age_of_the_last_one() -> None:
    vfs = disk({0: [keyed(0)], 1: [keyed(1)]})
    vfs.set_modified_ms(f"{DIRECTORY}/{segment_name(0)}", 5)
    vfs.set_modified_ms(f"{DIRECTORY}/{segment_name(1)}", 9)
    run(vfs, job_of([0, 1], 2))
    assert vfs.modified_ms(f"{DIRECTORY}/{segment_name(0)}.cleaned") == 9


def tombstone_of_magic_1() -> bytes:
    from tests.wire.test_legacy_writer import WRAPPERS

    one = next(each for each in WRAPPERS if (each.magic, each.codec) == (1, Codec.GZIP))
    return encode_wrapper(
        one, [LegacyRecord(one.last_offset, NOW_MS, b"old", None, 0, crc_is_valid=True)]
    )


@pytest.mark.parametrize(("modified_ms", "stays"), [(4001, True), (4000, False)])
def test_old_tombstones_go_by_the_age_of_the_last_clean_segment(
    modified_ms: int, stays: bool
) -> None:
    content = tombstone_of_magic_1()
    (old,) = iterate_any(content)
    first = old.last_offset  # type: ignore[union-attr]
    vfs = disk({0: [content], first + 1: [keyed(first + 1)], first + 2: [keyed(first + 2)]})
    for base, age_ms in ((0, modified_ms), (first + 1, 5000), (first + 2, 9999)):
        vfs.set_modified_ms(f"{DIRECTORY}/{segment_name(base)}", age_ms)
    bases = [0, first + 1, first + 2]
    run(vfs, job_of(bases, first + 3, first_dirty=first + 2))
    assert (first in offsets(cleaned(vfs))) is stays


def test_without_a_clean_segment_old_tombstones_stay() -> None:
    vfs = disk({0: [tombstone_of_magic_1()]})
    vfs.set_modified_ms(f"{DIRECTORY}/{segment_name(0)}", 1)
    run(vfs, job_of([0], 5000))
    assert len(offsets(cleaned(vfs))) == 1


# -- damage, a full disk, an end before time ------------------------------------------------------


@pytest.mark.parametrize("first_dirty", [0, 3])
def test_damage_is_told_with_its_place_and_leaves_nothing(first_dirty: int) -> None:
    first, second = keyed(0), keyed(1)
    vfs = disk({0: [first, second], 3: [keyed(3)]})
    path = f"{DIRECTORY}/{segment_name(0)}"
    vfs.damage(path, len(first) + 65, b"\xff")
    with pytest.raises(CorruptLogError) as raised:
        run(vfs, job_of([0, 3], 4, first_dirty=first_dirty))
    assert (raised.value.path, raised.value.position) == (path, len(first))
    assert "CRC" in raised.value.reason
    assert names(vfs) == []


def test_a_segment_that_is_cut_is_damage() -> None:
    content = keyed(1)
    vfs = disk({0: [keyed(0), content[:-5]]})
    with pytest.raises(CorruptLogError, match="bytes are left") as raised:
        run(vfs, job_of([0], 2))
    assert raised.value.position == len(keyed(0))
    header = disk({0: [keyed(0), content[:40]]})
    with pytest.raises(CorruptLogError, match="is cut"):
        run(header, job_of([0], 2))


def test_offsets_that_go_back_are_damage() -> None:
    vfs = disk({0: [keyed(5, key=b"b"), keyed(4)]})
    with pytest.raises(CorruptLogError, match="follow end offset 6"):
        run(vfs, job_of([0], 9))
    assert names(vfs) == []


def test_a_batch_that_is_no_batch_is_damage() -> None:
    vfs = disk({0: [keyed(0), b"\xff" * 100]})
    with pytest.raises(CorruptLogError) as raised:
        run(vfs, job_of([0], 2))
    assert raised.value.position == len(keyed(0))


def test_a_round_that_is_closed_leaves_nothing_of_its_group() -> None:
    vfs = disk({0: [keyed(0)], 1: [keyed(1)]})
    events = clean(vfs, job_of([0, 1], 2, segment_bytes=1))
    seen = []
    for event in events:
        seen.append(event)
        if isinstance(event, GroupCleaned):
            break
    assert len(names(vfs)) == 3
    next(events)
    assert any(name.startswith("00000000000000000001") for name in names(vfs))
    events.close()  # type: ignore[attr-defined]
    assert [name[:20] for name in names(vfs)] == [f"{0:020d}"] * 3


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_leaves_the_log_as_it_is(code: int) -> None:
    for number in range(100):
        vfs = disk({0: [keyed(0), marker(1, 7, commits=True)]})
        before = vfs.read(f"{DIRECTORY}/{segment_name(0)}")
        vfs.faults = {vfs.operations + number: code}
        try:
            run(vfs, job_of([0], 2))
        except (OutOfSpaceError, FsyncError, OSError):
            pass
        else:
            assert number > 5
            break
        assert vfs.read(f"{DIRECTORY}/{segment_name(0)}") == before
        assert names(vfs) == []


def test_what_an_earlier_cleaner_left_is_written_over() -> None:
    vfs = disk({0: [keyed(0)]})
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        put(vfs, f"{segment_name(0, suffix)}.cleaned", b"x" * 500)
    run(vfs, job_of([0], 1))
    assert offsets(cleaned(vfs)) == [0]
    assert names(vfs) == [
        f"{segment_name(0, each)}.cleaned" for each in (".index", ".log", ".timeindex")
    ]


def test_the_cleaned_files_are_durable_when_they_are_told_of() -> None:
    vfs = disk({0: [keyed(0)]})
    groups, _ = run(vfs, job_of([0], 1))
    after = vfs.crash()
    assert cleaned(after) == keyed(0)
    assert after.exists(f"{DIRECTORY}/{segment_name(0, '.index')}.cleaned")
    assert groups == [GroupCleaned(0, (0,))]


def test_the_events_end_with_the_round() -> None:
    vfs = disk({0: [keyed(0)]})
    *_, group, ended = clean(vfs, job_of([0], 1))
    assert isinstance(group, GroupCleaned)
    assert isinstance(ended, RoundEnded)
