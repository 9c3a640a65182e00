"""Failures of rounds of the log cleaner, and its checkpoints."""

import errno

import pytest

from broker.cleaning.log_cleaner import DEATHS_MAX
from broker.effects import DirectoryFailed, Lane, LogLevel
from storage.cleaner.session import (
    CleanerDiedError,
    RoundAbortedError,
    UnexpectedCleanerError,
)
from storage.errors import FsyncError, OutOfSpaceError
from tests.broker.cleaning.cleaner_hosts import (
    BACKOFF_MS,
    NAME,
    CleanerHost,
    filled,
    leftovers,
    state,
)
from tests.broker.record_hosts import with_topics
from tests.storage.golden import put

# -- failures -------------------------------------------------------------------------------------


def test_a_damaged_segment_leaves_the_partition_alone() -> None:
    host = filled()
    path = host.unified().log.segments[1].path
    host.vfs.damage(path, 70, b"\xff")
    host.look()
    host.work()
    (fields,) = host.logged("partition_uncleanable")
    assert (fields["log"], fields["path"], fields["position"]) == ("a-0", path, 0)
    assert "CRC" in fields["reason"]
    dirty_bytes = sum(each.size_bytes for each in host.unified().log.segments[:-1])
    assert host.cleaner.figures().uncleanable == {"/1": (1, dirty_bytes), "/2": (0, 0)}
    assert leftovers(host) == []
    host.look()
    assert len(host.sessions) == 1
    host.write((b"c", b"still written"))
    assert host.unified().end_offset == 9
    host.log.remove()
    host.update()
    assert host.cleaner.figures().uncleanable["/1"] == (0, 0)


def test_a_full_disk_delays_a_round() -> None:
    host = filled()
    host.fails.append(OutOfSpaceError("/1/a-0/x"))
    host.look()
    host.work()
    assert len(host.logged("log_not_cleaned")) == 1
    assert host.cleaner.next_ms() == host.clock.now_ms + BACKOFF_MS
    host.look()
    host.work()
    assert host.recorded() == {NAME: 6}


@pytest.mark.parametrize("error", [OSError(errno.EIO, "x"), FsyncError("/1", "x")])
def test_a_broken_disk_takes_the_log_directory_offline(error: BaseException) -> None:
    host = filled()
    host.fails.append(error)
    host.look()
    host.work()
    assert [each.path for each in host.taken(DirectoryFailed)] == ["/1"]


@pytest.mark.parametrize("sync", range(3))
def test_a_sync_of_a_swap_that_fails_takes_the_log_directory_offline(sync: int) -> None:
    host = filled()
    host.look()
    host.run_lane(Lane.CLEANER)
    for _ in range(sync):
        host.run_lane(Lane.FILES)
    host.vfs.failing = lambda kind, path: errno.EIO if (kind, path) == ("sync", "/1/a-0") else None
    host.work()
    assert [each.path for each in host.taken(DirectoryFailed)] == ["/1"]
    assert host.cleaner.states.state(NAME) is None


def test_an_error_of_the_program_is_not_hidden() -> None:
    host = filled()
    host.fails.append(UnexpectedCleanerError("boom"))
    host.look()
    host.work()
    (fields,) = host.logged("partition_uncleanable")
    assert fields["reason"] == "boom"


def test_an_aborted_step_says_nothing() -> None:
    host = filled()
    host.fails.append(RoundAbortedError())
    host.look()
    host.work()
    assert host.logged("partition_uncleanable") == []
    assert state(host) is None


def test_a_cleaner_that_dies_is_started_again_and_counted() -> None:
    host = filled()
    host.fails += [CleanerDiedError("killed"), CleanerDiedError("killed")]
    for deaths in (1, 2):
        host.look()
        host.work()
        figures = host.cleaner.figures()
        assert (figures.dead_threads, figures.died) == (1, deaths)
        assert host.cleaner.next_ms() == host.clock.now_ms + BACKOFF_MS
    host.look()
    assert host.cleaner.figures().dead_threads == 0
    host.work()
    assert host.recorded() == {NAME: 6}
    assert [each["reason"] for each in host.logged("cleaner_died")] == ["killed", "killed"]


def test_a_partition_that_kills_its_cleaner_again_and_again_is_left_alone() -> None:
    host = filled()
    host.fails += [CleanerDiedError("killed")] * DEATHS_MAX
    for _ in range(DEATHS_MAX):
        assert host.logged("partition_uncleanable") == []
        host.look()
        host.work()
    assert len(host.logged("partition_uncleanable")) == 1
    host.look()
    assert len(host.sessions) == DEATHS_MAX


# -- checkpoints ----------------------------------------------------------------------------------


def test_a_start_goes_on_where_the_last_round_ended() -> None:
    host = filled()
    host.look()
    host.work()
    host.stop()
    again = CleanerHost(host.log, host.vfs, clean=("/1", "/2"))
    again.cleaner.states.open("/1")
    assert again.cleaner.states.offset("/1", NAME) == 6


def test_an_offset_that_is_none_of_the_log_is_corrected() -> None:
    host = filled()
    host.cleaner.states.set_offset("/1", NAME, 100)
    host.look()
    (fields,) = host.logged("cleaner_offset_reset")
    assert (fields["recorded"], fields["to"]) == (100, 0)
    assert host.sessions[0].job.first_dirty_offset == 0
    level = next(
        each.level for each in host.effects if getattr(each, "event", "") == "cleaner_offset_reset"
    )
    assert level is LogLevel.WARN
    host.work()


def test_an_offset_below_the_start_of_a_log_with_retention_is_no_surprise() -> None:
    host = filled(cleanup_policy="compact,delete")
    host.cleaner.states.set_offset("/1", NAME, 1)
    host.unified().raise_log_start_to(2)
    host.look()
    assert host.logged("cleaner_offset_reset") == []
    assert host.sessions[0].job.first_dirty_offset == 2


def test_a_damaged_checkpoint_takes_the_log_directory_offline() -> None:
    log = with_topics("a", cleanup_policy="compact")
    host = CleanerHost(log)
    put(host.vfs, "/1/cleaner-offset-checkpoint", b"0\nx\n")
    host.started()
    assert [each.path for each in host.taken(DirectoryFailed)] == ["/1"]


def test_a_record_that_a_full_disk_refuses_is_told() -> None:
    host = filled()
    host.look()
    while not any(each[0] is Lane.FILES and each[2].__name__ == "<lambda>" for each in host.works):
        host.work_one()
    host.vfs.failing = lambda kind, path: errno.ENOSPC if "cleaner-offset" in path else None
    host.work()
    assert len(host.logged("log_upkeep_refused")) == 1
