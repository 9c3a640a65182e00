"""The disk model keeps what was synced, may lose or tear the rest, and repeats itself by seed."""

import errno
import random

import pytest

from simulator.cluster.disk_model import SECTOR_BYTES, FileNode
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import FsyncError, OutOfSpaceError
from storage.vfs import write_file_atomically
from tests.storage.possible_disks import TooManyDisksError, disk_of, every_image, image_of

SEEDS = range(200)


def disk() -> MemoryVfs:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    vfs.sync_directory("/")
    return vfs


def contents_after_crash(vfs: MemoryVfs, path: str) -> set[bytes | None]:
    found: set[bytes | None] = set()
    for seed in SEEDS:
        after = vfs.crash(random.Random(seed))
        found.add(after.read(path) if after.exists(path) else None)
    return found


def test_a_synced_file_without_a_synced_name_may_be_gone() -> None:
    vfs = disk()
    file = vfs.open("/d/a", create=True)
    file.pwrite(b"abc", 0)
    file.sync()
    assert contents_after_crash(vfs, "/d/a") == {None, b"abc"}
    assert not vfs.crash().exists("/d/a")
    vfs.sync_directory("/d")
    assert contents_after_crash(vfs, "/d/a") == {b"abc"}


def test_unsynced_writes_are_lost_kept_torn_or_only_a_length() -> None:
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"x" * 100)
    file = vfs.open("/d/a")
    new = b"1" * SECTOR_BYTES + b"2" * SECTOR_BYTES
    file.pwrite(new, 0)
    found = contents_after_crash(vfs, "/d/a")
    assert {b"x" * 100, new} <= found
    assert b"x" * 100 + bytes(SECTOR_BYTES - 100) + b"2" * SECTOR_BYTES in found  # torn
    assert b"x" * 100 + bytes(2 * SECTOR_BYTES - 100) in found  # a length without data
    assert vfs.crash().read("/d/a") == b"x" * 100
    for content in found:  # a sector is atomic
        assert content is not None
        assert content[:SECTOR_BYTES].strip(b"\0") in (b"x" * 100, b"1" * SECTOR_BYTES)


def test_writes_may_reach_the_disk_in_any_order() -> None:
    node = FileNode(b"....")
    node.write(0, b"a")
    node.write(1, b"b")
    found = {bytes(node.after_crash(random.Random(seed))) for seed in SEEDS}
    assert {b"....", b"a...", b".b..", b"ab.."} <= found


def test_an_atomic_replacement_is_old_or_new() -> None:
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"old")
    write_file_atomically(vfs, "/d/a", b"new")
    assert contents_after_crash(vfs, "/d/a") == {b"new"}
    vfs.rename("/d/a", "/d/b")
    for seed in SEEDS:
        after = vfs.crash(random.Random(seed))
        assert after.list("/d") in (["a"], ["b"])
        assert after.read(f"/d/{after.list('/d')[0]}") == b"new"


def test_a_renamed_directory_brings_what_was_durable_in_it() -> None:
    vfs = disk()
    vfs.make_directory("/d/p")
    write_file_atomically(vfs, "/d/p/f", b"1")
    vfs.sync_directory("/d")
    vfs.open("/d/p/g", create=True)
    vfs.rename("/d/p", "/d/q")
    vfs.sync_directory("/d")
    assert vfs.crash().list("/d/q") == ["f"]
    assert vfs.crash().list("/d") == ["q"]


def test_a_removed_file_may_come_back() -> None:
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"1")
    vfs.unlink("/d/a")
    assert contents_after_crash(vfs, "/d/a") == {None, b"1"}


def test_a_failed_sync_loses_what_it_covered_even_if_a_later_one_succeeds() -> None:
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"old")
    file = vfs.open("/d/a")
    file.pwrite(b"new bytes", 0)
    vfs.failing = lambda kind, _path: errno.EIO if kind == "sync" else None
    with pytest.raises(FsyncError):
        file.sync()
    vfs.failing = None
    file.sync()
    assert vfs.crash().read("/d/a") == b"old" + bytes(6)
    assert vfs.read("/d/a") == b"new bytes"


def failed_sync_of(vfs: MemoryVfs, directory: str) -> None:
    vfs.failing = lambda kind, _path: errno.EIO if kind == "sync" else None
    with pytest.raises(FsyncError):
        vfs.sync_directory(directory)
    vfs.failing = None


def test_names_of_a_failed_directory_sync_stay_uncertain_even_if_a_later_one_succeeds() -> None:
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"1")
    vfs.rename("/d/a", "/d/b")
    failed_sync_of(vfs, "/d")
    write_file_atomically(vfs, "/d/c", b"2")  # of later changes the next sync is true
    vfs.sync_directory("/d")
    assert vfs.list("/d") == ["b", "c"]
    assert vfs.durable_content("/d/b") is None
    assert vfs.crash().list("/d") == ["a", "c"]
    names = {tuple(vfs.crash(random.Random(seed)).list("/d")) for seed in SEEDS}
    assert names == {("a", "c"), ("b", "c")}


def test_a_name_that_is_made_again_after_a_failed_directory_sync_is_durable() -> None:
    vfs = disk()
    vfs.open("/d/a", create=True)
    failed_sync_of(vfs, "/d")
    assert contents_after_crash(vfs, "/d/a") == {None, b""}
    write_file_atomically(vfs, "/d/a", b"again")
    assert contents_after_crash(vfs, "/d/a") == {b"again"}


def test_the_next_process_can_sync_the_names_of_a_failed_directory_sync() -> None:
    vfs = disk()
    vfs.open("/d/a", create=True)
    failed_sync_of(vfs, "/d")
    vfs.sync_directory("/d")
    assert not vfs.crash().exists("/d/a"), "the same process tried again and believed it"
    vfs.kill()
    vfs.sync_directory("/d")
    assert vfs.crash().exists("/d/a")


def test_a_lying_sync_and_damage() -> None:
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"old")
    vfs.damage("/d/a", 1, b"X")
    assert vfs.read("/d/a") == vfs.crash().read("/d/a") == b"oXd"
    vfs.sync_lies = "/a"
    file = vfs.open("/d/a")
    file.pwrite(b"new", 0)
    file.sync()
    write_file_atomically(vfs, "/d/b", b"of another name")
    assert vfs.crash().read("/d/a") == b"oXd"
    assert vfs.crash().read("/d/b") == b"of another name"
    vfs.write_back()
    assert vfs.crash().read("/d/a") == b"new"


def test_cuts_and_overwrites_of_segments_are_counted_growth_is_not() -> None:
    vfs = disk()
    log, other = vfs.open("/d/0.log", create=True), vfs.open("/d/0.index", create=True)
    for file in (log, other):
        file.pwrite(b"12345678", 0)
        file.pwrite(b"9", 8)
        file.truncate(12)
    assert vfs.log_changes == 0
    other.truncate(4)
    other.pwrite(b"x", 0)
    assert vfs.log_changes == 0
    log.truncate(4)
    assert vfs.log_changes == 1
    log.pwrite(b"x", 3)
    assert vfs.log_changes == 2


def test_a_full_disk_takes_a_part() -> None:
    vfs = disk()
    file = vfs.open("/d/a", create=True)
    vfs.bytes_max = 5
    with pytest.raises(OutOfSpaceError, match="/d/a"):
        file.pwrite(b"12345678", 0)
    assert vfs.read("/d/a") == b"12345"


def test_locks_end_with_the_process() -> None:
    vfs = disk()
    assert vfs.lock("/d/.lock") is not None
    assert vfs.lock("/d/.lock") is None
    vfs.kill()
    assert vfs.lock("/d/.lock") is not None


def test_the_same_seed_gives_the_same_disk() -> None:
    vfs = disk()
    for number in range(20):
        file = vfs.open(f"/d/{number}", create=True)
        file.pwrite(bytes([number]) * 2000, 0)
        if number % 3 == 0:
            file.sync()
    vfs.sync_directory("/d")

    def image(seed: int) -> list[bytes]:
        after = vfs.crash(random.Random(seed))
        return [after.read(f"/d/{name}") for name in after.list("/d")]

    assert image(5) == image(5)
    assert image(5) != image(6)


def many_changes() -> MemoryVfs:
    """Torn sectors, a length without data, cuts, names that come, go, change and are forgotten."""
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"x" * 700)
    write_file_atomically(vfs, "/d/b", b"b")
    vfs.unlink("/d/b")
    failed_sync_of(vfs, "/d")
    file = vfs.open("/d/a")
    file.pwrite(b"1" * 600, 500)
    file.truncate(300)
    file.pwrite(b"2" * 8, 296)
    vfs.rename("/d/a", "/d/c")
    vfs.make_directory("/d/p")
    return vfs


def few_changes() -> MemoryVfs:
    vfs = disk()
    write_file_atomically(vfs, "/d/a", b"x" * 700)
    file = vfs.open("/d/a")
    file.truncate(300)
    file.pwrite(b"1" * 600, 500)
    vfs.rename("/d/a", "/d/b")
    return vfs


def test_every_disk_that_is_drawn_is_among_those_counted_from_the_rules() -> None:
    vfs = many_changes()
    counted = every_image(vfs, 1_000)
    drawn = {image_of(vfs.crash(random.Random(seed))) for seed in SEEDS}
    assert len(drawn) > 40
    assert drawn <= counted
    assert image_of(vfs.crash()) in counted
    assert image_of(disk_of(min(counted))) == min(counted)
    with pytest.raises(TooManyDisksError):
        every_image(vfs, len(counted) - 1)


def test_every_disk_that_is_counted_can_be_drawn() -> None:
    vfs = few_changes()
    counted = every_image(vfs, 1_000)
    written = 7 + 1 + 1  # some of three sectors, nothing, the length alone
    assert len(counted) == 2 * 2 * written  # cut or not, under either name
    assert {image_of(vfs.crash(random.Random(seed))) for seed in range(2_000)} == counted


def test_behind_a_lost_cut_there_is_only_the_start_of_what_was_written() -> None:
    """Later blocks of the file are not on the disk before those that it gave back are free."""
    node = FileNode(b"abcdef")
    node.resize(1)
    node.write(1, b"B")
    node.write(2, b"C")
    found = {bytes(node.after_crash(random.Random(seed))) for seed in SEEDS}
    assert {b"abcdef", b"aBcdef", b"aBCdef", b"aBC", b"aB", b"a", b"a\0C"} <= found
    assert b"abCdef" not in found


def test_growth_that_is_lost_orders_nothing() -> None:
    node = FileNode(b"ab")
    node.resize(2)
    node.resize(4)
    node.write(0, b"A")
    node.write(1, b"B")
    found = {bytes(node.after_crash(random.Random(seed))) for seed in SEEDS}
    assert {b"aB", b"Ab"} <= found
