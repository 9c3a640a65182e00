"""The logs of a broker at its start: recovery, strays, duplicates, offsets on record."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.errors import CorruptFileError, CorruptLogError
from storage.log_dir.partition_directories import create_partition_directory
from storage.logs.log_directory import TopicSettings
from storage.logs.log_manager import PRODUCER_EXPIRATION_MS, DuplicateLogError, LogManager
from storage.logs.recovery import TailCut
from tests.storage import golden
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
from tests.storage.test_unified_log import content, produced


def test_a_created_log_is_found_again_by_the_next_start() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 3)
    log.set_high_watermark(2)
    assert broker.manager.log_dir_of("a", 0) == "/d"
    assert broker.manager.close("/d")
    again = Broker(broker.vfs, clean=True)
    assert (again.log().end_offset, again.log().high_watermark) == (3, 2)
    assert again.log().recovery_report == ()
    assert again.manager.is_loaded
    assert list(again.manager.keys()) == [("a", 0)]
    assert again.manager.get("a", 1) is None
    assert again.manager.log_dir_of("a", 1) is None


def test_a_log_is_not_there_before_it_is_opened() -> None:
    broker = Broker()
    task = broker.manager.create("a", 0, A, "/d", NOW)
    assert not broker.manager.is_loaded
    assert broker.manager.get("a", 0) is None
    assert broker.manager.log_dir_of("a", 0) == "/d", "it has its place"
    task.run()
    assert broker.manager.get("a", 0) is None
    log = broker.manager.loaded(task)
    assert broker.manager.is_loaded
    assert broker.manager.get("a", 0) is log


def test_only_what_is_above_the_recovery_point_is_read_after_a_kill() -> None:
    broker = Broker()
    segments_of_one(broker)
    log = broker.create()
    fill(log, 4)
    log.log.flush()
    broker.manager.directories["/d"].record_recovery_points()
    assert recorded(broker) == {("a", 0): 4}
    fill(log, 1)
    broker.vfs.damage("/d/a-0/00000000000000000000.log", 40, b"\xff")
    broker.vfs.damage("/d/a-0/00000000000000000004.log", 40, b"\xff")
    again = Broker(broker.vfs)
    (cut,) = again.log().recovery_report
    assert isinstance(cut, TailCut)
    assert (cut.path, cut.end_offset) == ("/d/a-0/00000000000000000004.log", 4)
    assert again.log().end_offset == 4


def test_damage_below_the_recovery_point_is_cut_and_reported_too() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 4)
    log.log.flush()
    broker.manager.directories["/d"].record_recovery_points()
    size = len(produced(NOW).buffer)
    broker.vfs.damage("/d/a-0/00000000000000000000.log", 2 * size + 40, b"\xff")
    again = Broker(broker.vfs)
    (cut,) = again.log().recovery_report
    assert isinstance(cut, TailCut)
    assert (again.log().end_offset, cut.end_offset) == (2, 2)
    assert again.log().log.flushed_end_offset == 2
    assert Broker(again.vfs).log().recovery_report == ()


def test_a_log_whose_segments_are_gone_begins_at_its_recorded_start() -> None:
    broker = Broker()
    create_partition_directory(broker.vfs, "/d", "a", 0, A)
    OffsetCheckpoint(broker.vfs, "/d").record("a", 0, 9)
    OffsetCheckpoint(broker.vfs, "/d", LOG_START).record("a", 0, 5)
    log = Broker(broker.vfs).log()
    assert (log.log_start_offset, log.end_offset, log.log.flushed_end_offset) == (5, 5, 5)


def test_a_log_that_ends_below_its_recorded_start_begins_anew_there() -> None:
    broker = Broker()
    fill(broker.create(), 3)
    broker.manager.close("/d")
    OffsetCheckpoint(broker.vfs, "/d", LOG_START).record("a", 0, 4)
    log = Broker(broker.vfs).log()
    assert (log.log_start_offset, log.end_offset, content(log, 4)) == (4, 4, b"")
    OffsetCheckpoint(broker.vfs, "/d", LOG_START).record("a", 0, 3)
    fill(log, 1)
    assert log.log_start_offset == 4


def test_a_log_that_ends_at_its_recorded_start_keeps_its_segment() -> None:
    broker = Broker()
    fill(broker.create(), 3)
    broker.manager.close("/d")
    OffsetCheckpoint(broker.vfs, "/d", LOG_START).record("a", 0, 3)
    log = Broker(broker.vfs).log()
    assert (log.log_start_offset, log.end_offset) == (3, 3)
    assert log.log.segments[0].base_offset == 0


def test_damage_that_cannot_be_cut_is_raised_where_the_task_is_taken_in() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 1)
    broker.manager.close("/d")
    broker.vfs.open("/d/a-0/99999999999999999999.log", create=True).close()
    manager = LogManager(broker.vfs, lambda _: TopicSettings(), lambda: bytes(16))
    (task,) = manager.load("/d", broker.is_stray, NOW, is_clean=False)
    task.run()
    with pytest.raises(CorruptLogError, match="its name is more than"):
        manager.loaded(task)
    assert manager.get("a", 0) is None
    assert manager.fail("/d") == [("a", 0)]


def test_a_partition_in_two_log_directories_stops_the_start() -> None:
    broker = Broker(None, "/d", "/e")
    broker.create()
    create_partition_directory(broker.vfs, "/e", "a", 0, A)
    with pytest.raises(DuplicateLogError, match=r"for a-0 are found in both /e/a-0 and /d/a-0\."):
        Broker(broker.vfs, "/d", "/e")


def test_a_damaged_file_of_offsets_keeps_the_directory_offline() -> None:
    broker = Broker()
    file = broker.vfs.open(f"/d/{LOG_START}", create=True)
    file.pwrite(b"0\n1\nnothing\n", 0)
    manager = LogManager(broker.vfs, lambda _: TopicSettings(), lambda: bytes(16))
    with pytest.raises(CorruptFileError, match="malformed line 'nothing'"):
        manager.load("/d", broker.is_stray, NOW, is_clean=True)
    assert manager.directories == {}


def test_a_directory_of_another_topic_id_is_set_aside() -> None:
    broker = Broker()
    create_partition_directory(broker.vfs, "/d", "a", 0, B)
    again = Broker(broker.vfs)
    assert again.manager.get("a", 0) is None
    names = [name for name in broker.vfs.list("/d") if name.startswith("a-0")]
    assert names == ["a-0." + (1).to_bytes(16, "big").hex() + "-stray"]
    assert Broker(broker.vfs).manager.is_loaded, "it stays there"
    assert [name for name in broker.vfs.list("/d") if name.startswith("a-0")] == names


def test_a_log_is_opened_with_the_settings_of_its_topic() -> None:
    broker = Broker()
    segments_of_one(broker)
    task = broker.manager.create("a", 0, A, "/d", NOW)
    task.run()
    assert task.log is not None
    assert task.log.log.config is broker.settings["a"].log


def test_the_defaults_are_kafkas() -> None:
    settings = TopicSettings()
    assert settings.flush_messages == settings.flush_ms == 9223372036854775807
    assert PRODUCER_EXPIRATION_MS == 86400000
    assert settings.file_delete_delay_ms == 60000
    assert settings.log.grows_index_files
    assert settings.log.batch_bytes_max == 2147483647, "the leader of a batch judges its size"


def test_a_log_with_a_gap_and_without_records_of_offsets_is_whole() -> None:
    broker = Broker()
    log = broker.create()
    fill(log, 2)
    gap = bytearray(content(log, 1))
    gap[:8] = (7).to_bytes(8, "big")
    assert log.append_as_follower(memoryview(gap), 1, NOW).end_offset == 8
    again = Broker(broker.vfs)
    assert again.log().recovery_report == ()
    assert (again.log().end_offset, again.log().high_watermark) == (8, 0)
    assert again.log().log.flushed_end_offset == 0, "nothing was flushed, and a start does not"


def test_a_log_without_a_recovery_point_is_read_from_its_start() -> None:
    broker = Broker()
    segments_of_one(broker)
    fill(broker.create(), 2)
    broker.vfs.damage("/d/a-0/00000000000000000000.log", 40, b"\xff")
    assert Broker(broker.vfs).log().end_offset == 0


def test_the_guard_is_held_around_every_access_to_the_recovery_points() -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    held: list[bool] = []

    class Guard:
        def __enter__(self) -> None:
            held.append(True)

        def __exit__(self, *_: object) -> None:
            held.append(False)

    checkpoint = OffsetCheckpoint(vfs, "/d", guard=Guard())
    assert held == [True, False]
    for act in (
        lambda: checkpoint.record("a", 0, 3),
        lambda: checkpoint.replace({("b", 0): 4}, kept_topic="a"),
        lambda: checkpoint.forget("a", 0),
    ):
        held.clear()
        act()
        assert held[0]
        assert not held[-1]
    assert dict(OffsetCheckpoint(vfs, "/d").offsets) == {("b", 0): 4}
    manager = LogManager(vfs, lambda _: TopicSettings(), lambda: bytes(16))
    held.clear()
    manager.load("/d", lambda _: False, NOW, is_clean=True, guard=Guard())
    assert held == [True, False] * 2, "read, and written without the log that is gone"


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_directory_of_kafka_is_loaded_and_left_as_it_is(clean: bool) -> None:
    vfs = MemoryVfs()
    folder = golden.ROOT / "data"
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            golden.put(vfs, f"/d/{path.relative_to(folder)}", path.read_bytes())
    manager = LogManager(vfs, lambda _: TopicSettings(), lambda: bytes(16))
    for task in manager.load("/d", lambda found: found.topic_id is None, NOW, is_clean=clean):
        task.run()
        log = manager.loaded(task)
        assert log is not None
        assert log.recovery_report == ()
    keys = [("comp", 0), ("epochs", 0), ("idem", 0), ("rd-gzip", 0), ("rd-none", 0)]
    assert list(manager.keys()) == keys
    ends = {key: manager.get(*key).end_offset for key in keys}  # type: ignore[union-attr]
    assert ends == dict(zip(keys, (159, 12, 80, 24, 24), strict=True))
    for name in ("recovery-point-offset-checkpoint", HIGH_WATERMARK):
        kafkas = OffsetCheckpoint(vfs, "/d", name).offsets
        assert ends == {key: kafkas[key] for key in keys}, "it had stopped cleanly"
    assert manager.close("/d")
    for path in sorted(folder.rglob("*.log")):
        assert vfs.read(f"/d/{path.relative_to(folder)}") == path.read_bytes()
    for name in ("recovery-point-offset-checkpoint", HIGH_WATERMARK):
        assert dict(OffsetCheckpoint(vfs, "/d", name).offsets) == ends
    assert dict(OffsetCheckpoint(vfs, "/d", LOG_START).offsets) == {}
