"""Moves of replicas between two log directories: copying, the swap, crashes, and what ends them."""

import errno
from typing import Any

import pytest

from broker.config import UpkeepConfig
from broker.effects import Lane
from metadata.features import LEVEL_DIRECTORIES
from metadata.records import FeatureLevelRecord
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import OutOfSpaceError
from storage.log_dir.partition_metadata import write_partition_metadata
from storage.segments.segment import segment_name
from tests.broker.metadata_log import D1, D2, A, B, MetadataLog
from tests.broker.record_hosts import Host, with_topics
from tests.storage.golden import put
from tests.storage.test_legacy_logs import MIXED, SEGMENT
from tests.storage.test_unified_log import produced

KEY = (A, 0)
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def moving(host: Host, path: str = "/2") -> list[bool]:
    started: list[bool] = []
    name = ("a", 0)
    host.local.moves.start(KEY, name, host.partition(), path, started.append)
    return started


def assign_only(host: Host, directory: bytes = D2) -> None:
    host.log.change(directories=(directory,))
    host.publish()


def assign(host: Host, directory: bytes = D2) -> None:
    assign_only(host, directory)
    host.work()


def begun(records: int = 5, **configs: str) -> Host:
    host = Host(with_topics("a", **configs)).started()
    host.append(records)
    assert moving(host) == []
    host.work()
    return host


def contents(host: Host) -> bytes:
    return contents_at(host, host.partition().log.log_start_offset)


def contents_at(host: Host, offset: int) -> bytes:
    """The batches of one segment from an offset on."""
    log = host.local.manager.get("a", 0)
    assert log is not None
    return log.log.read(offset, 1 << 20)


def test_a_replica_is_copied_assigned_and_replaced() -> None:
    host = begun()
    before = contents(host)
    [move] = host.local.moves.in_directory("/2")
    assert (move.copy.end_offset, move.lag, move.is_assigned) == (5, 0, True)
    assert host.local.log_dir_of(KEY) == "/1", "before it is assigned"
    host.pass_ms(200)
    assert len(host.asked) == 1
    assign(host)
    assert host.local.log_dir_of(KEY) == "/2"
    assert contents(host) == before
    host.append(2)
    assert host.partition().log.end_offset == 7
    assert host.vfs.exists("/2/a-0")
    assert not any(name == "a-0" for name in host.vfs.list("/1"))
    host.pass_ms(200)
    assert len(host.asked) == 1, "nothing else is told"
    assert restarted(host).partition().log.end_offset == 7


def test_it_is_written_meanwhile() -> None:
    host = Host(with_topics("a")).started()
    host.append(5)
    moving(host)
    while host.works:
        host.work_one()
        if host.partition().log.end_offset < 20:
            log = host.partition()
            works, host.works[:] = host.works[:], []
            host.append()
            host.works[:0] = works
            assert log.log.end_offset <= 20
    assign(host)
    assert host.local.log_dir_of(KEY) == "/2"
    assert host.partition().log.end_offset == host.partition().role.high_watermark
    assert host.partition().log.end_offset > 5


def test_records_that_a_copy_lacks_are_copied_first_when_it_is_assigned() -> None:
    host = begun()
    works = len(host.works)
    host.partition().append_as_leader(produced(1), required_acks=1, wall_ms=1, now_ms=1)
    host.log.change(directories=(D2,))
    host.publish()
    assert host.local.log_dir_of(KEY) == "/1"
    assert len(host.works) > works
    host.work()
    assert host.local.log_dir_of(KEY) == "/2"
    assert host.partition().log.end_offset == 6


def test_a_truncation_of_the_replica_reaches_its_copy() -> None:
    host = begun()
    log = host.partition().log
    log.truncate_to(3, 1)
    host.append(1)
    [move] = host.local.moves.in_directory("/2")
    assert move.copy.end_offset == 4
    assert move.copy.log.read(0, 1 << 20) == log.log.read(0, 1 << 20)


def test_a_copy_to_be_truncated_does_not_replace_its_log() -> None:
    host = begun()
    host.partition().log.truncate_to(3, 1)
    wall_ms = host.clock.wall_ms
    again = produced(wall_ms)
    host.partition().append_as_leader(again, required_acks=1, wall_ms=wall_ms, now_ms=1)
    assign_only(host)
    assert host.local.log_dir_of(KEY) == "/1"
    before = contents(host)
    host.work()
    assert host.local.log_dir_of(KEY) == "/2"
    assert contents(host) == before


def test_the_log_start_is_that_of_the_replica() -> None:
    host = Host(with_topics("a")).started()
    host.append(5)
    host.partition().delete_records_on_leader(3)
    moving(host)
    host.work()
    [move] = host.local.moves.in_directory("/2")
    assert (move.copy.log_start_offset, move.copy.end_offset) == (3, 5)
    host.partition().delete_records_on_leader(4)
    assert host.partition().role.low_watermark == 3
    host.append(1)
    assert host.partition().role.low_watermark == 4


def test_a_move_to_elsewhere_ends_and_its_copy_goes() -> None:
    host = begun()
    host.pass_ms(200)
    assert host.local.moves.holds_assignment(KEY)
    host.local.end_move(KEY)
    host.work()
    assert not list(host.local.moves.in_directory("/2"))
    assert host.vfs.list("/2")
    assert all(name.endswith("-delete") for name in host.vfs.list("/2") if "a-0" in name)
    assert host.local.manager.future("a", 0) is None
    assert moving(host) == []
    host.work()
    assert host.local.moves.log_dir_of(KEY) == "/2"


def test_a_step_in_flight_ends_before_the_copy_goes() -> None:
    host = Host(with_topics("a")).started()
    host.append(5)
    started = moving(host)
    host.work_one()
    assert [lane for lane, *_ in host.works] == [Lane.MOVES]
    assert started == [True]
    host.local.end_move(KEY)
    again = moving(host)
    assert [lane for lane, *_ in host.works] == [Lane.MOVES]
    host.work()
    assert again == [True]
    [move] = host.local.moves.in_directory("/2")
    assert move.copy.end_offset == 5


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_copy_that_is_left_while_a_step_runs_is_not_gone_on_with(is_recreated: bool) -> None:
    host = Host(with_topics("a")).started()
    host.append(5)
    moving(host)
    host.work_one()
    [step] = host.works
    host.works.clear()
    if is_recreated:
        host.log.remove()
        host.publish()
        host.log.topic("a", B)
        host.publish()
    else:
        host.local.end_move(KEY)
        host.log.change(directories=(D1,))
        host.publish()
    host.work()
    assert host.local.moves.of((B, 0) if is_recreated else KEY) is None
    host.works.append(step)
    host.work()
    assert host.local.manager.futures == {}


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_copy_that_is_made_when_its_replica_has_gone_is_deleted(is_deleted: bool) -> None:
    host = Host(with_topics("a")).started()
    started = moving(host)
    if is_deleted:
        host.log.remove()
        host.publish()
    else:
        host.local.fail("/1", OSError("broken"))
    host.work()
    assert started == [False]
    assert host.local.moves.of(KEY) is None
    assert host.local.manager.futures == {}


def test_a_copy_that_is_made_while_the_broker_stops_is_for_its_next_start() -> None:
    host = Host(with_topics("a")).started()
    started = moving(host)
    host.stop()
    assert started == [False]
    assert restarted(host).local.moves.of(KEY) is not None


def test_a_deleted_topic_takes_its_copy_with_it() -> None:
    host = begun()
    host.log.remove()
    host.update()
    left = [name for path in ("/1", "/2") for name in host.vfs.list(path) if name.startswith("a")]
    assert len(left) == 2
    assert all(name.endswith("-delete") for name in left)
    assert host.local.manager.futures == {}


@pytest.mark.parametrize("failed", ["/1", "/2"])
def test_a_failed_directory_ends_the_move(failed: str) -> None:
    host = begun()
    host.local.fail(failed, OSError("broken"))
    host.work()
    assert host.local.moves.of(KEY) is None
    assert (host.partition().log is None) is (failed == "/1")
    host.pass_ms(200)


def test_a_disk_that_refuses_the_copy_goes_offline() -> None:
    host = Host(with_topics("a")).started()
    host.append(5)
    started = moving(host)
    host.vfs.failing = lambda _kind, path: errno.EIO if path.startswith("/2") else None
    host.work()
    assert started == [False]
    assert host.local.failed_log_dirs == {"/2"}
    assert host.local.log_dir_of(KEY) == "/1"


def test_a_log_start_inside_a_batch_is_that_of_the_copy_too() -> None:
    host = Host(with_topics("a")).started()
    wall_ms = host.clock.wall_ms
    host.partition().append_as_leader(
        produced(*[wall_ms] * 5), required_acks=1, wall_ms=wall_ms, now_ms=host.clock.now_ms
    )
    host.partition().delete_records_on_leader(3)
    moving(host)
    host.work()
    [move] = host.local.moves.in_directory("/2")
    assert (move.copy.log_start_offset, move.copy.end_offset) == (3, 5)
    assert move.copy.log.read(3, 1 << 20) == contents(host)


def test_a_full_disk_takes_the_new_directory_offline() -> None:
    host = Host(with_topics("a")).started()
    host.append(5)
    moving(host)
    host.work_one()
    work, done = host.works[0][2:]
    host.works.clear()
    assert work is not None
    done(OutOfSpaceError("/2"))
    host.work()
    assert host.local.failed_log_dirs == {"/2"}
    assert host.local.log_dir_of(KEY) == "/1"


def restarted(host: Host, vfs: MemoryVfs | None = None) -> Host:
    """A start behind a crash, with the log directory that the controller has assigned."""
    before = host.log.image.partition(*KEY)
    assert before is not None
    log = with_topics("a")
    log.change(directories=before.directories)
    return Host(log, vfs or host.vfs).started()


def test_a_start_goes_on_with_a_copy() -> None:
    host = Host(with_topics("a")).started()
    host.append(5)
    moving(host)
    host.work_one()
    again = restarted(host)
    [move] = again.local.moves.in_directory("/2")
    assert (move.copy.end_offset, again.local.log_dir_of(KEY)) == (5, "/1")
    assign(again)
    assert again.local.log_dir_of(KEY) == "/2"


def test_an_assigned_copy_that_lacks_records_goes_on_at_a_start() -> None:
    host = begun()
    partition: Any = host.partition()
    works = host.works
    host.local.moves.is_stopped = True
    host.append(3)
    host.log.change(directories=(D2,))
    assert not works
    again = restarted(host)
    assert again.partition().log.end_offset == 8
    assert again.local.log_dir_of(KEY) == "/2", "when it has them"
    assert partition.log.end_offset == 8


@pytest.mark.parametrize(("is_assigned", "end_offset"), [(False, 5), (True, 5), (False, 1)])
def test_what_is_behind_a_gap_of_a_copy_is_copied_again(is_assigned: bool, end_offset: int) -> None:
    """A power failure took a segment of the copy, which ends where the log ends."""
    size = str(len(produced(1).buffer))
    host = Host(with_topics("a", internal_segment_bytes=size)).started()
    host.append(5)
    moving(host)
    host.work()
    host.partition().log.truncate_to(end_offset, 1)
    before = [contents_at(host, offset) for offset in range(end_offset)]
    [name] = [name for name in host.vfs.list("/2") if name.startswith("a-0")]
    host.vfs.unlink(f"/2/{name}/{segment_name(2)}")
    log = with_topics("a", internal_segment_bytes=size)
    log.change(directories=(D2 if is_assigned else D1,))
    again = Host(log, host.vfs).started()
    assert again.logged("abandoned_future_log") == []
    if not is_assigned:
        [move] = again.local.moves.in_directory("/2")
        assert (move.copy.end_offset, move.lag) == (end_offset, 0)
        assign(again)
    assert again.local.log_dir_of(KEY) == "/2"
    assert [contents_at(again, offset) for offset in range(end_offset)] == before


@pytest.mark.parametrize("works", [0, 1, 2, 3])
def test_a_crash_between_the_swap_and_its_names_loses_nothing(works: int) -> None:
    host = begun()
    host.log.change(directories=(D2,))
    host.publish()
    partition: Any = host.partition()
    assert host.local.log_dir_of(KEY) == "/2"
    partition.append_as_leader(produced(1), required_acks=1, wall_ms=1, now_ms=1)
    for _ in range(works):
        host.work_one()
    again = restarted(host)
    assert again.partition().log.end_offset == 6
    assert again.local.log_dir_of(KEY) == "/2"
    assert again.vfs.exists("/2/a-0")


# ---- what other logs have, too -----------------------------------------------------------------


def test_a_copy_takes_the_settings_that_changed_meanwhile() -> None:
    host = begun()
    host.log.config("a", segment_bytes="1048577")
    host.update()
    assign(host)
    assert host.partition().log.log.config.segment_bytes == 1048577


def test_a_stop_closes_copies_and_records_their_ends() -> None:
    host = begun()
    assert host.stop().clean == ("/1", "/2")
    recorded = host.vfs.read("/2/recovery-point-offset-checkpoint")
    assert recorded == b"0\n1\na 0 5\n"
    again = Host(host.log, host.vfs, clean=("/1", "/2"))
    again.log.delta = with_topics("a").delta
    again.started()
    [move] = again.local.moves.in_directory("/2")
    assert (move.copy.end_offset, move.copy.log.flushed_end_offset) == (5, 5)


def test_a_copy_without_topic_id_is_a_stray() -> None:
    host = begun()
    [name] = [name for name in host.vfs.list("/2") if name.endswith("-future")]
    host.vfs.unlink(f"/2/{name}/partition.metadata")
    again = restarted(host)
    assert not again.vfs.exists(f"/2/{name}")
    assert again.local.moves.of(KEY) is None


def test_a_log_of_old_messages_is_copied_with_index_files() -> None:
    vfs = MemoryVfs()
    put(vfs, f"/1/a-0/{SEGMENT}", MIXED)
    write_partition_metadata(vfs, "/1/a-0", A)
    host = Host(with_topics("a"), vfs).started()
    moving(host)
    host.work()
    assign(host)
    assert host.local.log_dir_of(KEY) == "/2"
    assert vfs.read(f"/2/a-0/{SEGMENT}") == MIXED
    endings = {name.rpartition(".")[2] for name in vfs.list("/2/a-0")}
    assert {"index", "timeindex"} < endings


def test_producers_that_write_no_more_are_not_in_the_copy() -> None:
    upkeep = UpkeepConfig(producer_expiration_ms=1_000)
    host = Host(with_topics("a", internal_segment_bytes="200"), upkeep=upkeep).started()
    for producer_id in range(6):
        old = produced(1, producer=producer_id)
        host.partition().append_as_leader(old, required_acks=1, wall_ms=1, now_ms=1)
    moving(host)
    host.work()
    [move] = host.local.moves.in_directory("/2")
    assert move.copy.end_offset == 6
    assert len(move.copy.producers) < len(host.partition().log.producers)


def test_a_bound_of_the_rate_delays_the_next_step() -> None:
    log = with_topics("a")
    log.broker_config(RATE, "1")
    host = Host(log).started()
    host.append(5)
    moving(host)
    host.work()
    host.append(1)
    [move] = host.local.moves.in_directory("/2")
    assert move.copy.end_offset == 5
    assert host.local.next_ms() is not None
    log.broker_config(RATE, None)
    host.update()
    assert move.copy.end_offset == 6


def throttled(bytes_per_second: int) -> Host:
    """A copy of 5 records that lacks one, which the rate does not allow now."""
    log = with_topics("a", partitions=2)
    log.broker_config(RATE, str(bytes_per_second))
    host = Host(log).started()
    host.append(5)
    moving(host)
    host.work()
    host.append(1)
    return host


def test_an_append_does_not_put_off_the_next_step() -> None:
    host = throttled(1)
    due_ms = host.local.moves.next_ms()
    host._set(host.clock.now_ms + 500)
    host.append(1)
    assert host.local.moves.next_ms() == due_ms == host.clock.now_ms + 500


def test_a_move_that_has_all_does_not_end_the_delay_of_another() -> None:
    host = throttled(100)
    host._set(host.clock.now_ms + 10_000)
    host.local.moves.start((A, 1), ("a", 1), host.partition(1), "/2", lambda _: None)
    host.work()
    assert host.local.moves.is_due
    host.local.moves.tick()
    assert [lane for lane, *_ in host.works] == [Lane.MOVES]
    host.work_one()
    [(_, _, lag), _] = host.local.moves.futures_in("/2")
    assert lag == 0


def without_directories() -> MetadataLog:
    log: MetadataLog = with_topics("a")
    level = LEVEL_DIRECTORIES - 1
    log.write(FeatureLevelRecord(name="metadata.version", feature_level=level))
    return log


def test_without_directories_in_the_metadata_a_start_goes_on_with_a_copy_too() -> None:
    host = Host(without_directories()).started()
    host.append(5)
    moving(host)
    host.work_one()
    again = Host(without_directories(), host.vfs).started()
    assert again.local.log_dir_of(KEY) == "/2"
    assert again.logged("abandoned_future_log") == []
    assert contents(again) == contents(host)


@pytest.mark.parametrize("records", [0, 5])
def test_without_directories_in_the_metadata_nothing_is_assigned(records: int) -> None:
    host = Host(without_directories()).started()
    host.append(records)
    moving(host)
    host.work()
    assert host.local.log_dir_of(KEY) == "/2"
