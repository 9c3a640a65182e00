"""Loading of a shard from a log: pieces, high watermark, log start, old messages, damage."""

from typing import Any

import pytest

from broker.coordinators.loading import (
    READ_BYTES_MAX,
    READ_UNITS,
    RECORD_UNITS,
    RECORDS_PER_PIECE,
    Loading,
)
from coordinator.records.codec import encode
from coordinator.records.schema import CoordinatorRecord
from coordinator.runtime.batches import EncodedRecord, records_batch
from coordinator.runtime.shard import Shard, ShardState
from coordinator.runtime.write import ProducerIdAndEpoch
from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptLogError
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.producers.append_source import COORDINATOR
from tests.coordinator.runtime.test_shard import Setup, record
from tests.storage.test_unified_log import NOW, opened
from wire.batches.compression import Codec
from wire.batches.transaction_markers import marker_batch
from wire.types import Offset

PATH = f"/d/p-0/{0:020}.log"


def log_of(*batches: Any, **settings: Any) -> UnifiedLog:
    log = opened(MemoryVfs(), **settings)
    log.assign_epoch(0)
    for batch in batches:
        log.append_as_leader(batch, 0, NOW, COORDINATOR)
    return log


def batch_of(*topics: str, producer: ProducerIdAndEpoch | None = None) -> Any:
    records = [EncodedRecord(*encode(record(topic)), 9) for topic in topics]
    return records_batch(records, producer, Codec.NONE)


def loading_of(read_bytes_max: int = 1 << 20) -> tuple[Loading[Any], Shard[Any]]:
    shard = Setup().shard
    return Loading(shard, 3, read_bytes_max), shard


def steps(loading: Loading[Any], log: UnifiedLog) -> list[int]:
    """The units of each piece."""
    found: list[int] = []
    while (units := loading.step(log)) is not None:
        found.append(units)
        assert len(found) < 1000
    return found


def test_a_log_is_read_and_applied_in_pieces() -> None:
    count = 2 * RECORDS_PER_PIECE + 1
    log = log_of(batch_of(*map(str, range(count))), batch_of("last"))
    log.set_high_watermark(count)
    loading, shard = loading_of()
    assert steps(loading, log) == [
        READ_UNITS, RECORD_UNITS * RECORDS_PER_PIECE, RECORD_UNITS * RECORDS_PER_PIECE,
        RECORD_UNITS, RECORD_UNITS,
    ]  # fmt: skip
    assert (loading.number, loading.record_count) == (3, count + 1)
    assert (len(shard.committed), len(shard.image)) == (count, count + 1)
    assert shard.image[-1] == f"last at {count} 9"
    assert shard.state is ShardState.LOADING


def test_a_read_is_bounded_and_holds_one_batch_at_least() -> None:
    batches = [batch_of(str(number)) for number in range(4)]
    size = len(batches[0].buffer)
    loading, shard = loading_of(2 * size)
    assert steps(loading, log_of(*batches)) == [
        READ_UNITS, RECORD_UNITS, RECORD_UNITS, READ_UNITS, RECORD_UNITS, RECORD_UNITS,
    ]  # fmt: skip
    assert len(shard.image) == 4
    loading, shard = loading_of(1)
    assert steps(loading, log_of(*batches)) == [READ_UNITS, RECORD_UNITS] * 4
    many = READ_BYTES_MAX // size + 1
    loading, _ = loading_of()
    assert steps(loading, log_of(*[batch_of("0")] * many)).count(READ_UNITS) == 2


def test_what_was_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    log, parts = log_of(batch_of("a")), []
    cut = log.slice

    def kept(*args: Any, **more: Any) -> Any:
        parts.append(cut(*args, **more))
        return parts[-1]

    monkeypatch.setattr(log, "slice", kept)
    steps(loading_of()[0], log)
    (part,) = parts
    with pytest.raises(AssertionError, match="is closed"):
        part.read()


def test_an_empty_log_is_loaded() -> None:
    loading, shard = loading_of()
    assert steps(loading, log_of()) == []
    assert shard.image == ()


def test_segments_follow_each_other() -> None:
    loading, shard = loading_of()
    log = log_of(*(batch_of(str(number)) for number in range(5)), segment_bytes=150)
    assert steps(loading, log).count(READ_UNITS) > 1
    assert [text[0] for text in shard.image] == [*"01234"]


def test_what_is_below_the_log_start_is_left_out() -> None:
    loading, shard = loading_of()
    log = log_of(batch_of("a", "b", "c"))
    log.set_high_watermark(3)
    log.raise_log_start_to(1)
    steps(loading, log)
    assert [text[0] for text in shard.image] == ["b", "c"]


def test_transactions_are_replayed_with_their_ends() -> None:
    loading, shard = loading_of()
    producer = ProducerIdAndEpoch(70, 0)
    end = marker_batch(70, 0, is_commit=False, coordinator_epoch=0, timestamp_ms=NOW)
    steps(loading, log_of(batch_of("a", producer=producer), end))
    assert shard.image == ("a at 0 9 of 70", "abort 70")


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_brokers_are_read(magic: int) -> None:
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    vfs.make_directory("/d/p-0")
    key, value = encode(record("a"))
    content = b"".join(old_message(offset, magic, key, value or b"") for offset in (4, 5))
    vfs.open(PATH.replace(f"{0:020}", f"{4:020}"), create=True).pwrite(content, 0)
    log = opened(vfs, reads_old_formats=True)
    loading, shard = loading_of()
    steps(loading, log)
    time_ms = 7 if magic else -1
    assert shard.image == (f"a at 4 {time_ms}", f"a at 5 {time_ms}")


def old_message(offset: int, magic: int, key: bytes, value: bytes) -> bytes:
    import struct
    import zlib

    checked = struct.pack(">bb", magic, 0) + (struct.pack(">q", 7) if magic else b"")
    checked += struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def test_bytes_that_hold_no_batch_end_it() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    log.assign_epoch(0)
    log.append_as_leader(batch_of("a"), 0, NOW, COORDINATOR)
    part = log.slice(0, 1, FetchIsolation.LOG_END, at_least_one=True)
    assert part is not None
    vfs.damage(PATH, 8, b"\x7f\xff\xff\xff")
    loading, _ = loading_of()
    with pytest.raises(CorruptLogError, match="position 0: no batch: length 2147483647"):
        loading.step(log)
    part.close()


def test_bytes_that_a_disk_has_changed_are_not_applied() -> None:
    vfs = MemoryVfs()
    log = opened(vfs)
    log.assign_epoch(0)
    for topic in ("a", "b"):
        log.append_as_leader(batch_of(topic), 0, NOW, COORDINATOR)
    size = vfs.size(PATH)
    vfs.damage(PATH, size - 2, b"\x55")
    place = f"{PATH}: corrupt at position {size // 2}: CRC of the batch at offset 1 is wrong"
    loading, shard = loading_of()
    with pytest.raises(CorruptLogError, match=place):
        loading.step(log)
    assert shard.image == ()
    loading, shard = loading_of(1)
    assert (loading.step(log), loading.step(log)) == (READ_UNITS, RECORD_UNITS)
    with pytest.raises(CorruptLogError, match=place):
        loading.step(log)
    assert [text[0] for text in shard.image] == ["a"]


def test_a_record_of_another_version_is_damage() -> None:
    key, _ = encode(CoordinatorRecord(record("a").key, None))
    batch = records_batch([EncodedRecord(key, b"\0\x63", 0)], None, Codec.NONE)
    loading, shard = loading_of()
    log = log_of(batch)
    assert loading.step(log) == READ_UNITS
    with pytest.raises(Exception, match="version 99 is unknown"):
        loading.step(log)
    assert shard.state is ShardState.FAILED
    assert log.end_offset == Offset(1)
