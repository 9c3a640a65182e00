"""After a failed fsync the page cache may lie: a restarted process must not take it for durable."""

import errno

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import FsyncError
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.flush_plan import FlushPlan
from storage.logs.log import Log, LogConfig
from tests.storage.test_crash import batch
from tests.storage.test_flushed_end import disk, filled


@pytest.mark.parametrize("segment_bytes", [1 << 30, 150])
def test_what_a_failed_sync_forgot_is_written_again_at_the_next_start(segment_bytes: int) -> None:
    vfs = disk()
    log = filled(vfs, 3)
    log.append(batch(3, 1), 3)
    log.append(batch(4, 1), 4)
    vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and path.endswith("log") else None
    with pytest.raises(FsyncError):
        log.flush()
    vfs.failing = None
    vfs.kill()
    config = LogConfig(segment_bytes=segment_bytes)
    again = open_metadata_log(vfs, "/d", config)
    assert again.flushed_end_offset == again.end_offset == 5

    after = open_metadata_log(vfs.crash(), "/d", config)
    assert after.end_offset == 5


def unsynced(count: int = 5) -> tuple[MemoryVfs, Log, FlushPlan]:
    """A log whose last two batches are in a plan that has not run."""
    vfs = disk()
    log = filled(vfs, count - 2)
    for number in range(count - 2, count):
        log.append(batch(number, 1), number)
    return vfs, log, log.flush_plan()


def test_a_close_runs_the_plan_that_nobody_has_run() -> None:
    vfs, log, _ = unsynced()
    log.close()
    assert open_metadata_log(vfs.crash(), "/d", LogConfig()).end_offset == 5


def test_a_close_behind_a_failed_flush_says_nothing_is_durable() -> None:
    vfs, log, plan = unsynced()
    vfs.failing = lambda kind, path: errno.EIO if kind == "sync" and path.endswith("log") else None
    with pytest.raises(FsyncError):
        plan.run()
    vfs.failing = None
    with pytest.raises(FsyncError):
        log.close()
    vfs.kill()
    again = open_metadata_log(vfs, "/d", LogConfig())
    assert again.end_offset == 5
    assert open_metadata_log(vfs.crash(), "/d", LogConfig()).end_offset == 5
