"""Progress of the recovery of a log, told to another thread by segments."""

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.log import Log, LogConfig
from storage.logs.recovery import RecoveryProgress
from tests.storage.test_unified_log import NOW, opened, produced

CONFIG = LogConfig(
    contiguous=False, verify_from_start=False, syncs_at_open=False, grows_index_files=True
)
NAME = "/d/p-0/00000000000000000000.log"


class Watched(RecoveryProgress):
    def __init__(self):
        super().__init__()
        self.seen = []

    def begin(self, segments):
        super().begin(segments)
        self.seen.append(self.remaining)

    def recovered(self):
        super().recovered()
        self.seen.append(self.remaining)


def killed():
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=2 * len(produced(NOW).buffer))
    for _ in range(5):
        log.append_as_leader(produced(NOW), 1, NOW)
    assert len(log.log.segments) == 3
    log.log.record_epochs()
    return vfs


def recovered(vfs, **named):
    progress = Watched()
    log = Log.open(vfs, "/d/p-0", CONFIG, wall_ms=NOW, progress=progress, **named)
    return progress, log


def test_each_segment_that_is_checked_counts():
    progress, _ = recovered(killed())
    assert (progress.segments, progress.seen, progress.remaining) == (3, [3, 2, 1, 0], 0)


def test_behind_damage_nothing_remains():
    vfs = killed()
    vfs.damage(NAME, 80, b"\xff" * 9)
    progress, log = recovered(vfs)
    assert len(log.segments) == 1
    assert (progress.seen, progress.remaining) == ([3], 0)


def test_a_clean_log_has_nothing_to_check():
    vfs = killed()
    progress, _ = recovered(vfs, is_clean=True)
    assert (progress.segments, progress.seen) == (0, [])
