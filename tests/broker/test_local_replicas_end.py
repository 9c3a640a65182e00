"""Local replicas: disks that fail, settings that change, the end."""

import errno

import pytest

from broker.config import UpkeepConfig
from broker.effects import DirectoryFailed, Lane, Ready, Stopped
from broker.replicas.image_queue import Change
from broker.replicas.log_closing import CLOSERS
from replication.leader.leadership import Changed
from replication.roles import Offline
from tests.broker.metadata_log import D1, D2, A, B
from tests.broker.record_hosts import SLICE_UNITS, Host, registered, with_topics
from tests.storage.test_unified_log import produced
from wire.errors import ErrorCode
from wire.types import DIRECTORY_UNASSIGNED

# ---- failures ----------------------------------------------------------------------------------


def test_a_failed_directory_takes_its_partitions_and_the_last_one_the_node() -> None:
    log = with_topics("a", replicas=(2, 1), leader=2)
    log.topic("b", directory=D2)
    host = Host(log).started()
    host.local.disk_failed((A, 0), OSError("broken"))
    assert host.taken(DirectoryFailed) == [DirectoryFailed("/1", "broken", is_last=False)]
    assert host.partition().role.code is ErrorCode.kafka_storage_error
    assert host.replicas.fetched == {}
    assert host.replicas.calls[-1] == ("check", (A, 0))
    host.local.fail("/1", OSError("again"))
    host.local.disk_failed((A, 0), OSError("again"))
    assert host.taken(DirectoryFailed) == []
    host.local.fail("/2", OSError("too"))
    assert host.taken(DirectoryFailed) == [DirectoryFailed("/2", "too", is_last=True)]
    assert host.stop().clean == ()


def test_a_new_partition_of_an_offline_directory_is_offline() -> None:
    host = Host(registered()).started()
    host.local.fail("/1", OSError("broken"))
    host.log.topic("a", directory=D1)
    host.log.topic("b", directory=DIRECTORY_UNASSIGNED)
    host.update()
    assert host.partition().role == Offline(ErrorCode.kafka_storage_error)
    assert host.local.log_dir_of((B, 0)) == "/2"


def test_a_directory_that_fails_while_a_log_is_created() -> None:
    host = Host(registered()).started()
    host.log.topic("a")
    host.publish()
    host.local.fail("/1", OSError("broken"))
    host.work()
    assert host.partition().role == Offline(ErrorCode.kafka_storage_error)
    assert host.logged("log_not_created") == []


def test_a_deletion_in_an_offline_directory_lets_the_partition_go() -> None:
    host = Host(with_topics("a")).started()
    host.local.fail("/1", OSError("broken"))
    host.log.remove()
    host.update()
    assert host.replicas.partitions == {}
    assert host.vfs.exists("/1/a-0")


# ---- settings and end --------------------------------------------------------------------------


def test_settings_that_change_hold_at_once() -> None:
    host = Host(with_topics("a", replicas=(1, 2))).started()
    host.append()
    assert host.partition().log.high_watermark == 0
    host.log.config("a", min_insync_replicas="2", cleanup_policy="compact", segment_bytes="1048577")
    host.update()
    assert host.partition().role.min_insync_replicas == 2
    assert host.partition().log.log.config.segment_bytes == 1048577
    assert host.partition().delete_records_on_leader(-1) is ErrorCode.policy_violation
    host.log.broker_config("log.index.interval.bytes", "17")
    host.update()
    assert host.partition().log.log.config.index_interval_bytes == 17


def test_logs_are_opened_with_the_settings_of_the_first_image() -> None:
    host = Host(with_topics("a")).started()
    host.append()
    host.stop()
    again = Host(with_topics("a", segment_bytes="1048578"), host.vfs).started()
    assert again.partition().log.log.config.segment_bytes == 1048578


def test_settings_that_change_while_logs_are_opened_hold_when_they_are() -> None:
    host = Host(with_topics("a")).started()
    host.stop()
    again = Host(with_topics("a", segment_bytes="1048578"), host.vfs)
    again.publish()
    again.log.config("a", segment_bytes="1048579")
    again.publish()
    again.work()
    assert again.partition().log.log.config.segment_bytes == 1048579


def test_high_watermarks_that_rise_by_a_role_or_a_setting_are_told() -> None:
    host = Host(with_topics("a")).started()
    host.append(2)
    again = Host(with_topics("a"), host.vfs).started()
    raised = ("took", (A, 0), Changed(high_watermark_raised=True))
    assert raised in again.replicas.calls, "none was recorded, and it is the only replica"
    again.replicas.calls.clear()
    again.log.config("a", min_insync_replicas="2")
    again.update()
    assert again.replicas.calls == [("took", (A, 0), Changed())]


def test_a_stop_waits_for_what_runs_and_takes_no_image_any_more() -> None:
    host = Host(with_topics("a")).started()
    host.log.topic("b")
    host.publish()
    host.leave()
    assert len(host.works) == 1
    assert host.replicas.partitions == {}
    host.log.remove()
    host.publish()
    assert host.local.next_ms() is None
    host.local.tick()
    host.work()
    assert host.effects[-1].clean == ("/1", "/2")
    assert host.local.manager.directories == {}


def test_a_stop_leaves_some_partitions_in_a_turn_and_then_closes_the_logs() -> None:
    per_turn = SLICE_UNITS // Change.PARTITION
    log = with_topics("a", partitions=2 * per_turn + 1)
    log.topic("b", directory=D2)
    log.topic("c", b"c" * 16, replicas=(2, 1), leader=2)
    host = Host(log).started()
    host.local.fail("/2", OSError())
    assert len(host.replicas.fetched) == 1
    host.local.stop()
    counts = []
    while host.local.is_busy:
        host.turn()
        counts.append(len(host.replicas.partitions))
        assert bool(host.works) is (counts[-1] == 0)
        assert len(host.local.hosted) == counts[-1]
    assert counts == [per_turn + 3, 3, 0]
    assert (host.replicas.fetched, host.local.offline_count) == ({}, 0)
    assert host.local._all._key_of == {}
    host.work()
    assert host.effects[-1] == Stopped(("/1",))


def test_a_partition_that_is_not_left_yet_serves_and_may_fail() -> None:
    host = Host(with_topics("a", flush_messages="1")).started()
    host.local.stop()
    log = host.partition().log
    host.partition().append_as_leader(produced(1), required_acks=1, wall_ms=1, now_ms=1)
    host.local.appended((A, 0))
    [(_, _, flush, done)] = host.works
    flush()
    done(None)
    host.works.clear()
    assert log.log.flushed_end_offset == 1
    host.local.fail("/1", OSError())
    host.apply()
    host.work()
    assert host.effects[-1] == Stopped(("/2",))


def test_a_stop_before_all_logs_are_open_leaves_a_directory_unclean() -> None:
    host = Host(with_topics("a", partitions=3)).started()
    host.stop()
    upkeep = UpkeepConfig(recovery_threads=1)
    again = Host(with_topics("a", partitions=3), host.vfs, upkeep=upkeep)
    again.publish()
    again.work_one()
    assert again.stop().clean == ("/2",)
    assert again.taken(Ready) == []


def test_views_for_the_answers_about_log_directories() -> None:
    log = with_topics("a", partitions=2)
    log.topic("b", directory=D2)
    host = Host(log).started()
    host.append()
    assert list(host.local.logs_in("/1")) == [("a", 0), ("a", 1)]
    assert host.local.logs_in("/3") is None
    assert host.local.hosted.keys() == {(A, 0), (A, 1), (B, 0)}
    assert host.local.log_dir_of((B, 0)) == "/2"
    assert host.local.log_dir_of((B, 1)) is None


def test_a_directory_that_cannot_be_closed_is_not_clean() -> None:
    host = Host(with_topics("a")).started()
    host.append()
    host.leave()
    host.vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and "/1/a-0" in path else None
    host.work()
    assert host.effects[-1] == Stopped(("/2",))
    (told,) = host.logged("logs_not_closed")
    assert told["path"] == "/1"
    assert host.local.manager.directories == {}


def test_several_threads_close_the_logs_of_a_directory_and_one_records_behind_them() -> None:
    host = Host(with_topics("a", partitions=CLOSERS + 2)).started()
    host.append(2, number=3)
    host.leave()
    names = [(lane, name) for lane, name, _, _ in host.works]
    assert names == [*((Lane.FILES, f"/1:{n}") for n in range(CLOSERS)), (Lane.FILES, "/2:0")]
    host.work_one(1)
    host.work_one(0)
    assert len(host.works) == CLOSERS - 1, "nothing is recorded while a thread closes logs"
    while len(host.works) > 1:
        host.work_one()
    ((_, name, _, _),) = host.works
    assert name in ("/1", "/2")
    host.work()
    assert host.effects[-1].clean == ("/1", "/2")
    again = Host(with_topics("a", partitions=CLOSERS + 2), host.vfs, clean=("/1",)).started()
    assert again.partition(3).log.end_offset == again.partition(3).log.high_watermark == 2


@pytest.mark.parametrize("failing", [0, CLOSERS])
def test_one_log_that_cannot_be_closed_leaves_the_directory_unclean(failing: int) -> None:
    host = Host(with_topics("a", partitions=CLOSERS + 1), dirs=("/1",)).started()
    host.append(number=failing)
    host.leave()
    broken = f"/1/a-{failing}/"
    host.vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and broken in path else None
    host.work_one()
    assert not host.logged("logs_not_closed"), "other threads close logs still"
    host.work()
    assert host.effects[-1] == Stopped(())
    assert len(host.logged("logs_not_closed")) == 1
    assert not host.vfs.exists("/1/recovery-point-offset-checkpoint"), "nothing is recorded"


def test_a_thread_that_ends_well_does_not_hide_the_error_of_another() -> None:
    host = Host(with_topics("a", partitions=2), dirs=("/1",)).started()
    host.leave()
    errors = iter([errno.EIO])
    host.vfs.failing = lambda kind, _: next(errors, None) if kind == "sync" else None
    host.work()
    assert host.effects[-1] == Stopped(())


def test_a_log_that_was_not_used_since_a_clean_start_is_closed_without_a_sync() -> None:
    host = Host(with_topics("a", partitions=2)).started()
    host.append(number=0)
    host.stop()
    again = Host(with_topics("a", partitions=2), host.vfs, clean=("/1", "/2")).started()
    synced: list[str] = []
    again.vfs.failing = lambda kind, path: synced.append(path) if "sync" in kind else None
    again.stop()
    assert [path for path in synced if "/a-0" in path] == []


def test_a_stop_before_the_first_image_is_over_at_once() -> None:
    host = Host(registered(), clean=("/1",))
    assert host.stop() == Stopped(("/1",)), "nothing was changed in a directory that was clean"
    host = Host(with_topics("a"), clean=("/1",)).started()
    assert host.stop() == Stopped(("/1", "/2")), "each is told once"


def test_a_stop_while_logs_are_looked_for_opens_none() -> None:
    host = Host(with_topics("a")).started()
    host.stop()
    again = Host(with_topics("a"), host.vfs)
    again.publish()
    assert again.stop() == Stopped(("/2",))
    assert again.replicas.partitions == {}
