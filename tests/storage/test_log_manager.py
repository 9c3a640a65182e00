"""The logs of a broker over its log directories: creation, deletion, upkeep, end."""

from pathlib import Path

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.checkpoints.recovery_points import RecoveryPoints
from storage.logs.log_directory import TopicSettings
from storage.logs.log_manager import LogManager, remove
from storage.logs.log_validator import AppendRules, RejectedError
from storage.logs.retention import RetentionRules
from storage.logs.unified_log import FetchIsolation
from storage.os_vfs import OsVfs
from tests.storage.log_brokers import (
    DAY_MS,
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
from tests.storage.test_unified_log import produced
from wire.types import METADATA_TOPIC_NAME


def test_the_log_directory_with_the_fewest_logs_then_the_first_is_next() -> None:
    broker = Broker(None, "/d", "/e", "/f")
    choose = broker.manager.next_log_dir
    assert choose(["/e", "/d", "/f"]) == "/e"
    broker.create(path="/d")
    assert choose(["/d", "/e", "/f"]) == "/e"
    broker.create(partition=1, path="/e")
    assert choose(["/d", "/e"]) == "/d"
    assert choose(["/d", "/e", "/f"]) == "/f"


# ---- deletion ----------------------------------------------------------------------------------


def test_a_deleted_log_leaves_its_name_at_once_and_the_disk_later() -> None:
    broker = Broker()
    fill(broker.create(), 2)
    fill(broker.create("b"), 1)
    broker.log().log.flush()
    broker.manager.directories["/d"].record_recovery_points()
    reader = broker.log().slice(0, 1 << 20, FetchIsolation.LOG_END, at_least_one=True)
    broker.delete("a", 0, NOW)
    assert broker.manager.get("a", 0) is None
    assert broker.manager.log_dir_of("a", 0) is None
    broker.manager.directories["/d"].record_recovery_points()
    assert recorded(broker) == {("b", 0): 0}
    assert [name for name in broker.vfs.list("/d") if name.startswith("a-0")] == [
        "a-0." + (1).to_bytes(16, "big").hex() + "-delete"
    ]
    assert reader is not None
    assert len(reader.read()) == 2 * len(produced(NOW).buffer)
    assert broker.manager.removable(NOW + 59_999) == []
    (due,) = broker.manager.removable(NOW + 60_000)
    assert broker.manager.removable(NOW + 60_000) == []
    remove(broker.vfs, due)
    assert [name for name in broker.vfs.list("/d") if name.startswith("a-0")] == []
    assert broker.create().end_offset == 0


def test_a_start_removes_what_was_deleted_before() -> None:
    broker = Broker()
    broker.create()
    broker.delete("a", 0, NOW)
    again = Broker(broker.vfs)
    assert again.manager.is_loaded
    (due,) = again.manager.removable(NOW + 60_000)
    assert due.is_directory


def test_a_log_whose_topic_came_back_while_it_is_deleted() -> None:
    broker = Broker()
    broker.create()
    broker.delete("a", 0, NOW)
    broker.create()
    broker.delete("a", 0, NOW + 1)
    assert [due.due_ms for due in broker.manager.removable(NOW + DAY_MS)] == [
        NOW + 60_000,
        NOW + 60_001,
    ]


def test_the_recorded_offsets_of_a_deleted_log_go_with_it() -> None:
    broker = Broker()
    for topic in ("a", "b"):
        log = broker.create(topic)
        fill(log, 2)
        log.set_high_watermark(2)
        log.raise_log_start_to(1)
    directory = broker.manager.directories["/d"]
    directory.record_log_starts()
    broker.delete("a", 0, NOW)
    directory.record_recovery_points()
    directory.record_log_starts()
    assert recorded(broker, LOG_START) == {("b", 0): 1}
    assert list(recorded(broker)) == [("b", 0)]
    assert broker.manager.flush_if_old("a", 0, NOW + DAY_MS) is None


def open_files(folder: Path) -> list[str]:
    paths = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [path for path in paths if path.startswith(str(folder))]


def test_no_file_of_a_log_stays_open_that_is_deleted_or_offline(tmp_path: Path) -> None:
    broker = Broker(OsVfs(), f"{tmp_path}/d", f"{tmp_path}/e")
    fill(broker.create(path=f"{tmp_path}/d"), 1)
    assert open_files(tmp_path)
    broker.delete("a", 0, NOW)
    assert open_files(tmp_path) == []
    fill(broker.create(path=f"{tmp_path}/d"), 1)
    late = broker.manager.create("b", 0, B, f"{tmp_path}/d", NOW)
    late.run()
    failed = broker.manager.create("b", 1, B, f"{tmp_path}/d", NOW)
    (tmp_path / "d" / "b-1").mkdir()
    (tmp_path / "d" / "b-1" / "99999999999999999999.log").touch()
    failed.run()
    assert len(broker.manager.fail(f"{tmp_path}/d")) == 3
    assert broker.manager.loaded(late) is None
    assert broker.manager.loaded(failed) is None, "its error says nothing new"
    assert open_files(tmp_path) == []


def test_a_deletion_that_runs_late_is_none_of_an_offline_directory() -> None:
    broker = Broker()
    broker.create()
    task = broker.manager.delete("a", 0, NOW)
    assert broker.vfs.exists("/d/a-0"), "it is renamed by the task"
    assert broker.manager.next_removal_ms is None
    broker.manager.fail("/d")
    task.run()
    broker.manager.deleted(task)
    assert broker.manager.next_removal_ms is None


def test_the_next_removal_is_the_earliest() -> None:
    broker = Broker()
    for partition in (0, 1):
        broker.create(partition=partition)
        broker.delete("a", partition, NOW + 10 - partition)
    assert broker.manager.next_removal_ms == NOW + 9 + 60_000


# ---- upkeep ------------------------------------------------------------------------------------


def test_old_segments_go_after_the_delay() -> None:
    broker = Broker()
    segments_of_one(broker)
    broker.set("a", retention=RetentionRules(retention_ms=10), file_delete_delay_ms=7)
    log = broker.create()
    fill(log, 3)
    log.set_high_watermark(2)
    assert broker.manager.delete_old_segments("a", 0, NOW + 10) == 0
    assert broker.manager.delete_old_segments("a", 0, NOW + 11, segments_max=0) == 0
    assert broker.manager.delete_old_segments("a", 0, NOW + 11, segments_max=1) == 1
    assert log.log_start_offset == 1
    assert broker.manager.delete_old_segments("a", 0, NOW + 11) == 1
    assert log.log_start_offset == 2
    assert broker.manager.removable(NOW + 17) == []
    due = broker.manager.removable(NOW + 18)
    assert len(due) == 7, "with their indexes and the snapshot between"
    for each in due:
        assert not each.is_directory
        remove(broker.vfs, each)
        remove(broker.vfs, each)  # as a crash between may repeat it
    assert [name for name in broker.vfs.list("/d/a-0") if name.endswith(".deleted")] == []
    assert broker.manager.delete_old_segments("a", 1, NOW) == 0


def test_a_start_inside_a_segment_is_recorded_as_kafka_does() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 3)
    fill(broker.create("b"), 1)
    log.set_high_watermark(3)
    log.raise_log_start_to(2)
    directory = broker.manager.directories["/d"]
    directory.record_log_starts()
    assert recorded(broker, LOG_START) == {("a", 0): 2}
    assert Broker(broker.vfs).log().log_start_offset == 2
    directory.record_high_watermarks()
    assert recorded(broker, HIGH_WATERMARK) == {("a", 0): 3, ("b", 0): 0}


def test_what_is_recorded_of_logs_that_are_not_open_yet_stays() -> None:
    broker = Broker()
    for topic in ("a", "b"):
        log = broker.create(topic)
        fill(log, 3)
        log.set_high_watermark(3)
        log.raise_log_start_to(1)
    broker.manager.close("/d")
    names = ("recovery-point-offset-checkpoint", LOG_START, HIGH_WATERMARK)
    before = [recorded(broker, name) for name in names]
    assert before == [{("a", 0): n, ("b", 0): n} for n in (3, 1, 3)]
    manager = LogManager(broker.vfs, lambda _: TopicSettings(), lambda: bytes(16))
    first, _ = manager.load("/d", broker.is_stray, NOW, is_clean=True)
    first.run()
    manager.loaded(first)
    directory = manager.directories["/d"]
    directory.record_recovery_points()
    directory.record_log_starts()
    directory.record_high_watermarks()
    assert [recorded(broker, name) for name in names] == before


def test_flushes_by_number_of_records() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 1)
    assert broker.manager.flush_after_append("a", 0) is None
    broker.set("a", flush_messages=3)
    fill(log, 1)
    assert broker.manager.flush_after_append("a", 0) is None
    fill(log, 1)
    plan = broker.manager.flush_after_append("a", 0)
    assert plan is not None
    plan.run()
    broker.manager.flushed(("a", 0), plan, NOW)
    assert log.log.flushed_end_offset == 3
    broker.set("a", flush_messages=0)
    assert broker.manager.flush_after_append("a", 0) is None, "nothing to flush"
    broker.delete("a", 0, NOW)
    broker.manager.flushed(("a", 0), plan, NOW)


def test_flushes_by_time() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 1)
    assert broker.manager.flush_if_old("a", 0, NOW + DAY_MS) is None
    broker.set("a", flush_ms=100)
    assert broker.manager.flush_if_old("a", 0, NOW + 99) is None
    plan = broker.manager.flush_if_old("a", 0, NOW + 100)
    assert plan is not None
    plan.run()
    broker.manager.flushed(("a", 0), plan, NOW + 100)
    assert broker.manager.flush_if_old("a", 0, NOW + 300) is None, "nothing to flush"
    fill(log, 1)
    assert broker.manager.flush_if_old("a", 0, NOW + 199) is None
    assert broker.manager.flush_if_old("a", 0, NOW + 200) is not None


def test_settings_that_change_hold_for_open_logs_and_those_being_opened() -> None:
    broker = Broker()
    log = broker.create()
    other = broker.create("b")
    task = broker.manager.create("a", 1, A, "/d", NOW)
    broker.set("a", append=AppendRules(batch_bytes_max=10))
    segments_of_one(broker, "b")
    broker.manager.configure("a", 0)
    with pytest.raises(RejectedError):
        fill(log, 1)
    fill(other, 2)
    assert len(other.log.segments) == 1
    broker.manager.configure("b", 0)
    fill(other, 1)
    assert len(other.log.segments) == 2
    task.run()
    opened = broker.manager.loaded(task)
    assert opened is not None
    with pytest.raises(RejectedError):
        fill(opened, 1)


def test_a_truncation_lowers_the_record_before_it_is_done() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 4)
    log.log.flush()
    broker.manager.directories["/d"].record_recovery_points()
    log.truncate_to(2, NOW)
    assert recorded(broker) == {("a", 0): 2}
    assert Broker(broker.vfs).log().end_offset == 2


def test_the_line_of_the_metadata_log_stays() -> None:
    broker = Broker()
    metadata = OffsetCheckpoint(broker.vfs, "/d")
    metadata.record(METADATA_TOPIC_NAME, 0, 77)
    fill(broker.create(), 1)
    broker.log().log.flush()
    broker.manager.directories["/d"].record_recovery_points()
    assert recorded(broker) == {("a", 0): 1, (METADATA_TOPIC_NAME, 0): 77}
    metadata.record(METADATA_TOPIC_NAME, 0, 78)
    assert recorded(broker) == {("a", 0): 1, (METADATA_TOPIC_NAME, 0): 78}
    again = Broker(broker.vfs)
    again.manager.directories["/d"].record_recovery_points()
    assert recorded(again) == {("a", 0): 1, (METADATA_TOPIC_NAME, 0): 78}


def test_a_recovery_point_that_stays_writes_nothing() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    points = RecoveryPoints(OffsetCheckpoint(vfs, "/d"))
    points.set(("a", 0), 5)
    points.set(("a", 0), 5)
    assert not vfs.exists("/d/recovery-point-offset-checkpoint"), "kept until they are recorded"
    points.set(("a", 0), 4)
    assert OffsetCheckpoint(vfs, "/d").get("a", 0) == 4


def test_a_log_that_settles_is_not_flushed_for_its_age() -> None:
    broker = Broker()
    fill(broker.create(), 1)
    broker.set("a", flush_ms=1)
    assert broker.manager.flush_if_old("a", 0, NOW + 9) is not None
    fill(broker.log(), 1)
    broker.manager._settling.add(("a", 0))
    assert broker.manager.flush_if_old("a", 0, NOW + 9) is None


def test_a_recovery_point_that_is_taken_goes_with_the_next_record() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    points = RecoveryPoints(OffsetCheckpoint(vfs, "/d"))
    points.set(("a", 0), 5)
    points.take(("a", 0), 4)
    assert points.get(("a", 0)) == 4
    assert not vfs.exists("/d/recovery-point-offset-checkpoint")
    points.record()
    assert OffsetCheckpoint(vfs, "/d").get("a", 0) == 4


def test_a_flush_behind_a_roll_records_nothing_by_itself() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 1)
    log.log.roll(1, NOW)
    plan = log.flush_plan()
    plan.run()
    broker.manager.flushed(("a", 0), plan, NOW)
    assert log.log.flushed_end_offset == 1
    assert recorded(broker) == {}
    assert log.log.epoch_cache.is_changed


def test_what_is_removed_next_when_another_directory_failed() -> None:
    broker = Broker(None, "/d", "/e")
    for delay_ms, path in ((1, "/d"), (9, "/e"), (2, "/e")):
        broker.set("a", file_delete_delay_ms=delay_ms)
        broker.create(path=path)
        broker.delete("a", 0, NOW)
    broker.manager.fail("/d")
    assert [each.due_ms - NOW for each in broker.manager.removable(NOW + 2)] == [2]
    broker.create(path="/e")
    broker.delete("a", 0, NOW)
    removed = [broker.manager.removable(NOW + 9, 1) for _ in range(3)]
    assert [[each.due_ms - NOW for each in some] for some in removed] == [[2], [9], []]


# ---- end ---------------------------------------------------------------------------------------


def test_a_failed_log_directory_goes_offline_with_its_logs() -> None:
    broker = Broker(None, "/d", "/e")
    fill(broker.create(), 1)
    broker.create(partition=1, path="/e")
    broker.create("b")
    broker.delete("b", 0, NOW)
    task = broker.manager.create("b", 1, B, "/d", NOW)
    assert broker.manager.fail("/d") == [("a", 0), ("b", 1)]
    assert broker.manager.get("a", 0) is None
    assert list(broker.manager.directories) == ["/e"]
    assert broker.manager.removable(NOW + DAY_MS) == [], "its disk is not touched any more"
    task.run()
    assert broker.manager.loaded(task) is None
    assert list(broker.manager.keys()) == [("a", 1)]
    broker.create(path="/e")


@pytest.mark.parametrize(
    ("clean", "taken", "is_sound"), [(True, 0, True), (False, 0, False), (False, 1, True)]
)
def test_a_directory_is_sound_if_it_was_or_all_its_logs_were_opened(
    clean: bool, taken: int, is_sound: bool
) -> None:
    broker = Broker()
    broker.create()
    broker.manager.close("/d")
    manager = LogManager(broker.vfs, lambda _: TopicSettings(), lambda: bytes(16))
    for task in manager.load("/d", broker.is_stray, NOW, is_clean=clean)[:taken]:
        task.run()
        manager.loaded(task)
    assert manager.close("/d") is is_sound
    assert manager.directories == {}


def test_a_clean_start_checks_nothing() -> None:
    broker = Broker()
    fill(broker.create(), 2)
    broker.manager.close("/d")
    broker.vfs.damage("/d/a-0/00000000000000000000.log", 40, b"\xff")
    assert Broker(broker.vfs, clean=True).log().end_offset == 2
    assert Broker(broker.vfs).log().end_offset == 0
