"""Upkeep of logs: when retention, flushes, records and removals run, and what their errors do."""

import errno

from broker.config import UpkeepConfig
from broker.effects import DirectoryFailed, Lane
from broker.replicas.checkpoints import OffsetsKind
from broker.replicas.log_check import LISTED_PER_UNIT
from broker.replicas.removals import REMOVAL_UNITS
from broker.replicas.upkeep import (
    FLUSH_UNITS,
    PRODUCERS_PER_UNIT,
    PRODUCERS_UNITS,
    RETENTION_UNITS,
    SEGMENT_UNITS,
    SEGMENTS_PER_CHECK,
)
from storage.errors import FsyncError
from tests.broker.metadata_log import D2, A, B
from tests.broker.record_hosts import START_MS, WALL_MS, Host, with_topics
from tests.storage.test_unified_log import produced

LONG_MS = 1 << 40
SIZE = len(produced(1).buffer)


def small_segments(**configs: str) -> Host:
    """A host of topic a with a segment for each record."""
    log = with_topics("a", internal_segment_bytes=str(SIZE), **configs)
    return Host(log).started()


# ---- producers ---------------------------------------------------------------------------------


def with_producers(check_ms: int) -> tuple[Host, list]:
    """A host with a log more than a turn looks at for producers, which expire after 700 s."""
    count = 11
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
    host.pass_ms(30_000)
    host.budget.units_max = (count - 1) * PRODUCERS_UNITS
    return host, [host.partition(number).log.producers for number in range(count)]


def test_producers_that_write_no_more_are_forgotten_at_the_check_of_each_10_minutes() -> None:
    host, producers = with_producers(UpkeepConfig().producer_check_ms)
    host.pass_ms(1_169_999)
    assert all(map(len, producers)), "the check before was too early for them"
    host._set(host.clock.now_ms + 1)
    assert host.is_due
    host.tick()
    assert sum(map(len, producers)) == 1, "a turn looks at some logs"
    assert host.is_due
    host.tick()
    assert sum(map(len, producers)) == 0


def test_a_check_of_producers_goes_on_before_the_next_and_without_logs_that_are_gone() -> None:
    host, producers = with_producers(800_000)
    host.pass_ms(769_999)
    host._set(host.clock.now_ms + 1)
    host.tick()
    host._set(host.clock.now_ms + 800_000)
    host.tick()
    assert sum(map(len, producers)) == 0
    assert host.next_ms() == host.clock.now_ms + 800_000, "it did not begin anew"
    host._set(host.clock.now_ms + 800_000)
    host.tick()
    host.log.remove()
    host.publish()
    host.tick()


def test_a_check_of_producers_costs_by_their_number() -> None:
    host = Host(with_topics("a")).started()
    for producer_id in range(PRODUCERS_PER_UNIT):
        host.partition().append_as_leader(
            produced(WALL_MS, producer=producer_id), required_acks=1, wall_ms=WALL_MS, now_ms=0
        )
    check = host.local.upkeep._producers
    host.budget.begin()
    check.begin()
    check.go_on()
    assert host.budget.spent == PRODUCERS_UNITS + 1
    check.begin()
    host.log.remove()
    host.publish()
    host.budget.begin()
    check.go_on()
    assert host.budget.spent == PRODUCERS_UNITS


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


def test_a_turn_looks_at_the_flushes_of_some_logs() -> None:
    host = Host(with_topics("a", partitions=LISTED_PER_UNIT)).started()
    host.budget.begin()
    check, spent = host.local.upkeep._old_flushes, []
    check.begin()
    assert host.budget.spent == 1
    host.budget.units_max = FLUSH_UNITS * (LISTED_PER_UNIT - 1)
    while check.is_busy:
        host.budget.begin()
        check.go_on()
        spent.append(host.budget.spent)
    assert spent == [host.budget.units_max, FLUSH_UNITS]


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
    assert host.replicas.calls[-2] == ("check", (A, 0)), "a low watermark may have risen"
    assert host.replicas.calls[-1] == ("log_start_raised", (A, 0)), "its leader is told"
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
    assert host.next_ms() == host.clock.now_ms + 1
    host.pass_ms(1)
    assert not any(name.endswith(".deleted") for name in host.vfs.list("/1/a-0"))


def test_a_turn_removes_some_files() -> None:
    host = small_segments(retention_ms="1", file_delete_delay_ms="5000")
    host.pass_ms(29_990)
    host.append(2)
    host.pass_ms(10)
    due = list(host.local.manager._due)
    host._set(host.clock.now_ms + 4_999)
    assert not host.local.upkeep._removals.is_busy
    host._set(host.clock.now_ms + 1)
    assert host.is_due
    host.budget.units_max = REMOVAL_UNITS + 1
    host.budget.begin()
    host.local.upkeep._removals.go_on()
    assert len(due) - len(host.local.manager._due) == 2
    assert host.budget.spent == 2 * REMOVAL_UNITS
    host.budget.units_max = 1_000
    host.tick()
    assert host.local.manager._due == []
    assert not host.local.upkeep._removals.is_busy


def test_a_disk_that_refuses_a_removal_is_offline() -> None:
    host = small_segments(retention_ms="1", file_delete_delay_ms="5000")
    host.pass_ms(29_990)
    host.append(2)
    host.pass_ms(10)
    host._set(host.clock.now_ms + 6_000)
    assert host.local.upkeep._removals.is_busy, "also late"
    host.vfs.failing = lambda kind, path: errno.EIO if path.endswith(".deleted") else None
    host.tick()
    host.work()
    assert [one.path for one in host.taken(DirectoryFailed)] == ["/1"]


def test_nothing_is_removed_before_the_logs_are_loaded_and_behind_a_stop() -> None:
    log = with_topics("a", "b", file_delete_delay_ms="0")
    host = Host(log).started()
    log.remove()
    host.publish()
    host.work()
    assert host.is_due
    host.leave()
    assert not host.local.upkeep.is_busy
    assert host.local.upkeep.next_ms() is None
    again = Host(with_topics("b"), host.vfs, log_segment_delete_delay_ms="0")
    again.publish()
    again.work_one()
    assert again.local.manager.next_removal_ms == again.clock.wall_ms
    assert not again.local.upkeep.is_busy
    again.work()
    assert again.local.upkeep.is_busy


def test_a_tick_begins_one_kind_of_upkeep() -> None:
    """The one that waits for the longest time: each lists all logs."""
    host = Host(with_topics("a")).started()
    upkeep = host.local.upkeep
    host._set(host.clock.now_ms + 40_000)
    before = dict(upkeep._due_ms)
    begun = []
    for _ in range(3):
        upkeep.tick()
        begun += [name for name in before if upkeep._due_ms[name] != before[name]]
        before = dict(upkeep._due_ms)
        assert host.is_due
    assert begun == ["high_watermarks", "retention", "flush"]
    assert upkeep._due_ms["retention"] == host.clock.now_ms + 300_000


def test_the_kinds_of_upkeep_go_on_by_turns() -> None:
    host = Host(with_topics("a", partitions=3)).started()
    host._set(host.clock.now_ms + 30_000)
    upkeep, told = host.local.upkeep, []
    host.begin()
    host.budget.units_max = 1
    for _ in range(5):
        host.budget.begin()
        first = upkeep._parts[0]
        upkeep.go_on()
        told.append((first, upkeep._parts[-1]))
    epochs, checkpoints, retention = upkeep.epochs, upkeep._checkpoints, upkeep._retention
    assert [ran for _, ran in told] == [
        epochs,
        checkpoints,
        retention,
        upkeep._old_flushes,
        checkpoints,
    ], "the epochs are written"


def test_a_turn_deletes_some_segments() -> None:
    host = small_segments(retention_ms="1")
    host.pass_ms(29_990)
    host.append(2 * SEGMENTS_PER_CHECK + 2)
    host._set(host.clock.now_ms + 10)
    host.begin()
    host.budget.units_max = SEGMENTS_PER_CHECK * SEGMENT_UNITS
    starts = []
    for _ in range(3):
        host.tick()
        starts.append(host.partition().log.log_start_offset)
        host.work()
        assert host.is_due is (len(starts) < 3)
    assert starts == [SEGMENTS_PER_CHECK, 2 * SEGMENTS_PER_CHECK, 2 * SEGMENTS_PER_CHECK + 2]


def test_a_turn_looks_at_some_logs() -> None:
    """At fewer where logs have many segments, and old ones."""
    upkeep = UpkeepConfig(recovery_point_ms=LONG_MS, log_start_ms=LONG_MS)
    log = with_topics("a", partitions=3, retention_ms="1", internal_segment_bytes=str(SIZE))
    host = Host(log, upkeep=upkeep).started()
    host.pass_ms(329_990)
    for number in (0, 2):
        host.append(2, number=number)
    host._set(host.clock.now_ms + 10)
    host.begin()
    retention, spent = host.local.upkeep._retention, []
    host.budget.units_max = 1
    host.replicas.calls.clear()
    while retention.is_busy:
        host.budget.begin()
        retention.go_on()
        spent.append(host.budget.spent)
    assert spent == [RETENTION_UNITS + 1 + 2 * SEGMENT_UNITS, RETENTION_UNITS, spent[0]]
    assert [each[1] for each in host.replicas.calls if each[0] == "check"] == [(A, 0), (A, 2)]


def test_a_log_with_more_to_delete_is_looked_at_behind_the_others() -> None:
    host = Host(with_topics("a", partitions=2)).started()
    check = host.local.upkeep._retention
    check.begin()
    check.again(("b", 0))
    assert list(check._left) == [("a", 0), ("a", 1), ("b", 0)]
    check.go_on()
    assert not check.is_busy, "b is gone"


def test_a_disk_that_fails_in_a_check_of_retention_is_offline() -> None:
    host = small_segments(retention_ms="1000")
    host.append(3)
    host.vfs.failing = lambda kind, path: errno.EIO if kind == "rename" and "a-0" in path else None
    host.pass_ms(30_000)
    assert [one.path for one in host.taken(DirectoryFailed)] == ["/1"]


def test_nothing_is_due_before_the_logs_are_loaded() -> None:
    host = Host(with_topics("a"))
    assert host.next_ms() is None
    host.publish()
    assert host.next_ms() is None
    host.tick()
    host.work()
    assert host.is_due


def test_images_that_wait_at_a_stop_keep_nobody_busy() -> None:
    log = with_topics("a")
    host = Host(log).started()
    log.topic("b")
    host.local.publish(*log.take())
    assert host.local.is_busy
    host.leave()
    assert not host.local.is_busy


def idle() -> Host:
    """A host whose upkeep has done all that was due at its start."""
    host = Host(with_topics("a")).started()
    host.append()
    while host.is_due:
        host.tick()
        host.work()
    return host


def test_recovery_points_go_on_at_the_end_of_the_write_that_they_wait_for() -> None:
    host = idle()
    upkeep = host.local.upkeep
    host.partition().log.log.assign_epoch(7, 1)
    upkeep.note_epochs(("a", 0))
    assert upkeep.is_busy
    upkeep.go_on()
    upkeep._checkpoints.begin(OffsetsKind.RECOVERY_POINTS)
    upkeep.epochs._directories["/1"].waiting.clear()
    while upkeep.is_busy:  # the other log directory goes on
        upkeep.go_on()
    host.work_one()
    assert upkeep.is_busy


def test_upkeep_looks_for_something_to_do_only_once_something_has_happened() -> None:
    host = idle()
    upkeep, asked = host.local.upkeep, []

    class Asked:
        @property
        def is_busy(self) -> bool:
            asked.append(1)
            return len(asked) == 2

    upkeep._parts.append(Asked())
    host.append()
    upkeep.note_epochs(("a", 0))
    assert not upkeep.is_busy
    assert asked == [], "the epochs of the log did not change"
    upkeep.tick()
    assert [upkeep.is_busy for _ in range(2)] == [False, False]
    upkeep.tick()
    assert [upkeep.is_busy for _ in range(3)] == [True, False, False]
    assert len(asked) == 3, "while something is busy it looks again"
