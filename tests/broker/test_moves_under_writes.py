"""Moves of replicas between log directories under writes: flushes around the swap, last records."""

import errno

import pytest

from broker.effects import Lane
from broker.replicas.replica_moves import LAST_BYTES_MAX
from replication.leader.leadership import Changed
from tests.broker.metadata_log import D2
from tests.broker.record_hosts import Host
from tests.broker.replicas.test_replica_moves import KEY, assign_only, begun, contents, restarted
from tests.storage.test_legacy_logs import SEGMENT
from tests.storage.test_unified_log import produced

# ---- flush.messages ----------------------------------------------------------------------------


def append_awaited(host: Host, value: bytes = b"v") -> list[bool]:
    """Append a record, whose answer waits for its flush; what it is told is returned."""
    batch = produced(1, value=value)
    host.partition().append_as_leader(batch, required_acks=1, wall_ms=1, now_ms=1)
    told: list[bool] = []
    host.local.appended(KEY, lambda: told.append)
    return told


def work_until_told(host: Host, told: list[bool]) -> None:
    while not told:
        host.work_one()
    assert host.partition().log.log.flushed_end_offset > 5, "it is told behind the flush"


@pytest.mark.parametrize("works", [0, 1])
def test_an_answer_waits_until_the_new_log_has_its_name_and_is_flushed(works: int) -> None:
    host = begun(flush_messages="1")
    host.log.change(directories=(D2,))
    host.publish()
    assert host.local.log_dir_of(KEY) == "/2"
    for _ in range(works):
        host.work_one()
    first, second = append_awaited(host), append_awaited(host)
    assert (first, second) == ([], [])
    work_until_told(host, first)
    host.work()
    assert (first, second) == ([True], [True])
    host.append(1)
    assert host.partition().log.log.flushed_end_offset == 8


def test_an_answer_that_waits_for_the_log_before_waits_for_its_copy() -> None:
    host = begun(flush_messages="1")
    told = append_awaited(host)
    assert [lane for lane, *_ in host.works] == [Lane.FLUSH, Lane.MOVES]
    host.work_one(1)
    assign_only(host)
    assert host.local.log_dir_of(KEY) == "/2"
    host.work_one()
    assert told == [], "the flush was that of the log before"
    work_until_told(host, told)
    host.work()
    assert told == [True]


def test_a_flush_of_the_log_before_that_ends_late_answers_nobody() -> None:
    host = begun(flush_messages="1")
    told = append_awaited(host)
    late, move = host.works
    host.works[:] = [move]
    host.work_one()
    assign_only(host)
    while Lane.FLUSH not in [lane for lane, *_ in host.works]:
        host.work_one()
    assert host.local.manager.is_settling(("a", 0)) is False
    host.works.insert(0, late)
    host.work_one()
    assert told == [], "the copy is not flushed"
    host.work()
    assert told == [True]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_answer_that_waits_for_a_log_that_goes_is_an_error(is_deleted: bool) -> None:
    host = begun(flush_messages="1")
    assign_only(host)
    told = append_awaited(host)
    if is_deleted:
        host.log.remove()
        host.publish()
    else:
        host.local.fail("/2", OSError("broken"))
    host.work()
    assert told == [False]


def test_a_flush_that_a_roll_asks_for_follows_the_names() -> None:
    host = begun(internal_segment_bytes="200")
    assign_only(host)
    told = append_awaited(host)
    append_awaited(host)
    log = host.partition().log
    assert log.has_rolled
    host.work()
    assert (told, log.has_rolled) == ([], False)
    assert log.log.flushed_end_offset == 7


# ---- a log that is always written --------------------------------------------------------------


def work_written(host: Host, value: bytes = b"v") -> None:
    """Run a step of copying, while which a record is appended."""
    append_awaited(host, value)
    assert [lane for lane, *_ in host.works] == [Lane.MOVES]
    host.work_one()


def test_a_log_that_is_always_written_is_replaced() -> None:
    host = begun()
    append_awaited(host)
    for _ in range(3):
        work_written(host)
    [move] = host.local.moves.in_directory("/2")
    assert (move.lag > 0, move.is_assigned) == (True, True)
    assign_only(host)
    assert host.local.log_dir_of(KEY) == "/1"
    before = contents(host)
    host.replicas.calls.clear()
    work_written(host)
    assert host.local.log_dir_of(KEY) == "/2"
    assert contents(host).startswith(before)
    assert host.partition().log.end_offset == 10
    assert host.partition().role.low_watermark == 0
    took = ("took", KEY, Changed(low_watermark_raised=True))
    assert host.replicas.calls == [took, took], "behind the step, and behind the last records"
    host.append(1)
    assert restarted(host).partition().log.end_offset == 11


def test_many_bytes_are_not_copied_by_the_step_that_replaces_a_log() -> None:
    host = begun(max_message_bytes=str(LAST_BYTES_MAX * 2))
    append_awaited(host)
    assign_only(host)
    work_written(host, bytes(LAST_BYTES_MAX))
    assert host.local.log_dir_of(KEY) == "/1"
    work_written(host)
    assert host.local.log_dir_of(KEY) == "/2"
    assert host.partition().log.end_offset == 8


def test_what_is_left_of_another_segment_is_not_copied_by_it() -> None:
    host = begun(internal_segment_bytes="200")
    append_awaited(host)
    assign_only(host)
    moves = [each for each in host.works if each[0] is Lane.MOVES]
    for _ in range(4):
        append_awaited(host)
    host.work_one(host.works.index(moves[0]))
    assert host.local.log_dir_of(KEY) == "/1"
    host.work()
    assert host.local.log_dir_of(KEY) == "/2"
    assert host.partition().log.end_offset == 10


def test_a_disk_that_fails_at_the_last_records_goes_offline() -> None:
    host = begun()
    append_awaited(host)
    assign_only(host)
    append_awaited(host)
    [(_, _, work, done)] = host.works
    host.works.clear()
    work()
    host.vfs.failing = lambda kind, path: errno.EIO if kind == "write" and "/2/" in path else None
    done(None)
    assert host.local.failed_log_dirs == {"/2"}
    assert host.local.log_dir_of(KEY) == "/1"
    assert host.local.moves.of(KEY) is None


def test_a_damaged_batch_is_not_copied_and_told_once() -> None:
    host = begun()
    host.append(1)
    append_awaited(host)
    append_awaited(host)
    path = f"/1/a-0/{SEGMENT}"
    host.vfs.damage(path, host.vfs.size(path) - 2, b"x")
    host.work()
    [move] = host.local.moves.in_directory("/2")
    assert (move.copy.end_offset, move.lag) == (7, 1)
    told = [{"log": "a-0", "offset": 7}]
    assert host.logged("log_not_copied") == told
    host.append(1)
    assert (host.works, host.logged("log_not_copied")) == ([], told)
    host.partition().log.truncate_to(7, 1)
    host.append(2)
    assign_only(host)
    assert host.local.log_dir_of(KEY) == "/2", "without it"
    assert host.partition().log.end_offset == 9


@pytest.mark.parametrize("sound", [0, 1])
def test_a_damaged_batch_is_not_copied_by_the_step_that_replaces_a_log(sound: int) -> None:
    host = begun()
    append_awaited(host)
    assign_only(host)
    for _ in range(sound + 1):
        append_awaited(host)
    path = f"/1/a-0/{SEGMENT}"
    host.vfs.damage(path, host.vfs.size(path) - 2, b"x")
    host.work()
    assert host.local.log_dir_of(KEY) == "/1"
    assert host.logged("log_not_copied") == [{"log": "a-0", "offset": 6 + sound}]


def test_a_step_that_a_truncation_overtakes_is_no_damage() -> None:
    host = begun()
    append_awaited(host)
    host.partition().log.truncate_to(5, 1)
    host.work()
    [move] = host.local.moves.in_directory("/2")
    assert (move.copy.end_offset, host.logged("log_not_copied")) == (5, [])
    host.append(1)
    assert move.copy.end_offset == 6


def test_a_disk_that_fails_at_the_flush_of_the_new_log_leaves_the_one_before() -> None:
    host = begun()
    assign_only(host)
    host.vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and "/2/" in path else None
    host.work()
    assert host.local.failed_log_dirs == {"/2"}
    assert host.partition().log is None
    assert host.vfs.exists("/1/a-0")


def test_a_power_failure_leaves_what_was_flushed() -> None:
    host, told = begun(flush_messages="1"), list[list[bool]]()
    host.vfs.sync_directory("/")
    for number in range(30):
        if number == 4:
            assign_only(host)
        if number < 20:
            told.append(append_awaited(host))
        lanes = [each[:2] for each in host.works]
        first = sorted({lanes.index(each) for each in lanes})  # one lane does its work in order
        if first:
            host.work_one(first[number // 2 % len(first)])
        again = restarted(host, host.vfs.crash())
        assert again.partition().log.end_offset >= 5 + sum(each == [True] for each in told)
    host.work()
    assert host.local.log_dir_of(KEY) == "/2"
    assert told == [[True]] * 20
