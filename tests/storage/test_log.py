import errno
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.epoch_checkpoint import EpochCache, EpochEntry
from storage.errors import (
    CorruptLogError,
    FsyncError,
    LockedDirectoryError,
    OffsetOutOfRangeError,
    OutOfSpaceError,
)
from storage.log_dir.directory_lock import lock_directory
from storage.log_dir.partition_directories import (
    create_partition_directory,
    mark_deleted,
    open_metadata_log,
    remove_partition_directory,
    scan_partition_directories,
)
from storage.log_dir.partition_metadata import encode_partition_metadata
from storage.log_dir.snapshot_files import SnapshotFiles
from storage.logs.log import Log, LogConfig
from storage.os_vfs import OsVfs
from storage.segments.index import OffsetIndex, TimeIndex
from storage.segments.segment_indexes import SegmentIndexes
from storage.vfs import Vfs, VfsFile
from tests.storage import golden
from tests.storage.partition_operations import partition_log
from tests.storage.segments import segment_bases
from tests.storage.test_crash import batch
from wire.batches.batch import encode_batch, iterate_batches
from wire.types import LeaderEpoch, Offset, OffsetAndEpoch, TopicId

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=150)


@pytest.fixture(params=["memory", "os"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Vfs, str]:
    if request.param == "os":
        return OsVfs(), str(tmp_path)
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    return vfs, "/d"


def filled(vfs: Vfs, directory: str, count: int = 50) -> Log:
    log = open_metadata_log(vfs, directory, SMALL)
    for offset in range(count):
        log.append(batch(offset, 1 + offset // 20), offset)
    return log


def test_append_roll_read_reopen(place: tuple[Vfs, str]) -> None:
    log = filled(*place)
    assert len(segment_bases(place[0], log)) > 4
    assert log.epoch_entries == (EpochEntry(1, 0), EpochEntry(2, 20), EpochEntry(3, 40))
    for offset in range(50):
        assert log.read(offset, 1) == batch(offset, 1 + offset // 20)
    assert log.flushed_end_offset == 0
    log.close()
    assert log.flushed_end_offset == 50
    again = open_metadata_log(place[0], place[1], SMALL)
    assert again.recovery_report == ()
    assert (again.end_offset, again.last_epoch, again.flushed_end_offset) == (50, 3, 50)
    assert again.epoch_entries == log.epoch_entries
    lazy = LogConfig(segment_bytes=1000, index_interval_bytes=150, verify_from_start=False)
    unverified = open_metadata_log(place[0], place[1], lazy)
    assert unverified.epoch_entries == log.epoch_entries
    assert unverified.read(7, 1) == batch(7, 1)


@pytest.mark.parametrize(("times_ms", "starts"), [((1_100, 1_101), [0, 1]), ((1_100, 1_100), [0])])
@pytest.mark.parametrize("is_newest_first", [False, True])
def test_a_segment_rolls_at_the_newest_of_the_batches_appended_together(
    times_ms: tuple[int, int], starts: list[int], is_newest_first: bool
) -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    log = open_metadata_log(vfs, "/d", LogConfig(segment_ms=100))
    log.append(encode_batch([b"v"], 0, 1, 1_000), 0)
    ordered = times_ms[::-1] if is_newest_first else times_ms
    fetched = [encode_batch([b"v"], offset, 1, at) for offset, at in enumerate(ordered, start=1)]
    log.append_fetched(b"".join(fetched), 1)
    assert list(segment_bases(vfs, log)) == starts


@pytest.mark.parametrize(("above", "removed"), [(-1, 1), (0, 2), (1, 2)])
def test_whole_segments_below_the_log_start_are_removed(
    place: tuple[Vfs, str], above: int, removed: int
) -> None:
    log = filled(*place)
    bases = segment_bases(place[0], log)
    names = log.raise_log_start_to(bases[2] + above)
    assert segment_bases(place[0], log) == bases[removed:]
    assert len(names) == removed
    assert log.log_start_offset == bases[2] + above
    assert not any(place[0].exists(name) for name in names)


def test_the_epochs_of_an_opened_log_begin_at_its_start(place: tuple[Vfs, str]) -> None:
    """The start may be inside the first segment, which has earlier epochs too."""
    log = Log.open(*place, LogConfig())
    for offset in range(6):
        log.append(batch(offset, 1 + offset // 2), offset)
    log.close()
    again = Log.open(*place, LogConfig(), log_start_offset=3)
    assert segment_bases(place[0], again) == (0,)
    assert again.epoch_entries == (EpochEntry(2, 3), EpochEntry(3, 4))


def test_a_closed_log_has_its_epochs_in_the_checkpoint(place: tuple[Vfs, str]) -> None:
    log = filled(*place)
    log.close()
    content = place[0].open(f"{log.directory}/leader-epoch-checkpoint").pread(1000, 0)
    assert content == b"0\n3\n1 0\n2 20\n3 40\n"


def test_the_last_segment_stays_whatever_the_log_start() -> None:
    vfs = MemoryVfs()
    log = filled(vfs, "/d")
    bases = segment_bases(vfs, log)
    log.raise_log_start_to(log.end_offset)
    assert segment_bases(vfs, log) == bases[-1:]


def test_a_flushed_segment_that_is_gone_is_damage_at_the_end_of_those_that_are_there() -> None:
    vfs = MemoryVfs()
    log = filled(vfs, "/d")
    log.close()
    *_, before, last = [name for name in sorted(vfs.list(log.directory)) if name.endswith(".log")]
    size = vfs.size(f"{log.directory}/{before}")
    vfs.unlink(f"{log.directory}/{last}")
    with pytest.raises(CorruptLogError, match="the log ends at offset") as error:
        open_metadata_log(vfs, "/d", SMALL)
    assert (error.value.path, error.value.position) == (f"{log.directory}/{before}", size)


def test_a_log_with_gaps_is_read_over_them() -> None:
    """As compaction leaves it: offsets 2 to 9 are gone, and 11 to 19 before the empty segment."""
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    for base, content in ((0, batch(0, 1) + batch(1, 1)), (10, batch(10, 1)), (20, b"")):
        vfs.open(f"/d/{base:020d}.log", create=True).pwrite(content, 0)
    config = LogConfig(contiguous=False, verify_from_start=True)
    log = Log.open(vfs, "/d", config, None)
    assert (segment_bases(vfs, log), log.end_offset) == ((0, 10, 20), 20)
    assert log.read(1, 1) == batch(1, 1)
    assert log.read(2, 1) == log.read(9, 1) == log.read(10, 1) == batch(10, 1)
    assert log.read(2, 1, end_offset=10) == b""
    assert log.read(11, 1) == b""


def test_a_limit_inside_a_batch_leaves_the_batch_out() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    log = open_metadata_log(vfs, "/d", SMALL)
    three = encode_batch([b"a", b"b", b"c"], Offset(0), LeaderEpoch(1), 1000)
    log.append(three, 0)
    log.append(batch(3, 1), 3)
    assert log.read(0, 1000, end_offset=3) == three
    assert log.read(0, 1000, end_offset=2) == b""
    assert log.read(1, 1000, end_offset=2) == b""


def test_what_compaction_and_deletion_left_behind_is_removed(place: tuple[Vfs, str]) -> None:
    vfs, directory = place
    log = filled(vfs, directory)
    log.close()
    kept = sorted(vfs.list(log.directory))
    for name in (f"{7:020d}.index", f"{7:020d}.timeindex", f"{0:020d}.log.deleted", "x.cleaned"):
        vfs.open(f"{log.directory}/{name}", create=True).pwrite(bytes(24), 0)
    assert open_metadata_log(vfs, directory, SMALL).end_offset == 50
    assert sorted(vfs.list(log.directory)) == kept


class CountingVfs(MemoryVfs):
    """Counts the files that are opened."""

    opened = 0

    def open(self, path: str, *, create: bool = False) -> VfsFile:
        self.opened += 1
        return super().open(path, create=create)


def test_an_append_opens_no_file_and_few_stay_open() -> None:
    vfs = CountingVfs()
    vfs.make_directory("/d")
    log = open_metadata_log(vfs, "/d", LogConfig(segment_bytes=1000, open_segments_max=1))
    log.append(batch(0, 1), 0)
    before = vfs.opened
    log.append(batch(1, 1), 1)
    assert vfs.opened == before
    for offset in range(2, 60):
        log.append(batch(offset, 1), offset)
    log.flush()
    assert len(segment_bases(vfs, log)) > 4
    assert sum(segment.is_open for segment in log._segments) <= 2  # the active one and one more
    for offset in range(60):
        assert log.read(offset, 1)
    assert sum(segment.is_open for segment in log._segments) <= 2


def test_an_index_has_an_entry_each_interval() -> None:
    indexes = SegmentIndexes(50, 100)
    for number in range(5):
        indexes.add(60 * number, 60, 50 + number, 1000 + number)
    assert indexes.offsets.entries() == [(52, 120), (54, 240)]
    assert indexes.times.entries() == [(1002, 52), (1004, 54)]


def test_a_segment_without_timestamps_has_no_entry_for_one() -> None:
    indexes = SegmentIndexes(50, 100)
    indexes.add(0, 60, 50, -1)
    indexes.finish()
    assert indexes.offset_of_max_timestamp == 50
    assert indexes.times.entries() == []


def test_read_limits() -> None:
    vfs = MemoryVfs()
    log = filled(vfs, "/d")
    size = len(batch(0, 1))
    assert len(log.read(0, 3 * size + 5)) == 3 * size
    assert len(log.read(0, 1 << 20, end_offset=2)) == 2 * size
    assert log.read(50, 100) == b""
    assert log.read(4, 100, end_offset=4) == b""
    with pytest.raises(OffsetOutOfRangeError):
        log.read(51, 1)


def test_a_snapshot_that_is_gone_already_is_deleted_in_peace() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    files, found = SnapshotFiles(vfs, "/d"), OffsetAndEpoch(Offset(8), LeaderEpoch(1))
    files.writer(found).freeze()
    for _ in range(2):
        files.unlink(files.delete(found))
        assert files.list() == []
    assert vfs.list("/d") == []


def test_truncate_and_start_again(place: tuple[Vfs, str]) -> None:
    log = filled(*place)
    log.close()
    assert log.truncate_to(25) == 25
    assert (log.last_epoch, log.flushed_end_offset) == (2, 25)
    log.append(batch(25, 7), 25)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.end_offset, log.epoch_entries) == (100, 100, ())
    log.append(batch(100, 8), 100)
    log.flush()
    again = open_metadata_log(place[0], place[1], SMALL)
    assert (again.log_start_offset, again.end_offset) == (100, 101)
    assert log.raise_log_start_to(100) == ()
    assert log.raise_log_start_to(101) == ()


def test_batch_across_the_truncation_goes_whole() -> None:
    log = golden_log()
    bounds = [
        (b.header.base_offset, b.header.end_offset)
        for b in iterate_batches(log.read(0, 1 << 20))
        if b.header.last_offset_delta > 0
    ]
    base_offset, _ = bounds[-1]
    assert log.truncate_to(base_offset + 1) == base_offset


def golden_log() -> Log:
    return open_metadata_log(golden.load("static"), "/log", LogConfig())


def test_fetched_batches_stop_at_the_first_bad_one() -> None:
    vfs = MemoryVfs()
    log = filled(vfs, "/d", 2)
    good = batch(2, 5) + batch(3, 6)
    info = log.append_fetched(good + batch(4, 9) + batch(5, 9), epoch_max=6)
    assert (info.end_offset, info.epochs) == (4, (EpochEntry(5, 2), EpochEntry(6, 3)))
    assert info.stopped == "leader epoch 9 is above 6"
    broken = bytearray(batch(4, 6))
    broken[-1] ^= 1
    assert "CRC" in str(log.append_fetched(bytes(broken), 6).stopped)
    assert log.append_fetched(batch(4, 6)[:-3], 6).stopped == "the last batch is cut"
    assert "follows end offset 4" in str(log.append_fetched(batch(5, 6), 6).stopped)
    assert "lower than 6" in str(log.append_fetched(batch(4, 3), 6).stopped)
    assert log.end_offset == 4
    for room_bytes in (0, 1):
        log.configure(replace(log.config, batch_bytes_max=len(batch(4, 6)) - 1 + room_bytes))
        assert log.append_fetched(batch(4, 6), 6).end_offset == 4 + room_bytes
    log.truncate_to(4)
    many = b"".join(batch(offset, 6) for offset in range(4, 60))
    assert log.append_fetched(many, 6).end_offset == 60
    assert len(segment_bases(vfs, log)) > 5


def test_full_disk_leaves_the_log_as_it_was_and_goes_on_later() -> None:
    vfs = MemoryVfs()
    log = filled(vfs, "/d", 5)
    log.flush()
    for free in range(len(batch(5, 1))):
        vfs.bytes_max = vfs.used_bytes() + free
        before = vfs.read("/d/__cluster_metadata-0/00000000000000000000.log")
        with pytest.raises(OutOfSpaceError, match="no space left"):
            log.append(batch(5, 1), 5)
        assert vfs.read("/d/__cluster_metadata-0/00000000000000000000.log") == before
        assert log.end_offset == 5
    vfs.bytes_max = None
    log.append(batch(5, 1), 5)
    log.close()
    assert open_metadata_log(vfs, "/d", SMALL).recovery_report == ()


def test_failed_fsync_is_fatal_and_names_the_file() -> None:
    vfs = MemoryVfs()
    log = filled(vfs, "/d", 3)
    vfs.failing = lambda kind, _path: errno.EIO if kind == "sync" else None
    with pytest.raises(FsyncError, match="fsync failed"):
        log.flush_plan().run()
    assert log.flushed_end_offset == 0


def test_stale_plan_moves_nothing() -> None:
    log = filled(MemoryVfs(), "/d", 10)
    plan = log.flush_plan()
    plan.run()
    log.truncate_to(4)
    log.flush_done(plan)
    assert log.flushed_end_offset <= 4


@pytest.mark.parametrize("folder", ["single", "static"])
def test_metadata_logs_of_kafka_are_read_and_left_byte_equal(folder: str) -> None:
    vfs = golden.load(folder)
    directory = "/log/__cluster_metadata-0"
    before = {n: vfs.read(f"{directory}/{n}") for n in vfs.list(directory) if n.endswith(".log")}
    epochs = vfs.read(f"{directory}/leader-epoch-checkpoint")
    log = open_metadata_log(vfs, "/log", LogConfig())
    assert log.recovery_report == ()
    content, offset = b"", 0
    while offset < log.end_offset:
        data = log.read(offset, 3000)
        content += data
        offset = list(iterate_batches(data))[-1].header.end_offset
    assert content == b"".join(before[name] for name in sorted(before))
    log.close()
    assert {name: vfs.read(f"{directory}/{name}") for name in before} == before
    assert vfs.read(f"{directory}/leader-epoch-checkpoint") == epochs
    assert SnapshotFiles(vfs, directory).latest() is not None


def test_data_partitions_of_kafka_are_read_and_left_byte_equal() -> None:
    vfs = golden.load("data")
    config = LogConfig(verify_from_start=False, contiguous=False)
    found = scan_partition_directories(vfs, "/log")
    assert len(found) == 5
    before = {
        f"{d.path}/{n}": vfs.read(f"{d.path}/{n}")
        for d in found
        for n in vfs.list(d.path)
        if n.endswith((".log", "partition.metadata"))
    }  # the epoch file loses the entries at the log end, as when Kafka loads it
    for directory in found:
        log = partition_log(vfs, "/log", config, directory.topic, directory.partition)
        assert log.recovery_report == ()
        assert log.read(log.log_start_offset, 1 << 20)
        assert directory.topic_id is not None
        assert before[f"{directory.path}/partition.metadata"] == encode_partition_metadata(
            directory.topic_id
        )
        log.close()
    assert {path: vfs.read(path) for path in before} == before


def test_partition_directories(place: tuple[Vfs, str]) -> None:
    vfs, log_directory = place
    topic_id = TopicId(bytes(range(16)))
    path = create_partition_directory(vfs, log_directory, "a-b", 3, topic_id)
    (found,) = scan_partition_directories(vfs, log_directory)
    assert (found.topic, found.partition, found.topic_id) == ("a-b", 3, topic_id)
    deleted = mark_deleted(vfs, path, bytes(16))
    assert deleted.endswith(f"a-b-3.{'0' * 32}-delete")
    assert scan_partition_directories(vfs, log_directory)[0].suffix == "-delete"
    remove_partition_directory(vfs, deleted)
    assert scan_partition_directories(vfs, log_directory) == []


def test_snapshot_in_chunks(place: tuple[Vfs, str]) -> None:
    vfs, directory = place
    files = SnapshotFiles(vfs, directory)
    snapshot_id = OffsetAndEpoch(Offset(12), LeaderEpoch(3))
    writer = files.writer(snapshot_id)
    writer.append(b"abc")
    assert files.list() == []
    writer.append(b"def")
    writer.freeze()
    assert files.list() == [snapshot_id]
    assert files.read_chunk(snapshot_id, 2, 3) == b"cde"
    assert files.size(snapshot_id) == 6
    files.unlink(files.delete(snapshot_id))
    assert vfs.list(directory) == []


def test_lock_of_a_directory() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    held = lock_directory(vfs, "/d")
    with pytest.raises(LockedDirectoryError):
        lock_directory(vfs, "/d")
    held.release()
    lock_directory(vfs, "/d")


def test_golden_index_entries() -> None:
    offsets = OffsetIndex(50)
    offsets.append(55, 4130)
    assert offsets.encode().hex() == "0000000500001022"
    times = TimeIndex(50)
    times.maybe_append(1601008070323, 55)
    assert times.encode().hex() == "00000174c3846eb300000005"
    padded = OffsetIndex.decode(offsets.encode() + bytes(80), 50, 10_000)
    assert padded.entries() == offsets.entries()


@pytest.mark.parametrize("first_ms", [0, 1, 2])
def test_the_first_timestamp_is_indexed_however_small(first_ms: int) -> None:
    times = TimeIndex(50)
    times.maybe_append(-1, 55)  # a batch without a timestamp
    times.maybe_append(first_ms, 56)
    times.maybe_append(first_ms, 57)
    assert times.entries() == [(first_ms, 56)]


def test_epoch_cache() -> None:
    cache = EpochCache((EpochEntry(1, 0), EpochEntry(3, 10), EpochEntry(5, 20)))
    assert [cache.end_offset_for(e, 30) for e in (-1, 0, 1, 2, 4, 5, 6)] == [
        (-1, -1), (0, 0), (1, 10), (1, 10), (3, 20), (5, 30), (-1, -1),
    ]  # fmt: skip
    assert not cache.assign(5, 25)
    cache.truncate_from_start(15)
    assert cache.entries == (EpochEntry(3, 15), EpochEntry(5, 20))
    cache.truncate_from_end(20)
    assert cache.last_epoch == 3


def test_a_volume_is_as_large_as_the_system_says(place: tuple[Vfs, str], tmp_path: Path) -> None:
    vfs, directory = place
    volume = vfs.volume(directory)
    assert 0 < volume.usable_bytes <= volume.total_bytes
    if isinstance(vfs, OsVfs):
        assert volume.total_bytes == shutil.disk_usage(tmp_path).total
    with pytest.raises(FileNotFoundError):
        vfs.volume(f"{directory}/nothing")


def test_a_file_that_may_only_be_read_is_opened_to_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As tools of another user see it; root may write whatever the mode says."""
    (tmp_path / "f").write_bytes(b"abc")
    real = os.open

    def refusing(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise PermissionError(errno.EACCES, "not yours", path)
        return real(path, flags, mode)

    # undone before tmp_path is removed, which opens files too
    with monkeypatch.context() as patched:
        patched.setattr("storage.os_vfs.os.open", refusing)
        assert OsVfs().open(str(tmp_path / "f")).pread(10, 0) == b"abc"
        with pytest.raises(PermissionError):
            OsVfs().open(str(tmp_path / "g"), create=True)
