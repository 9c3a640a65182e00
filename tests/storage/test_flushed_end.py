"""The flushed end of the metadata log is known exactly after a SIGKILL, and never too high."""

import random

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import RECOVERY_POINT_NAME, OffsetCheckpoint
from storage.checkpoints.flushed_end_file import (
    FLUSHED_END_NAME,
    decode_flushed_end,
    encode_flushed_end,
)
from storage.errors import CorruptLogError
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import FileRebuilt, TailCut
from tests.storage.test_crash import batch

PATH = f"/d/__cluster_metadata-0/{FLUSHED_END_NAME}"
SEGMENT = "/d/__cluster_metadata-0/00000000000000000000.log"


def disk() -> MemoryVfs:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    vfs.sync_directory("/")
    return vfs


def filled(vfs: MemoryVfs, count: int = 5) -> Log:
    """`count` flushed batches, each with a flush of its own."""
    log = open_metadata_log(vfs, "/d", LogConfig())
    for offset in range(count):
        log.append(batch(offset, 1), offset)
        log.flush()
    return log


def cut_last_bytes(vfs: MemoryVfs, count: int) -> None:
    file = vfs.open(SEGMENT)
    file.truncate(file.size() - count)


def test_the_content_is_checked() -> None:
    content = encode_flushed_end(671)
    assert content == b"0 00000000000000000671 1e74e313\n"
    assert decode_flushed_end(content) == 671
    for position in range(len(content)):
        broken = bytearray(content)
        broken[position] ^= 1
        assert decode_flushed_end(bytes(broken)) is None
    assert decode_flushed_end(b"") is None
    assert decode_flushed_end(bytes(32)) is None
    assert decode_flushed_end(b"0 0000400000000000000000000 bd1\n") is None  # too many digits
    assert decode_flushed_end(b"0 99999999999999999999 ad307226\n") is None  # more than an int64


def test_damage_below_the_last_flush_is_refused_after_a_sigkill() -> None:
    vfs = disk()
    filled(vfs)
    vfs.kill()
    cut_last_bytes(vfs, 1)
    before = vfs.read(SEGMENT)
    with pytest.raises(CorruptLogError, match=r"0000\.log: corrupt at position \d+: batch is cut"):
        open_metadata_log(vfs, "/d", LogConfig())
    assert vfs.read(SEGMENT) == before


def test_damage_above_the_last_flush_is_cut_with_a_warning() -> None:
    vfs = disk()
    log = filled(vfs)
    log.append(batch(5, 1), 5)  # written, never flushed
    vfs.kill()
    cut_last_bytes(vfs, 1)
    again = open_metadata_log(vfs, "/d", LogConfig())
    assert again.end_offset == 5
    assert [type(event) for event in again.recovery_report] == [TailCut]


def test_a_missing_segment_below_the_last_flush_is_refused() -> None:
    vfs = disk()
    filled(vfs)
    vfs.unlink(SEGMENT)
    with pytest.raises(CorruptLogError, match="5 offsets were flushed"):
        open_metadata_log(vfs, "/d", LogConfig())


def test_a_flush_costs_no_fsync_for_the_record_and_kafkas_file_stays() -> None:
    vfs = disk()
    log = filled(vfs)
    vfs.operation_log = []
    log.append(batch(5, 1), 5)
    log.flush()
    assert [(kind, path.rpartition("/")[2]) for kind, path in vfs.operation_log] == [
        ("write", "00000000000000000000.log"),
        ("sync", "00000000000000000000.log"),
        ("write", FLUSHED_END_NAME),
    ]
    log.close()
    assert vfs.read(f"/d/{RECOVERY_POINT_NAME}") == b"0\n1\n__cluster_metadata 0 6\n"


def test_the_first_flush_after_a_roll_is_in_kafkas_file() -> None:
    vfs = disk()
    log = open_metadata_log(vfs, "/d", LogConfig(segment_bytes=250))
    recorded = []
    for offset in range(6):
        log.append(batch(offset, 1), offset)
        log.flush()
        recorded.append(OffsetCheckpoint(vfs, "/d").get("__cluster_metadata", 0))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert recorded == [0, 0, 3, 3, 5, 5]


@pytest.mark.parametrize("seed", range(20))
def test_a_power_failure_leaves_an_offset_that_was_durable(seed: int) -> None:
    vfs = disk()
    filled(vfs)
    after = vfs.crash(random.Random(seed))
    again = open_metadata_log(after, "/d", LogConfig())
    assert again.recovery_report == ()
    assert again.end_offset == 5


def test_a_truncation_lowers_it_first() -> None:
    vfs = disk()
    log = filled(vfs)
    vfs.operation_log = []
    log.truncate_to(2)
    names = [path.rpartition("/")[2] for _, path in vfs.operation_log]
    assert names.index(FLUSHED_END_NAME) < names.index("00000000000000000000.log")
    for seed in range(20):
        again = open_metadata_log(vfs.crash(random.Random(seed)), "/d", LogConfig())
        assert again.end_offset == 2
    log.append(batch(2, 3), 2)
    log.flush()
    assert decode_flushed_end(vfs.read(PATH)) == 3


@pytest.mark.parametrize("content", [b"", bytes(32), b"0 00000000000000000005 00000000\n", b"xx"])
def test_an_unreadable_record_is_reported_and_the_older_one_holds(content: bytes) -> None:
    vfs = disk()
    filled(vfs).close()
    file = vfs.open(PATH)
    file.truncate(0)
    file.pwrite(content, 0)
    again = open_metadata_log(vfs, "/d", LogConfig())
    assert [type(event) for event in again.recovery_report] == [FileRebuilt]
    assert again.end_offset == 5
    assert decode_flushed_end(vfs.read(PATH)) == 5
    cut_last_bytes(vfs, 1)
    vfs.unlink(PATH)
    with pytest.raises(CorruptLogError):  # by Kafka's file
        open_metadata_log(vfs, "/d", LogConfig())


def test_two_owners_of_one_checkpoint_file_keep_each_others_lines() -> None:
    vfs = disk()
    first, second = OffsetCheckpoint(vfs, "/d"), OffsetCheckpoint(vfs, "/d")
    first.record("a", 0, 5)
    second.record("b", 1, 7)
    first.record("a", 0, 6)
    assert vfs.read(f"/d/{RECOVERY_POINT_NAME}") == b"0\n2\na 0 6\nb 1 7\n"
    second.forget("b", 1)
    assert OffsetCheckpoint(vfs, "/d").get("a", 0) == 6
