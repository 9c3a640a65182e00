"""Checkpoints of logs and files of leader epochs: when they are written, and in which order."""

import errno

import pytest

from broker.effects import DirectoryFailed, Lane
from broker.replicas.checkpoints import RECORD_UNITS, OffsetsKind
from broker.replicas.epoch_files import FILES_PER_WORK, LOOK_UNITS, WRITE_UNITS
from broker.replicas.log_check import LISTED_PER_UNIT
from storage.checkpoints.checkpoint_files import OffsetCheckpoint
from storage.errors import FsyncError
from tests.broker.metadata_log import D2, B
from tests.broker.record_hosts import Host, with_topics

POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"


def recorded(host: Host, name: str, path: str = "/1") -> dict:
    return dict(OffsetCheckpoint(host.vfs, path, name).offsets)


def test_high_watermarks_are_recorded_from_the_start_every_5_s() -> None:
    host = Host(with_topics("a")).started()
    host.append(2)
    assert host.is_due
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


def epoch_files(host: Host, count: int) -> list[bytes]:
    paths = [f"/1/a-{number}/leader-epoch-checkpoint" for number in range(count)]
    return [host.vfs.read(path) for path in paths if host.vfs.exists(path)]


def test_the_epochs_of_a_new_leader_are_written_before_it_has_records_a_few_at_a_time() -> None:
    host = Host(with_topics("a", partitions=20)).started()
    written = []
    for _ in range(3):
        assert host.is_due
        host.tick()
        assert len(epoch_files(host, 20)) == sum(written[-1:]), "a lane writes them"
        host.work()
        written.append(len(epoch_files(host, 20)))
    assert written == [FILES_PER_WORK, 2 * FILES_PER_WORK, 20]
    assert set(epoch_files(host, 20)) == {b"0\n1\n0 0\n"}
    assert host.next_ms() == host.clock.now_ms + 5_000


def test_other_work_of_the_lane_comes_between_the_epochs() -> None:
    host = Host(with_topics("a", partitions=20)).started()
    host.tick()
    begun = len(host.works)
    host.tick()
    assert len(host.works) == begun
    assert host.next_ms() == host.clock.now_ms + 5_000, "the end of the work is awaited"


def test_log_directories_wait_for_their_own_lanes() -> None:
    log = with_topics("a", partitions=2 * FILES_PER_WORK)
    log.topic("b", partitions=1, directory=D2)
    host = Host(log).started()
    epochs = host.local.upkeep.epochs
    host.budget.units_max = 10_000
    host.budget.begin()
    epochs.go_on()
    assert [name for _, name, _, _ in host.works] == ["/1", "/2"]
    host.partition(0, B).log.log.assign_epoch(7, 0)
    epochs.note(("b", 0))
    host.work_one(1)
    epochs.go_on()
    assert [name for _, name, _, _ in host.works] == ["/1", "/2"]


def test_a_turn_looks_at_the_epochs_of_some_logs() -> None:
    host = Host(with_topics("a", partitions=5)).started()
    host.pass_ms(0)
    epochs = host.local.upkeep.epochs
    host.partition(4).delete_records_on_leader(0)
    host.partition(1).log.log.assign_epoch(7, 0)
    epochs.look_at_all("/1")
    host.budget.units_max = 2 * LOOK_UNITS
    spent = []
    while epochs.is_busy:
        host.budget.begin()
        epochs.go_on()
        spent.append(host.budget.spent)
        host.work()
    assert spent == [2 * LOOK_UNITS + WRITE_UNITS, 2 * LOOK_UNITS, LOOK_UNITS]
    assert epoch_files(host, 2)[1] == b"0\n1\n7 0\n"


def test_epochs_that_change_while_others_are_written_are_written_next() -> None:
    host = Host(with_topics("a")).started()
    host.tick()
    host.append()
    host.tick()
    host.partition().delete_records_on_leader(1)  # the first epoch begins there now
    host.work()
    assert epoch_files(host, 1) == [b"0\n1\n0 0\n"]
    host.append()
    host.pass_ms(0)
    assert epoch_files(host, 1) == [b"0\n1\n0 1\n"]


def test_epochs_that_are_noted_twice_are_written_once() -> None:
    host = Host(with_topics("a")).started()
    host.tick()
    host.works.clear()
    host.local.upkeep.epochs._directories["/1"].is_writing = False
    epochs = host.local.upkeep.epochs
    for _ in range(2):
        epochs.note(("a", 0))
    assert len(epochs._directories["/1"].waiting) == 1
    epochs.go_on()
    assert len(host.works) == 1
    for _ in range(2):
        epochs.note(("a", 0))
    host.work()
    assert epochs.is_busy
    epochs.go_on()
    assert host.works == [], "the file has them"


def test_a_log_that_is_not_open_or_has_the_epochs_of_its_file_is_not_looked_at() -> None:
    host = Host(with_topics("a")).started()
    host.pass_ms(0)
    epochs = host.local.upkeep.epochs
    epochs.note(("a", 0))
    epochs.note(("b", 0))
    assert not epochs.is_busy


def test_the_epochs_of_a_log_that_goes_before_they_are_written_are_left() -> None:
    host = Host(with_topics("a", "b")).started()
    host.log.remove()
    host.publish()
    host.tick()
    host.work()
    assert host.vfs.exists("/1/b-0/leader-epoch-checkpoint")
    assert host.taken(DirectoryFailed) == []


def test_the_epochs_of_a_log_whose_directory_is_renamed_are_written_behind_that() -> None:
    host = Host(with_topics("a")).started()
    host.pass_ms(0)
    epochs = host.local.upkeep.epochs
    host.partition().log.log.assign_epoch(7, 0)
    host.local.manager._settling.add(("a", 0))
    epochs.note(("a", 0))
    host.tick()
    assert host.works == []
    host.local.manager._settling.clear()
    epochs.note(("a", 0))
    host.tick()
    assert len(host.works) == 1


def settled(**configs: str) -> Host:
    """A host that has records in two logs, and nothing else to do for a while."""
    host = Host(with_topics("a", partitions=2, flush_messages="1", **configs)).started()
    for number in range(2):
        host.append(2, number)
    host.pass_ms(29_999)
    return host


def test_recovery_points_wait_for_the_epochs_below_them() -> None:
    host = settled()
    host.partition().delete_records_on_leader(1)  # its first epoch begins there now
    host._set(host.clock.now_ms + 1)
    host.begin()
    host.tick()
    host.tick()
    assert epoch_files(host, 2) == [b"0\n1\n0 0\n"] * 2
    for lane, _, work, _ in host.works:
        assert lane is Lane.FILES
        work()
    assert epoch_files(host, 2) == [b"0\n1\n0 1\n", b"0\n1\n0 0\n"]
    assert recorded(host, POINTS) == {}
    host.work()
    host.pass_ms(0)
    assert recorded(host, POINTS) == {("a", 0): 2, ("a", 1): 2}


def test_recovery_points_wait_until_all_logs_are_looked_at_and_other_offsets_do_not() -> None:
    host = settled()
    host._set(host.clock.now_ms + 1)
    host.begin()
    host.budget.units_max = LOOK_UNITS
    epochs, checkpoints = host.local.upkeep.epochs, host.local.upkeep._checkpoints
    host.budget.begin()
    epochs.go_on()
    assert epochs.is_behind("/1")
    host.works.clear()
    host.budget.units_max = 100
    host.budget.begin()
    checkpoints.go_on()
    assert not checkpoints.is_busy
    assert {kind for _, kind in checkpoints._taken} == {OffsetsKind.RECOVERY_POINTS}
    epochs.go_on()
    assert checkpoints.is_busy


def test_the_recovery_point_of_a_log_whose_epochs_are_not_written_stays() -> None:
    host = settled()
    host.partition().delete_records_on_leader(1)
    is_full = True
    host.vfs.failing = lambda kind, path: (
        errno.ENOSPC if is_full and "a-0/leader-epoch" in path else None
    )
    host.pass_ms(1)
    assert recorded(host, POINTS) == {("a", 1): 2}
    is_full = False
    host.pass_ms(59_999)
    assert recorded(host, POINTS) == {("a", 1): 2}
    host.pass_ms(1)
    assert recorded(host, POINTS) == {("a", 0): 2, ("a", 1): 2}


def test_a_turn_takes_the_offsets_of_some_logs() -> None:
    log = with_topics("a", partitions=5)
    log.topic("b", partitions=1, directory=D2)
    host = Host(log).started()
    host.pass_ms(0)
    for number in range(5):
        host.append(number=number)
    host._set(host.clock.now_ms + 5_000)
    host.local.upkeep.tick()
    checkpoints, done = host.local.upkeep._checkpoints, []
    host.budget.units_max = 2
    while checkpoints.is_busy:
        assert set(recorded(host, WATERMARKS).values()) == {0}
        host.budget.begin()
        checkpoints.go_on()
        done.append((host.budget.spent, len(host.works)))
    assert done == [(2, 0), (2, 0), (1 + RECORD_UNITS, 1), (1 + RECORD_UNITS, 2)]
    host.work()
    assert [recorded(host, WATERMARKS, path) for path in ("/1", "/2")] == [
        dict.fromkeys([("a", n) for n in range(5)], 1),
        {("b", 0): 0},
    ]


def test_to_begin_a_record_costs_by_the_logs_that_are_listed() -> None:
    host = Host(with_topics("a", partitions=2 * LISTED_PER_UNIT)).started()
    host.pass_ms(4_999)
    host._set(host.clock.now_ms + 1)
    host.budget.begin()
    host.local.upkeep.tick()
    assert host.budget.spent == 2 * RECORD_UNITS + 2
    assert not host.local.upkeep.epochs.is_busy, "those wait for recovery points only"


def test_a_log_that_goes_while_offsets_are_taken_is_left_out() -> None:
    host = Host(with_topics("a", "b")).started()
    host.pass_ms(4_999)
    host._set(host.clock.now_ms + 1)
    host.local.upkeep.tick()
    host.budget.units_max = 1
    host.budget.begin()
    host.local.upkeep._checkpoints.go_on()  # a-0 is taken
    host.log.remove()
    host.publish()
    host.budget.units_max = 100
    host.tick()
    host.work()
    assert recorded(host, WATERMARKS) == {("b", 0): 0}


def test_nothing_is_recorded_of_a_log_directory_that_fails_meanwhile() -> None:
    host = Host(with_topics("a", partitions=3)).started()
    host.pass_ms(4_999)
    host.partition(1).log.log.assign_epoch(7, 0)
    host.local.upkeep.epochs.note(("a", 1))
    host._set(host.clock.now_ms + 1)
    host.local.upkeep.tick()
    host.local.fail("/1", OSError())
    assert host.is_due, "the other one is there"
    host.tick()
    assert [name for _, name, _, _ in host.works] == ["/2"]
    host.work()
    assert host.next_ms() == host.clock.now_ms + 5_000


def test_a_record_that_still_runs_is_not_begun_again() -> None:
    host = Host(with_topics("a")).started()
    host.pass_ms(4_999)
    host._set(host.clock.now_ms + 1)
    host.tick()
    begun = len(host.works)
    assert begun == 2, "one for each log directory"
    host._set(host.clock.now_ms + 5_000)
    host.tick()
    assert len(host.works) == begun
    host.work()
    host._set(host.clock.now_ms + 5_000)
    host.tick()
    assert len(host.works) == begun


def test_a_full_disk_delays_a_record_and_a_broken_one_is_offline() -> None:
    host = Host(with_topics("a")).started()
    host.append()
    host.vfs.bytes_max = host.vfs.used_bytes()
    host.pass_ms(0)
    refused = [told["path"] for told in host.logged("log_upkeep_refused")]
    assert refused == ["/1", "/1", "/2"], "the epochs, and the offsets"
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
    host.tick()
    return host.works


def test_what_is_no_error_of_a_disk_is_raised() -> None:
    host = Host(with_topics("a")).started()
    _, _, _, done = _records(host)[0]
    with pytest.raises(ZeroDivisionError):
        done(ZeroDivisionError())
