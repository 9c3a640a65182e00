"""The batch that was appended last is read from memory, and only while it is the last."""

import pytest

from replication.leader.fetch_session import FetchPartition
from replication.reading import with_records, without_records
from simulator.cluster.memory_vfs import MemoryVfs
from storage.logs.tail import TAIL_BYTES_MAX, HeldBatch
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.segments.file_slice import FileSlice
from tests.storage.test_unified_log import NOW, opened, produced

END = 1 << 40


def appended(*values: bytes, **settings) -> UnifiedLog:
    log = opened(MemoryVfs(), **settings)
    for value in values:
        log.append_as_leader(produced(NOW, value=value), 1, NOW)
    return log


def read(
    log: UnifiedLog,
    offset: int,
    max_bytes: int = 1 << 20,
    *,
    one: bool = True,
    isolation=FetchIsolation.LOG_END,
):
    """The records of a fetch, with what `UnifiedLog.slice` gives beside it."""
    request = FetchPartition(
        fetch_offset=offset,
        max_bytes=max_bytes,
        current_leader_epoch=None,
        last_fetched_epoch=None,
        log_start_offset=None,
    )
    fetched = with_records(
        log, without_records(log, request), max_bytes, isolation, at_least_one=one
    )
    plain = log.slice(offset, max_bytes, isolation, at_least_one=one)
    records = fetched.records
    assert (records is None) is (plain is None)
    if records is not None and plain is not None:
        assert records.read() == plain.read()
        assert (records.position, records.size_bytes) == (plain.position, plain.size_bytes)
        assert records.segment_base_offset == plain.segment_base_offset
        records.close()
        plain.close()
    return records


def test_the_last_batch_is_read_from_memory_and_is_what_the_file_has():
    log = appended(b"one", b"two")
    assert isinstance(read(log, 1), HeldBatch)
    assert isinstance(read(log, 0), FileSlice)


def test_one_that_another_follows_is_not_the_last():
    log = appended(b"one")
    assert isinstance(read(log, 0), HeldBatch)
    log.append_as_leader(produced(NOW, value=b"v" * 4000), 1, NOW)
    assert isinstance(read(log, 0), FileSlice)
    assert isinstance(read(log, 1), FileSlice)


@pytest.mark.parametrize(("added", "kind"), [(0, HeldBatch), (1, FileSlice)])
def test_a_batch_is_held_up_to_a_size(added, kind):
    probe = produced(NOW, value=b"v" * 1900)
    size = 1900 + TAIL_BYTES_MAX - len(probe.buffer) + added
    log = appended(b"v" * size)
    assert log.log.size_bytes == TAIL_BYTES_MAX + added
    assert isinstance(read(log, 0), kind)


def test_what_is_not_committed_is_not_read_by_consumers():
    log = appended(b"one", b"two")
    log.set_high_watermark(1)
    assert read(log, 1, isolation=FetchIsolation.HIGH_WATERMARK) is None
    log.set_high_watermark(2)
    assert isinstance(read(log, 1, isolation=FetchIsolation.HIGH_WATERMARK), HeldBatch)


def test_a_batch_of_several_records_is_read_from_its_first_or_by_the_file():
    log = opened(MemoryVfs())
    log.append_as_leader(produced(NOW, NOW, NOW), 1, NOW)
    assert isinstance(read(log, 0), HeldBatch)
    assert isinstance(read(log, 1), FileSlice)
    assert log.tail.batch_at(0, 2) is None, "the batch ends at 3"
    assert log.tail.batch_at(0, 3) is not None


def test_one_that_exceeds_the_room_is_read_where_one_is_asked_for():
    log = appended(b"one")
    size = log.log.size_bytes
    assert read(log, 0, size - 1, one=False) is None
    assert isinstance(read(log, 0, size - 1, one=True), HeldBatch)
    assert isinstance(read(log, 0, size, one=False), HeldBatch)


def test_behind_a_truncation_the_file_is_read():
    log = appended(b"one", b"two")
    log.truncate_to(1, NOW)
    log.append_as_follower(follower_batch(1, b"xyz"), 1, NOW)
    assert log.end_offset == 2
    assert isinstance(read(log, 1), FileSlice)  # of the same size at the same place


def test_what_a_follower_appends_is_read_from_the_file():
    log = appended(b"one")
    log.append_as_follower(follower_batch(1, b"two"), 1, NOW)
    assert isinstance(read(log, 0), FileSlice)
    assert isinstance(read(log, 1), FileSlice)


def test_one_of_a_segment_that_was_closed_is_read_from_the_file():
    log = appended(b"one")
    log.log.roll(1, NOW)
    assert isinstance(read(log, 0), FileSlice)


def test_a_log_that_is_opened_holds_nothing():
    assert opened(MemoryVfs()).tail.batch_at(0, END) is None


def follower_batch(offset: int, value: bytes) -> memoryview:
    """The batch as a leader of epoch 1 has it at an offset."""
    leader = appended(*[b"x"] * offset, value)
    found = leader.slice(offset, 1 << 20, FetchIsolation.LOG_END, at_least_one=True)
    assert found is not None
    return memoryview(bytearray(found.read()))
