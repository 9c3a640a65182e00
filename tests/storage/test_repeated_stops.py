"""Logs that are closed as they were opened: nothing is written or synced again."""

import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.producers.producer_snapshot_files import ProducerSnapshotFiles
from storage.producers.producer_state import ProducerStates
from tests.storage.test_unified_log import NOW, opened, produced


def test_a_snapshot_that_a_start_would_find_is_not_written_again() -> None:
    """Kafka's takeSnapshot: only if something was appended since the last one."""
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    written: list[str] = []

    def files() -> ProducerSnapshotFiles:
        return ProducerSnapshotFiles(vfs, "/d", lambda path, _: written.append(path))

    states, first = ProducerStates("p-0", 1), files()
    first.load(states, 3, 3, NOW)
    first.write(states)
    assert written == [], "a log without records needs none"
    states.note_end(8)
    first.write(states)
    first.write(states)
    again = files()
    again.load(states, 3, 8, NOW)
    again.write(states)
    assert written == [f"/d/{8:020d}.snapshot"]
    states.note_end(9)
    again.write(states)
    assert again.offsets() == [8, 9]
    again.load(states, 3, 8, NOW)  # as after a truncation
    states.note_end(9)
    again.write(states)
    assert len(written) == 3


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_was_left_clean_needs_no_sync_before_the_next_append(is_clean: bool) -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    log.append_as_leader(produced(NOW), 1, NOW)
    log.close()
    again = opened(vfs, is_clean=is_clean)
    plan = again.flush_plan()
    assert plan.is_empty is is_clean
    plan.run()
    again.log.flush_done(plan)
    again.append_as_leader(produced(NOW), 1, NOW)
    assert not again.flush_plan().is_empty
