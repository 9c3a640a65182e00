"""The logs of a broker when names come back, flushes are late, disks are full and processes end."""

from pathlib import Path

import msgspec
import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.checkpoints.recovery_points import RecoveryPoints
from storage.errors import CorruptLogError, FsyncError, OutOfSpaceError
from storage.log_dir.partition_directories import create_partition_directory
from storage.logs.log_directory import TopicSettings
from storage.logs.log_manager import DuplicateLogError, LoadTask
from storage.os_vfs import OsVfs
from storage.producers.producer_state import ProducerStateError
from tests.storage.log_brokers import (
    HIGH_WATERMARK,
    LOG_START,
    NOW,
    A,
    B,
    Broker,
    fill,
    recorded,
    segments_of_one,
)
from tests.storage.test_log_manager import open_files
from tests.storage.test_unified_log import produced
from wire.errors import CorruptBatchError, ErrorCode


def used(broker: Broker) -> None:
    """A log with a raised start, whose offsets are recorded."""
    log = broker.create()
    fill(log, 5)
    log.set_high_watermark(5)
    log.raise_log_start_to(3)
    log.log.flush()
    directory = broker.manager.directories["/d"]
    directory.record_recovery_points()
    directory.record_log_starts()
    directory.record_high_watermarks()


def is_new(broker: Broker) -> bool:
    log = broker.create()
    ends = (log.log_start_offset, log.high_watermark, log.end_offset, log.log.flushed_end_offset)
    fill(log, 4)
    again = Broker(broker.vfs).log()
    return ends == (0, 0, 0, 0) and (again.log_start_offset, again.high_watermark) == (0, 0)


def test_a_topic_that_comes_back_begins_at_zero() -> None:
    broker = Broker()
    used(broker)
    broker.delete("a", 0, NOW)
    assert is_new(broker)


def test_also_behind_a_crash_between_the_deletion_and_the_next_record() -> None:
    broker = Broker()
    used(broker)
    broker.delete("a", 0, NOW)
    again = Broker(broker.vfs)
    assert recorded(again) == recorded(again, LOG_START) == {}
    assert is_new(again)


def test_a_full_disk_does_not_keep_a_directory_with_such_offsets_offline() -> None:
    broker = Broker()
    used(broker)
    fill(broker.create("b"), 2)
    broker.delete("a", 0, NOW)
    broker.vfs.bytes_max = broker.vfs.used_bytes()
    again = Broker(broker.vfs)
    assert list(again.manager.keys()) == [("b", 0)]
    assert ("a", 0) in recorded(again)
    again.vfs.bytes_max = None
    assert is_new(again)


def test_also_where_the_old_one_was_set_aside_as_stray() -> None:
    broker = Broker()
    used(broker)
    broker.manager.close("/d")
    other = Broker(broker.vfs, "/e")
    tasks = other.manager.load("/d", lambda _: True, NOW, is_clean=True)
    assert tasks == []
    assert is_new(other)


def test_a_full_disk_refuses_a_name_whose_old_offsets_it_keeps() -> None:
    broker = Broker()
    used(broker)
    broker.delete("a", 0, NOW)
    broker.vfs.bytes_max = broker.vfs.used_bytes()
    task = broker.manager.create("a", 0, A, "/d", NOW)
    task.run()
    with pytest.raises(OutOfSpaceError):
        broker.manager.loaded(task)
    assert not broker.vfs.exists("/d/a-0")
    assert not broker.manager.is_loaded
    broker.manager.give_up(task)
    assert broker.manager.is_loaded
    assert broker.manager.log_dir_of("a", 0) is None
    broker.vfs.bytes_max = None
    assert is_new(broker)


def test_the_epochs_are_as_durable_as_the_recovery_point() -> None:
    broker = Broker()
    size = len(produced(NOW).buffer)
    config = msgspec.structs.replace(TopicSettings().log, segment_bytes=3 * size)
    broker.set("a", log=config)
    log = broker.create()
    fill(log, 2)
    log.log.record_epochs()
    directory = broker.manager.directories["/d"]
    for _ in range(2):
        log.append_as_leader(produced(NOW), 5, NOW)
        if log.end_offset == 3:
            log.log.flush()
    assert len(log.log.segments) == 2
    directory.record_recovery_points()
    assert Broker(broker.vfs).log().end_offset_for_epoch(1) == (1, 2)


def test_a_close_whose_epochs_find_no_room_is_not_a_clean_one() -> None:
    broker = Broker()
    fill(broker.create(), 1)
    broker.vfs.bytes_max = broker.vfs.used_bytes()
    with pytest.raises(OutOfSpaceError):
        broker.manager.close("/d")


def test_a_roll_asks_for_a_flush(tmp_path: Path) -> None:
    broker = Broker(OsVfs(), str(tmp_path))
    segments_of_one(broker)
    log = broker.create(path=str(tmp_path))
    fill(log, 1)
    assert broker.manager.flush_after_append("a", 0) is None
    for end in range(2, 20):
        fill(log, 1)
        plan = broker.manager.flush_after_append("a", 0)
        assert plan is not None
        assert broker.manager.flush_after_append("a", 0) is None, "asked for once"
        plan.run()
        broker.manager.flushed(("a", 0), plan, NOW)
        assert log.log.flushed_end_offset == end
    assert len(open_files(tmp_path)) < 10


def test_the_flush_of_a_deleted_log_is_not_that_of_the_next_one() -> None:
    broker = Broker()
    fill(broker.create(), 5)
    plan = broker.log().flush_plan()
    plan.run()
    broker.delete("a", 0, NOW)
    fill(broker.create(), 9)
    broker.manager.flushed(("a", 0), plan, NOW)
    assert broker.log().log.flushed_end_offset == 0


def test_a_flush_may_run_while_its_log_is_deleted(tmp_path: Path) -> None:
    broker = Broker(OsVfs(), str(tmp_path))
    fill(broker.create(path=str(tmp_path)), 1)
    plan = broker.log().flush_plan()
    broker.delete("a", 0, NOW)
    plan.run()
    plan.run()
    assert open_files(tmp_path) == []


def test_a_flush_of_a_directory_that_is_gone_is_an_error_otherwise(tmp_path: Path) -> None:
    broker = Broker(OsVfs(), str(tmp_path))
    fill(broker.create(path=str(tmp_path)), 1)
    plan = broker.log().flush_plan()
    (tmp_path / "a-0").rename(tmp_path / "elsewhere")
    with pytest.raises(FsyncError):
        plan.run()


def test_flushes_of_a_log_end_in_their_order() -> None:
    log = Broker().create()
    fill(log, 1)
    first = log.flush_plan()
    fill(log, 1)
    second = log.flush_plan()
    second.run()
    with pytest.raises(AssertionError, match="run those before it first"):
        log.log.flush_done(second)
    first.run()
    log.log.flush_done(second)
    assert log.log.flushed_end_offset == 2
    log.log.flush_done(first)
    assert log.log.flushed_end_offset == 2


def test_a_recovery_point_that_a_full_disk_keeps_is_not_lowered_in_memory() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    points = RecoveryPoints(OffsetCheckpoint(vfs, "/d"))
    points.set(("a", 0), 10)
    points.record()
    vfs.bytes_max = vfs.used_bytes()
    for _ in range(2):
        with pytest.raises(OutOfSpaceError):
            points.set(("a", 0), 5)
        assert points.get(("a", 0)) == 10
    vfs.bytes_max = None
    points.set(("a", 0), 5)
    assert OffsetCheckpoint(vfs, "/d").get("a", 0) == 5


@pytest.mark.parametrize(
    "error",
    [
        CorruptLogError("/d", 0, "x"),
        CorruptBatchError("x"),
        ProducerStateError(ErrorCode.invalid_record, "x"),
        FsyncError("/d", "x"),
        OutOfSpaceError("/d"),
        OSError(),
    ],
)
def test_an_error_of_a_task_is_raised_where_it_is_taken_in(error: Exception) -> None:
    broker = Broker()
    task = broker.manager.create("a", 0, A, "/d", NOW)

    def fails(_progress: object) -> None:
        raise error

    failing = LoadTask(task.directory, task.key, fails, NOW)  # type: ignore[arg-type]
    failing.run()
    with pytest.raises(type(error)):
        broker.manager.loaded(failing)
    assert broker.manager.fail("/d") == [("a", 0)]
    assert broker.manager.fail("/d") == [], "another task may find the same disk broken"


def test_a_start_that_is_refused_changes_nothing() -> None:
    broker = Broker(None, "/d", "/e")
    broker.create()
    broker.create("b", path="/e")
    broker.delete("b", 0, NOW)
    create_partition_directory(broker.vfs, "/e", "a", 0, A)
    create_partition_directory(broker.vfs, "/e", "b", 7, A)
    before = broker.vfs.list("/e")
    again = Broker(broker.vfs, "/d")
    with pytest.raises(DuplicateLogError):
        again.manager.load("/e", again.is_stray, NOW, is_clean=True)
    assert broker.vfs.list("/e") == before, "what is stray keeps its name"
    assert again.manager.removable(NOW + 60_000) == []


def test_closed_logs_are_gone() -> None:
    broker = Broker()
    broker.create()
    broker.manager.close("/d")
    assert broker.manager.get("a", 0) is None
    assert broker.manager.log_dir_of("a", 0) is None


def test_a_log_that_is_being_opened_is_not_deleted() -> None:
    broker = Broker()
    task = broker.manager.create("b", 0, B, "/d", NOW)
    with pytest.raises(AssertionError, match="is being opened"):
        broker.delete("b", 0, NOW)
    task.run()
    assert broker.manager.loaded(task) is not None
    broker.delete("b", 0, NOW)


def test_offsets_recorded_while_a_name_comes_back_are_not_those_of_the_old_log() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 3)
    log.set_high_watermark(3)
    log.raise_log_start_to(2)
    directory = broker.manager.directories["/d"]
    directory.record_log_starts()
    directory.record_high_watermarks()
    broker.delete("a", 0, NOW)
    task = broker.manager.create("a", 0, A, "/d", NOW)
    late = [directory.log_starts_record(), directory.high_watermarks_record()]
    task.run()
    for record in late:
        record.take(record.left_count)
        record.run()
    new = broker.manager.loaded(task)
    assert new is not None
    assert (new.log_start_offset, new.high_watermark, new.end_offset) == (0, 0, 0)
    assert recorded(broker, LOG_START) == recorded(broker, HIGH_WATERMARK) == {}
    fill(new, 3)
    new.set_high_watermark(1)
    directory.record_high_watermarks()
    assert recorded(broker, HIGH_WATERMARK) == {("a", 0): 1}
