"""Upkeep of logs: when retention, flushes, records and removals run, and what their errors do."""

import errno

import pytest

from broker.config import UpkeepConfig
from broker.effects import DirectoryFailed, Lane
from broker.replicas.upkeep import LOGS_PER_STEP
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.errors import FsyncError
from tests.broker.metadata_log import D2, A, B
from tests.broker.record_hosts import START_MS, WALL_MS, Host, with_topics
from tests.storage.test_unified_log import produced

POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"
LONG_MS = 1 << 40
SIZE = len(produced(1).buffer)


def recorded(host: Host, name: str, path: str = "/1") -> dict:
    return dict(OffsetCheckpoint(host.vfs, path, name).offsets)


def small_segments(**configs: str) -> Host:
    """A host of topic a with a segment for each record."""
    log = with_topics("a", internal_segment_bytes=str(SIZE), **configs)
    return Host(log).started()


# ---- recorded offsets --------------------------------------------------------------------------


def test_high_watermarks_are_recorded_from_the_start_every_5_s() -> None:
    host = Host(with_topics("a")).started()
    host.append(2)
    assert host.local.next_ms() == host.clock.now_ms
    host.pass_ms(0)
    assert recorded(host, WATERMARKS) == {("a", 0): 2}
    host.append()
    host.pass_ms(4_999)
    assert recorded(host, WATERMARKS) == {("a", 0): 2}
    host.pass_ms(1)
    assert recorded(host, WATERMARKS) == {("a", 0): 3}


def test_recovery_points_and_log_starts_are_recorded_after_30_s_and_each_minute() -> None:
    host = Host(with_topics("a", flush_messages="1")).started()
    host.append(2)
    assert host.partition().log.log.flushed_end_offset == 2
    host.partition().delete_records_on_leader(1)
    host.pass_ms(29_999)
    assert recorded(host, POINTS) == recorded(host, STARTS) == {}
    host.pass_ms(1)
    assert recorded(host, POINTS) == {("a", 0): 2}
    assert recorded(host, STARTS) == {("a", 0): 1}
    host.append()
    host.partition().delete_records_on_leader(2)
    host.pass_ms(59_999)
    assert recorded(host, POINTS) == {("a", 0): 2}
    host.pass_ms(1)
    assert recorded(host, POINTS) == {("a", 0): 3}
    assert recorded(host, STARTS) == {("a", 0): 2}


def test_the_epochs_are_written_before_the_recovery_points_a_few_at_a_step() -> None:
    host = Host(with_topics("a", partitions=20, flush_messages="1")).started()
    for number in range(20):
        host.append(number=number)
    host._set(host.clock.now_ms + 30_000)
    written = []
    for _ in range(4):
        host.local.tick()
        written.append(sum(host.vfs.exists(f"/1/a-{n}/leader-epoch-checkpoint") for n in range(20)))
        if len(written) < 4:
            assert recorded(host, POINTS) == {}
            assert host.local.next_ms() == host.clock.now_ms or len(written) == 3
        host.work()
    assert written == [8, 16, 20, 20]
    assert len(recorded(host, POINTS)) == 20


def test_a_record_that_still_runs_is_not_begun_again() -> None:
    host = Host(with_topics("a")).started()
    host._set(host.clock.now_ms)
    host.local.tick()
    begun = len(host.works)
    assert begun == 2, "one for each log directory"
    host._set(host.clock.now_ms + 5_000)
    host.local.tick()
    assert len(host.works) == begun
    host.work()
    host._set(host.clock.now_ms + 5_000)
    host.local.tick()
    assert len(host.works) == begun


def test_a_full_disk_delays_a_record_and_a_broken_one_is_offline() -> None:
    host = Host(with_topics("a")).started()
    host.append()
    host.vfs.bytes_max = host.vfs.used_bytes()
    host.pass_ms(0)
    assert [told["path"] for told in host.logged("log_upkeep_refused")] == ["/1", "/2"]
    assert host.taken(DirectoryFailed) == []
    host.vfs.bytes_max = None
    host.pass_ms(5_000)
    assert recorded(host, WATERMARKS) == {("a", 0): 1}
    lane, name, _, done = next(iter(_records(host)))
    assert (lane, name) == (Lane.FILES, "/1")
    done(FsyncError("/1", "broken"))
    assert [one.path for one in host.taken(DirectoryFailed)] == ["/1"]


def _records(host: Host) -> list:
    host._set(host.clock.now_ms + 5_000)
    host.local.tick()
    return host.works


def test_what_is_no_error_of_a_disk_is_raised() -> None:
    host = Host(with_topics("a")).started()
    _, _, _, done = _records(host)[0]
    with pytest.raises(ZeroDivisionError):
        done(ZeroDivisionError())


# ---- producers ---------------------------------------------------------------------------------


def with_producers(check_ms: int) -> tuple[Host, list]:
    """A host with a log more than a step looks at for producers, which expire after 700 s."""
    count = LOGS_PER_STEP + 1
    upkeep = UpkeepConfig(
        producer_check_ms=check_ms,
        producer_expiration_ms=700_000,
        retention_check_ms=LONG_MS,
        recovery_point_ms=LONG_MS,
        log_start_ms=LONG_MS,
        high_watermark_ms=LONG_MS,
    )
    host = Host(with_topics("a", partitions=count), upkeep=upkeep).started()
    for number in range(count):
        host.partition(number).append_as_leader(
            produced(WALL_MS, producer=7), required_acks=1, wall_ms=WALL_MS, now_ms=START_MS
        )
    return host, [host.partition(number).log.producers for number in range(count)]


def test_producers_that_write_no_more_are_forgotten_at_the_check_of_each_10_minutes() -> None:
    host, producers = with_producers(UpkeepConfig().producer_check_ms)
    host.pass_ms(1_199_999)
    assert all(map(len, producers)), "the check before was too early for them"
    host._set(host.clock.now_ms + 1)
    assert host.local.next_ms() == host.clock.now_ms
    host.local.tick()
    assert sum(map(len, producers)) == 1, "a step looks at some logs"
    assert host.local.next_ms() == host.clock.now_ms
    host.local.tick()
    assert sum(map(len, producers)) == 0


def test_a_check_of_producers_goes_on_before_the_next_and_without_logs_that_are_gone() -> None:
    host, producers = with_producers(800_000)
    host.pass_ms(799_999)
    host._set(host.clock.now_ms + 1)
    host.local.tick()
    host._set(host.clock.now_ms + 800_000)
    host.local.tick()
    assert sum(map(len, producers)) == 0
    assert host.local.next_ms() == host.clock.now_ms + 800_000, "it did not begin anew"
    host._set(host.clock.now_ms + 800_000)
    host.local.tick()
    host.log.remove()
    host.publish()
    host.local.tick()


# ---- flushes -----------------------------------------------------------------------------------


def test_an_append_is_flushed_when_its_topic_asks_for_it() -> None:
    host = Host(with_topics("a", flush_messages="2")).started()
    log = host.partition().log
    host.append()
    assert log.log.flushed_end_offset == 0
    host.append()
    assert log.log.flushed_end_offset == 2


def test_flushes_run_in_the_lane_of_their_log_directory_in_order() -> None:
    log = with_topics("a", flush_messages="1")
    log.topic("b", directory=D2, flush_messages="1")
    host = Host(log).started()
    for topic_id in (A, B, A):
        host.partition(0, topic_id).append_as_leader(
            produced(1), required_acks=1, wall_ms=1, now_ms=host.clock.now_ms
        )
        host.local.appended((topic_id, 0))
    assert [(each[0], each[1]) for each in host.works] == [
        (Lane.FLUSH, "/1"),
        (Lane.FLUSH, "/2"),
        (Lane.FLUSH, "/1"),
    ]
    host.work()
    assert host.partition().log.log.flushed_end_offset == 2


def test_old_records_are_flushed_at_the_check() -> None:
    log = with_topics("a", flush_ms="40000")
    host = Host(log, upkeep=UpkeepConfig(flush_check_ms=1_000)).started()
    host.append()
    host.pass_ms(39_999)
    assert host.partition().log.log.flushed_end_offset == 0
    host.pass_ms(1_000)
    assert host.partition().log.log.flushed_end_offset == 1


def test_without_a_check_nothing_old_is_flushed() -> None:
    host = Host(with_topics("a", flush_ms="1")).started()
    host.append()
    host.pass_ms(100_000)
    assert host.partition().log.log.flushed_end_offset == 1, "the first check comes after 30 s"
    host.append()
    host.pass_ms(100_000)
    assert host.partition().log.log.flushed_end_offset == 1


def test_a_failed_flush_takes_the_directory_offline() -> None:
    host = Host(with_topics("a", flush_messages="1")).started()
    host.partition().append_as_leader(produced(1), required_acks=1, wall_ms=1, now_ms=1_000)
    host.local.appended((A, 0))
    ((_, _, _, done),) = host.works
    done(FsyncError("/1", "broken"))
    assert [one.path for one in host.taken(DirectoryFailed)] == ["/1"]
    assert host.partition().log is None
    host.local.appended((A, 0))
    host.local.appended((B, 7))


def test_a_flush_that_ends_behind_a_deletion_says_nothing() -> None:
    host = Host(with_topics("a", flush_messages="1")).started()
    host.partition().append_as_leader(produced(1), required_acks=1, wall_ms=1, now_ms=1_000)
    host.local.appended((A, 0))
    (flush,) = host.works
    host.log.remove()
    host.publish()
    flush[3](FileNotFoundError("/1/a-0"))
    assert host.taken(DirectoryFailed) == []


# ---- retention ---------------------------------------------------------------------------------


def test_retention_is_checked_after_30_s_and_then_every_5_minutes() -> None:
    host = small_segments(retention_ms="1000", file_delete_delay_ms="10000")
    host.append(3)
    host.pass_ms(29_999)
    assert host.partition().log.log_start_offset == 0
    host.pass_ms(1)
    assert host.partition().log.log_start_offset == 3
    assert host.replicas.calls[-1] == ("check", (A, 0)), "a low watermark may have risen"
    host.append(2)
    host.pass_ms(299_999)
    assert host.partition().log.log_start_offset == 3
    host.pass_ms(1)
    assert host.partition().log.log_start_offset == 5


def test_deleted_segments_are_removed_after_their_delay() -> None:
    host = small_segments(retention_ms="1000", file_delete_delay_ms="500")
    host.append(3)
    host.pass_ms(30_499)
    assert any(name.endswith(".deleted") for name in host.vfs.list("/1/a-0"))
    assert host.local.next_ms() == host.clock.now_ms + 1
    host.pass_ms(1)
    assert not any(name.endswith(".deleted") for name in host.vfs.list("/1/a-0"))


def test_a_step_deletes_at_most_50_segments() -> None:
    host = small_segments(retention_ms="1000")
    host.append(120)
    host._set(host.clock.now_ms + 30_000)
    starts = []
    for _ in range(4):
        host.local.tick()
        starts.append(host.partition().log.log_start_offset)
        host.work()
        assert (host.local.next_ms() == host.clock.now_ms) is (len(starts) < 3)
    assert starts == [50, 100, 120, 120]


def test_a_step_looks_at_100_logs_of_a_check() -> None:
    host = Host(with_topics("a", partitions=120, retention_ms="1")).started()
    for number in (99, 98, 9):
        host.append(number=number)
    host._set(host.clock.now_ms + 30_000)
    host.local.tick()
    assert host.partition(99).log.log_start_offset == host.partition(98).log.log_start_offset == 1
    assert host.local.next_ms() == host.clock.now_ms


def test_a_disk_that_fails_in_a_check_of_retention_is_offline() -> None:
    host = small_segments(retention_ms="1000")
    host.append(3)
    host.vfs.failing = lambda kind, path: errno.EIO if kind == "rename" and "a-0" in path else None
    host.pass_ms(30_000)
    assert [one.path for one in host.taken(DirectoryFailed)] == ["/1"]


def test_nothing_is_due_before_the_logs_are_loaded() -> None:
    host = Host(with_topics("a"))
    assert host.local.next_ms() is None
    host.publish()
    assert host.local.next_ms() is None
    host.local.tick()
    host.work()
    assert host.local.next_ms() == host.clock.now_ms
