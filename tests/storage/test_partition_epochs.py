"""Epochs of a partition that no record has yet, and the places of its offsets."""

from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from tests.storage.test_unified_log import NOW, opened, produced
from wire.batches.batch import encode_batch

CHECKPOINT = "/d/p-0/leader-epoch-checkpoint"


def epochs(log: UnifiedLog) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in log.epoch_entries]


def test_an_epoch_begins_at_the_end_of_the_log_before_it_has_a_record() -> None:
    log = opened(MemoryVfs())
    assert log.last_epoch is None
    log.append_as_leader(produced(NOW, NOW), 3, NOW)
    log.assign_epoch(5)
    assert (epochs(log), log.last_epoch) == ([(3, 0), (5, 2)], 5)
    assert log.end_offset_for_epoch(4) == (3, 2)
    assert log.end_offset_for_epoch(5) == (5, 2)
    log.append_as_leader(produced(NOW), 5, NOW)
    assert epochs(log) == [(3, 0), (5, 2)]
    log.assign_epoch(5)
    assert epochs(log) == [(3, 0), (5, 2)]


def test_a_later_epoch_takes_the_place_of_one_without_a_record() -> None:
    log = opened(MemoryVfs())
    log.append_as_leader(produced(NOW), 3, NOW)
    log.assign_epoch(5)
    log.assign_epoch(6)
    assert (epochs(log), log.last_epoch) == ([(3, 0), (6, 1)], 6)


def test_a_truncation_to_the_end_drops_an_epoch_without_a_record() -> None:
    log = opened(MemoryVfs())
    log.append_as_leader(produced(NOW), 3, NOW)
    assert not log.truncate_to(1, NOW)
    assert (epochs(log), log.last_epoch) == ([(3, 0)], 3)
    log.assign_epoch(5)
    generation = log.log.generation
    assert not log.truncate_to(7, NOW)
    assert (epochs(log), log.last_epoch) == ([(3, 0)], 3)
    assert (log.end_offset, log.log.generation) == (1, generation)
    log.append_as_leader(produced(NOW), 4, NOW)
    assert epochs(log) == [(3, 0), (4, 1)]


def test_the_epochs_of_an_empty_log_can_go_again() -> None:
    log = opened(MemoryVfs())
    log.assign_epoch(0)
    assert (epochs(log), log.last_epoch) == ([(0, 0)], 0)
    assert not log.truncate_to(0, NOW)
    assert (epochs(log), log.last_epoch) == ([], None)


def test_an_epoch_without_a_record_is_written_and_dropped_when_the_log_is_loaded() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    log.append_as_leader(produced(NOW), 3, NOW)
    log.log.close()
    assert vfs.read(CHECKPOINT) == b"0\n1\n3 0\n"
    log = opened(vfs)
    log.assign_epoch(5)
    log.log.close()
    assert vfs.read(CHECKPOINT) == b"0\n2\n3 0\n5 1\n"
    for is_clean in (False, True):
        again = opened(vfs, is_clean=is_clean)
        assert (epochs(again), again.last_epoch) == ([(3, 0)], 3)


def test_epochs_are_written_with_the_flush_after_any_change() -> None:
    vfs = MemoryVfs()
    log = opened(vfs, recovery_point_bytes=0)
    written = []

    def without_an_epoch() -> None:
        data = encode_batch([b"v"], log.end_offset, -1, NOW)
        log.append_as_follower(memoryview(data), 9, NOW)

    def after_a_flush() -> bytes:
        log.log.flush()
        return vfs.read(CHECKPOINT)

    without_an_epoch()
    assert after_a_flush() == b"0\n0\n"
    log.truncate_to(0, NOW)
    log.append_as_leader(produced(NOW), 1, NOW)
    assert after_a_flush() == b"0\n1\n1 0\n"
    log.append_as_leader(produced(NOW), 2, NOW)
    assert after_a_flush() == b"0\n2\n1 0\n2 1\n"
    log.truncate_to(1, NOW)
    log.append_as_leader(produced(NOW), 1, NOW)
    assert after_a_flush() == b"0\n1\n1 0\n"
    log.set_high_watermark(2)
    log.raise_log_start_to(1)
    log.append_as_leader(produced(NOW), 1, NOW)
    assert after_a_flush() == b"0\n1\n1 1\n"
    log.truncate_fully_and_start_at(9, NOW)
    without_an_epoch()
    assert after_a_flush() == b"0\n0\n"
    vfs.failing = lambda kind, path: written.append(path) if kind != "read" else None
    without_an_epoch()
    assert after_a_flush() == b"0\n0\n"
    assert not [path for path in written if CHECKPOINT in path]


def test_a_place_is_that_of_the_batch_which_holds_the_offset() -> None:
    vfs = MemoryVfs()
    log = opened(vfs, segment_bytes=400)
    sizes = []
    while len(log.log.segments) < 4:
        sizes.append(len(produced(NOW, NOW).buffer))
        log.append_as_leader(produced(NOW, NOW), 1, NOW)
    log.close()
    log = opened(vfs, segment_bytes=400, open_segments_max=1, is_clean=True)
    assert log.place_of(log.end_offset) == (log.log.segments[-1].base_offset, sizes[-1])
    places = [log.place_of(offset) for offset in range(log.end_offset)]
    assert sum(segment.is_open for segment in log.log.segments) == 2
    for offset, place in enumerate(places):
        found = log.slice(offset, 1 << 20, FetchIsolation.LOG_END, at_least_one=True)
        assert found is not None
        assert place == (found.segment_base_offset, found.position)
    assert {base for base, _ in places} == {each.base_offset for each in log.log.segments}
    assert log.place_of(1) == (0, 0)
    assert log.place_of(2) == (0, sizes[0])


def test_a_place_below_the_first_batch_is_in_the_first_segment() -> None:
    log = opened(MemoryVfs())
    log.truncate_fully_and_start_at(4, NOW)
    assert log.place_of(4) == (4, 0)
