"""Logs of magic 0 and 1 opened by a broker: what Kafka 4.3.1 answered of the same folders.

`kafka-4.3.1.jsonl`: each folder was put into the log directory of a broker that had been killed;
after its start Fetch was asked at every offset with three sizes, ListOffsets at every timestamp and
beside it, OffsetForLeaderEpoch; then its files after a stop. The topics had epoch 0 before, and
epoch 2 when it was started.
"""

import json
import struct
import zlib
from typing import Any

import msgspec
import pytest

from simulator.cluster.memory_vfs import MemoryVfs
from storage.errors import CorruptLogError, OffsetOutOfRangeError
from storage.log_dir.partition_metadata import write_partition_metadata
from storage.logs.append_info import UnexpectedOffsetError
from storage.logs.recovery import BatchRules
from storage.logs.unified_log import FetchIsolation, UnifiedLog
from storage.segments.read_check import first_damage
from storage.segments.timestamp_lookup import TimestampAndOffset
from tests.storage.golden import ROOT, put
from tests.storage.log_brokers import IDS, NOW, Broker
from wire.batches.batch import encode_batch
from wire.batches.legacy_batch import iterate_any
from wire.batches.log_batches import iterate_log_frames, parse_log_header
from wire.errors import CorruptBatchError

LEGACY = ROOT / "legacy-log"
KAFKA = [json.loads(line) for line in (LEGACY / "kafka-4.3.1.jsonl").read_text().splitlines()]
SEGMENT = "00000000000000000000.log"
MIXED = (LEGACY / "mixed-v0-v1-v2-0" / SEGMENT).read_bytes()
GZIP = (LEGACY / "v1-gzip-0" / SEGMENT).read_bytes()
EPOCHS = b"0\n1\n0 0\n"
SIZES = (1, 200, 1 << 20)
LOG_END = FetchIsolation.LOG_END
EARLIEST, LATEST, MAX_TIMESTAMP = "-2", "-1", "-3"


def message(offset: int, magic: int = 1, timestamp_ms: int = 7, value: bytes = b"v" * 50) -> bytes:
    checked = struct.pack(">bb", magic, 0)
    checked += struct.pack(">q", timestamp_ms) if magic else b""
    checked += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def disk(content: bytes, epochs: bytes | None = EPOCHS) -> MemoryVfs:
    vfs = MemoryVfs()
    put(vfs, f"/d/a-0/{SEGMENT}", content)
    if epochs is not None:
        put(vfs, "/d/a-0/leader-epoch-checkpoint", epochs)
    write_partition_metadata(vfs, "/d/a-0", IDS["a"])
    return vfs


def started(content: bytes, epochs: bytes | None = EPOCHS) -> UnifiedLog:
    return Broker(disk(content, epochs)).log()


def served(log: UnifiedLog, offset: int, max_bytes: int = 1 << 20) -> bytes:
    found = log.slice(offset, max_bytes, LOG_END, at_least_one=True)
    return b"" if found is None else found.read()


def row(found: TimestampAndOffset | None) -> list[int]:
    return [-1, -1, -1] if found is None else list(msgspec.structs.astuple(found))


@pytest.mark.parametrize("kafka", KAFKA, ids=lambda kafka: kafka["file"])
def test_what_kafka_answers(kafka: dict[str, Any]) -> None:
    content = (LEGACY / kafka["file"] / SEGMENT).read_bytes()
    broker = Broker(disk(content))
    log = broker.log()
    log.assign_epoch(2)
    log.set_high_watermark(log.end_offset)
    for offset, position, *sizes in kafka["fetch"]:
        if position == "err":
            with pytest.raises(OffsetOutOfRangeError):
                served(log, offset)
            continue
        for max_bytes, size in zip(SIZES, sizes, strict=True):
            found = served(log, offset, max_bytes)
            assert content.startswith(found, position)
            ends = [frame.end_position for frame in iterate_log_frames(content[position:])]
            whole = [end for end in ends if end <= size]  # Kafka cuts a batch at the limit
            assert len(found) == (whole[-1] if whole else 0), f"{offset=} {max_bytes=}"
    found_at = kafka["list"]
    for timestamp_ms, expected in found_at.items():
        if int(timestamp_ms) >= 0:
            assert row(log.at_timestamp(int(timestamp_ms))) == expected, timestamp_ms
    assert row(log.with_max_timestamp()) == found_at[MAX_TIMESTAMP]
    assert row(log.earliest()) == found_at[EARLIEST]
    assert row(log.latest(FetchIsolation.HIGH_WATERMARK)) == found_at[LATEST]
    for epoch, expected in kafka["epochs"].items():
        assert list(log.end_offset_for_epoch(int(epoch))) == expected
    log.close()
    names = sorted(name for name in broker.vfs.list("/d/a-0") if name != "partition.metadata")
    assert names == sorted([SEGMENT, *kafka["files"]])
    for name, expected in kafka["files"].items():
        assert broker.vfs.read(f"/d/a-0/{name}").hex() == expected, name


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_second_start_finds_the_same(is_clean: bool) -> None:
    first = Broker(disk(MIXED))
    end = first.log().end_offset
    if is_clean:
        first.log().close()
    log = Broker(first.vfs, clean=is_clean).log()
    assert (log.end_offset, log.epoch_entries[0].epoch) == (end, 0)
    assert served(log, 0) == MIXED


def test_new_batches_follow_old_ones() -> None:
    """As after a start of Kafka 4, whose leader writes magic 2 behind them."""
    broker = Broker(disk(GZIP))
    log = broker.log()
    batch = encode_batch([b"new"], log.end_offset, 3, 9)
    assert log.append_as_follower(memoryview(batch), 3, NOW).end_offset == 79
    again = Broker(broker.vfs).log()
    assert served(again, 0) == GZIP + batch
    assert [(each.epoch, each.start_offset) for each in again.epoch_entries] == [(0, 0), (3, 78)]


def test_a_follower_takes_them_as_they_are() -> None:
    log = Broker(disk(b"", None)).log()
    assert log.earliest() == TimestampAndOffset(-1, 0, -1), "an empty log has no epoch"
    assert log.append_as_follower(memoryview(MIXED), 5, NOW).end_offset == 84
    assert served(log, 0) == MIXED
    assert log.producers.end_offset == 84
    with pytest.raises(UnexpectedOffsetError) as error:
        log.append_as_follower(memoryview(GZIP), 5, NOW)
    last = parse_log_header(GZIP).last_offset
    assert (error.value.first_offset, error.value.last_offset) == (last, last)


def test_an_old_message_may_follow_a_batch_with_an_epoch() -> None:
    """A topic whose message format was lowered again."""
    content = encode_batch([b"new"], 0, 7, 9) + message(1) + encode_batch([b"new"], 2, 7, 9)
    log = started(content)
    assert (log.end_offset, log.last_epoch, log.recovery_report) == (3, 7, ())
    follower = Broker(disk(b"", None)).log()
    assert follower.append_as_follower(memoryview(content), 7, NOW).end_offset == 3
    damaged = encode_batch([b"new"], 3, 6, 9)  # without one, but not with a lower one
    assert follower.append_as_follower(memoryview(damaged), 7, NOW).stopped is not None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("before", [b"", MIXED])
def test_a_cut_or_damaged_one_is_cut(magic: int, before: bytes) -> None:
    end = 84 if before else 0
    old = message(end, magic)
    wrong = bytearray(old)
    wrong[-1] ^= 1
    for tail in (old[:-1], old[:25], old[:17], old[:16], bytes(wrong), bytes(wrong) + old):
        broker = Broker(disk(before + tail))
        log = broker.log()
        assert log.end_offset == end, tail
        assert len(log.recovery_report) == 1
        assert broker.vfs.read(f"/d/a-0/{SEGMENT}") == before
    assert started(before + old).end_offset == end + 1


def test_offsets_that_go_back_are_damage() -> None:
    assert started(message(5) + message(4)).end_offset == 6
    assert started(message(4) + message(5)).end_offset == 6


def test_a_message_larger_than_the_window_of_the_scan() -> None:
    content = message(0, value=b"v" * (3 << 20)) + message(1)
    assert started(content).end_offset == 2
    broker = Broker(disk(content[: -len(message(1)) - 1]))
    assert broker.log().end_offset == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_indexes_of_many_messages_are_used_again(magic: int) -> None:
    messages = [message(offset, magic, 1000 + offset) for offset in range(400)]
    broker = Broker(disk(b"".join(messages)))
    log = broker.log()
    log.close()
    index, times = (
        broker.vfs.read(f"/d/a-0/{0:020d}{suffix}") for suffix in (".index", ".timeindex")
    )
    assert len(index) >= 3 * 8
    assert bool(times) == bool(magic)
    again = Broker(broker.vfs, clean=True).log()
    assert again.log.segments[0].indexes.is_loaded
    assert again.end_offset == 400
    for offset in (0, 1, 199, 399):
        assert served(again, offset, 1) == messages[offset]
    at = again.at_timestamp(1200)
    assert (None if at is None else at.offset) == (200 if magic else None)


@pytest.mark.parametrize("magics", [(0, 1, 1), (1, 1, 0), (1, 1, 1)])
@pytest.mark.parametrize("lost", [".index", ".timeindex"])
def test_an_index_without_the_other_is_built_again(magics: tuple[int, int, int], lost: str) -> None:
    """Unless no message has a timestamp. The largest is that of the second message."""
    first, second, others = magics
    content = message(0, first) + message(1, second, 9000)
    content += b"".join(message(offset, others) for offset in range(2, 400))
    broker = Broker(disk(content))
    broker.log().close()
    put(broker.vfs, f"/d/a-0/{0:020d}{lost}", b"")
    again = Broker(broker.vfs, clean=True).log()
    assert row(again.at_timestamp(9000)) == [9000, 1, -1]
    assert row(again.with_max_timestamp()) == [9000, 1, -1]


def test_epochs_that_begin_among_old_messages_are_kept_and_others_go() -> None:
    def epochs_of(content: bytes, *claimed: str) -> list[tuple[int, int]]:
        file = "\n".join(["0", str(len(claimed)), *claimed, ""])
        log = started(content, file.encode())
        assert log.last_epoch == log.epoch_entries[-1].epoch
        return [(each.epoch, each.start_offset) for each in log.epoch_entries]

    old = message(0) + message(1) + message(2)
    assert epochs_of(old, "1 0", "4 2", "9 3") == [(1, 0), (4, 2)]
    assert epochs_of(old + encode_batch([b"new"], 3, 6, 9), "1 0", "4 2", "9 3") == [
        (1, 0),
        (4, 2),
        (6, 3),
    ]
    assert epochs_of(old + encode_batch([b"new"], 3, 2, 9), "1 0", "4 2") == [(1, 0), (2, 3)]


# ---- frames and headers --------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_of_messages(magic: int) -> None:
    old = message(5, magic, 1234)
    header = parse_log_header(b"xx" + old, 2)
    assert (header.base_offset, header.last_offset, header.end_offset) == (5, 5, 6)
    assert (header.magic, header.leader_epoch, header.producer_id) == (magic, -1, -1)
    assert header.max_timestamp_ms == header.base_timestamp_ms == (1234 if magic else -1)
    assert (header.size_bytes, header.attributes) == (len(old), 0)
    for size in range(26):
        with pytest.raises(CorruptBatchError):
            parse_log_header(old[:size])
    assert parse_log_header(old[:26]) == parse_log_header(old)


@pytest.mark.parametrize(("magic", "attributes"), [(0, 0x07), (1, 0x0F)])
def test_attributes_that_have_no_meaning_are_left_out(magic: int, attributes: int) -> None:
    old = bytearray(message(5, magic))
    old[17] = 0xFF
    header = parse_log_header(old)
    assert header.attributes == attributes
    assert not header.is_control
    assert not header.is_transactional


def test_a_message_of_magic_1_has_room_for_its_time() -> None:
    for size, magic, is_one in ((26, 0, True), (33, 1, False), (34, 1, True)):
        content = struct.pack(">qiIb", 0, size - 12, 0, magic) + bytes(60)
        if is_one:
            assert parse_log_header(content).size_bytes == size
            assert next(iterate_log_frames(content[:size])).size_bytes == size
            continue
        for read in (parse_log_header, lambda content: next(iterate_log_frames(content))):
            with pytest.raises(CorruptBatchError, match="cannot be 21 bytes long"):
                read(content)


def test_frames_stop_at_one_that_is_cut_and_not_at_nonsense() -> None:
    whole = message(0) + encode_batch([b"new"], 1, 0, 9) + message(2, 0)
    ends = [frame.end_position for frame in iterate_log_frames(whole)]
    for size in range(len(whole)):
        found = [frame.end_position for frame in iterate_log_frames(whole[:size])]
        assert found == [end for end in ends if end <= size]
    with pytest.raises(CorruptBatchError, match="has magic 3"):
        list(iterate_log_frames(whole + struct.pack(">qiib", 3, 60, 0, 3) + bytes(60)))


def test_a_read_names_a_damaged_message() -> None:
    content = message(0) + message(1, 0)
    assert first_damage(content, 0, contiguous=False, reads_old_formats=True) is None
    wrong = bytearray(content)
    wrong[-1] ^= 1
    for damaged in (bytes(wrong), content[:-1]):
        found = first_damage(damaged, 0, contiguous=False, reads_old_formats=True)
        assert found == (len(message(0)), "batch at offset 1 is cut or has a wrong CRC")
    broker = Broker(disk(content))
    log = broker.log()
    broker.vfs.damage(f"/d/a-0/{SEGMENT}", len(content) - 1, b"\0")
    with pytest.raises(CorruptLogError, match="batch at offset 1 is cut or has a wrong CRC"):
        log.log.read(0, 1 << 20)
    assert first_damage(
        encode_batch([b"new"], 0, 0, 9)[:16] + b"\3" + bytes(60),
        0,
        contiguous=False,
        reads_old_formats=True,
    ) == (0, "batch at offset 0 has magic 3, not 2")


def test_a_message_with_a_valid_checksum_that_has_no_room_for_its_fields_is_cut() -> None:
    checked = struct.pack(">bb", 1, 0) + bytes(15)
    short = struct.pack(">qiI", 1, len(checked) + 4, zlib.crc32(checked)) + checked
    assert len(short) == 33
    log = started(message(0) + short + message(2))
    assert (log.end_offset, len(log.recovery_report)) == (1, 1)


def test_only_logs_of_records_may_have_batches_without_epoch() -> None:
    for reads_old_formats, objection in ((True, False), (False, True)):
        rules = BatchRules(3, 5, contiguous=False, reads_old_formats=reads_old_formats)
        assert bool(rules.objection(3, 3, -1, crc_is_valid=True)) == objection
        assert rules.objection(3, 3, 4, crc_is_valid=True) is not None


def test_batches_stop_at_nonsense() -> None:
    with pytest.raises(CorruptBatchError, match="has magic 3"):
        list(iterate_any(message(0) + struct.pack(">qiib", 3, 60, 0, 3) + bytes(60)))
