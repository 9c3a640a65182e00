"""Message sets of magic 0 and 1: what Kafka's reader sees in logs that Kafka's builder wrote."""

import json
import struct
import zlib
from itertools import groupby
from pathlib import Path

import pytest

from wire.batches.compression import Codec, compress
from wire.batches.legacy_batch import LegacyBatch, LegacyRecord, iterate_any
from wire.batches.lz4_header import with_standard_checksum, xxh32
from wire.errors import CorruptBatchError

GOLDEN = Path("tests/golden/storage/legacy-log")
EXPECTED = [json.loads(line) for line in (GOLDEN / "expected.jsonl").read_text().splitlines()]
BY_FILE = {file: list(batches) for file, batches in groupby(EXPECTED, key=lambda b: b["file"])}
LOG_APPEND_TIME_BIT = 8
WRAPPER = (
    "0000000000000006000000731214a6c9010100000000000003e9ffffffff0000005d1f8b080000000000000"
    "0014600b9ff0000000000000000000000178a65e96d010000000000000003e8ffffffff00000001610000000"
    "00000000100000017fcaed3e9010000000000000003e9ffffffff000000016250ffca7646000000"
)


def hex_of(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


def test_the_set_is_whole() -> None:
    assert len(BY_FILE) == 11
    assert {(b["magic"], b["codec"]) for b in EXPECTED} >= {
        (magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")
    }


@pytest.mark.parametrize("file", BY_FILE)
def test_what_kafka_reads(file: str) -> None:
    found = list(iterate_any((GOLDEN / file / "00000000000000000000.log").read_bytes()))
    assert len(found) == len(BY_FILE[file])
    for batch, expected in zip(found, BY_FILE[file], strict=True):
        if not isinstance(batch, LegacyBatch):
            assert expected["magic"] == 2
            continue
        assert {
            "file": file,
            "magic": batch.magic,
            "base_offset": batch.records()[0].offset,
            "last_offset": batch.last_offset,
            "codec": batch.codec.name.lower(),
            "timestamp_type": batch.timestamp_type,
            "max_timestamp": batch.timestamp_ms,
            "bytes": batch.size_bytes,
            "valid": batch.crc_is_valid,
            "records": [
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp_ms,
                    "key": hex_of(record.key),
                    "value": hex_of(record.value),
                }
                for record in batch.records()
            ],
        } == expected
        assert all(record.crc_is_valid for record in batch.records())


@pytest.mark.parametrize(
    ("content", "records"),
    [
        ("000000000000000000000010fd6ebddb0000ffffffff000000026869", [(0, -1, None, b"hi")]),
        (
            "000000000000000500000019f258ab71010000000000000003e8000000016b000000026869",
            [(5, 1000, b"k", b"hi")],
        ),
        (
            WRAPPER,
            [(5, 1000, None, b"a"), (6, 1001, None, b"b")],
        ),
    ],
)
def test_published_examples(content: str, records) -> None:
    (batch,) = iterate_any(bytes.fromhex(content))
    found = [(r.offset, r.timestamp_ms, r.key, r.value) for r in batch.records()]
    assert found == records


def message(
    offset: int, value: bytes | None, magic: int = 1, attributes: int = 0, timestamp_ms: int = 7
) -> bytes:
    checked = struct.pack(">bb", magic, attributes)
    checked += struct.pack(">q", timestamp_ms) if magic else b""
    checked += struct.pack(">ii", -1, -1 if value is None else len(value)) + (value or b"")
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def wrapper(
    offset: int, *inner: bytes, magic: int = 1, attributes: int = 0, timestamp_ms: int = 9
) -> LegacyBatch:
    value = compress(Codec.GZIP, b"".join(inner))
    content = message(offset, value, magic, attributes | Codec.GZIP, timestamp_ms)
    (batch,) = iterate_any(content)
    return batch


def offsets(batch: LegacyBatch) -> list[int]:
    return [record.offset for record in batch.records()]


def test_offsets_inside_a_wrapper() -> None:
    inner = [message(n, b"v") for n in range(3)]
    assert offsets(wrapper(12, *inner)) == [10, 11, 12], "relative in magic 1"
    assert offsets(wrapper(0, *inner)) == [0, 1, 2], "left out by an old producer"
    old = [message(n, b"v", magic=0) for n in (4, 9)]
    assert offsets(wrapper(9, *old, magic=0)) == [4, 9], "absolute in magic 0"
    with pytest.raises(CorruptBatchError, match="offset 1 has messages up to relative offset 2"):
        wrapper(1, *inner).records()
    assert offsets(wrapper(2, *inner)) == [0, 1, 2]


def test_times_inside_a_wrapper() -> None:
    inner = [message(n, b"v", timestamp_ms=n) for n in range(2)]
    times = [record.timestamp_ms for record in wrapper(1, *inner).records()]
    assert times == [0, 1]
    appended = wrapper(1, *inner, attributes=LOG_APPEND_TIME_BIT)
    assert [record.timestamp_ms for record in appended.records()] == [9, 9]
    old = wrapper(1, message(1, b"v", magic=0), magic=0, attributes=LOG_APPEND_TIME_BIT)
    assert old.timestamp_type == "NoTimestampType"
    assert [record.timestamp_ms for record in old.records()] == [-1]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (lambda: wrapper(1), "is compressed and has no message inside"),
        (lambda: wrapper(1, message(0, b"v")[:-1]), "no whole message at position 0 of a wrapper"),
        (lambda: wrapper(1, message(0, b"v"), b"rest"), "no whole message at position 35"),
        (lambda: wrapper(0, message(0, b"v", magic=0)), "of magic 1 has one of magic 0 inside"),
        (
            lambda: wrapper(0, message(0, b"v", attributes=Codec.SNAPPY)),
            "has a compressed message inside",
        ),
        (lambda: only(message(3, None, attributes=1)), "message at offset 3 is compressed and emp"),
        (lambda: only(message(3, b"", attributes=1)), "message at offset 3 is compressed and empt"),
        (lambda: only(message(3, b"v", attributes=4)), "offset 3: codec 4 is unknown"),
        (lambda: only(message(3, b"v", attributes=7)), "offset 3: codec 7 is unknown"),
        (lambda: only(message(3, b"v", attributes=1)), "records are not valid gzip"),
        (lambda: only(message(3, b"v", 0, attributes=3)), "the frame has another magic"),
    ],
)
def test_what_no_broker_wrote(batch, reason: str) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        batch().records()


def only(content: bytes) -> LegacyBatch:
    (batch,) = iterate_any(content)
    return batch


def patched(content: bytes, position: int, number: int) -> bytes:
    return content[:position] + struct.pack(">i", number) + content[position + 4 :]


@pytest.mark.parametrize(
    ("position", "length", "reason"),
    [
        (26, 1, "a field of 374 bytes does not fit"),
        (26, 4, "ends inside a length"),
        (26, -2, "a field of -2 bytes does not fit"),
        (30, 2, "a field of 2 bytes does not fit"),
        (30, 0, "has 1 bytes left over"),
    ],
)
def test_lengths_that_do_not_fit(position: int, length: int, reason: str) -> None:
    with pytest.raises(CorruptBatchError, match=reason):
        only(patched(message(3, b"v"), position, length)).records()


def test_a_message_too_short_for_its_magic() -> None:
    """14 bytes behind the length are enough for magic 0, magic 1 needs 22."""
    short = message(3, None, magic=0)
    assert only(short).records() == [LegacyRecord(3, -1, None, None, only(short).crc, True)]
    with pytest.raises(CorruptBatchError, match=r"\(offset 3\) cannot be 14 bytes long"):
        list(iterate_any(short[:16] + b"\1" + short[17:]))


def test_one_that_is_cut_ends_silently() -> None:
    whole = message(0, b"v") + message(1, b"w")
    for size in range(len(message(0, b"v")), len(whole)):
        assert len(list(iterate_any(whole[:size]))) == 1
    assert len(list(iterate_any(whole))) == 2


def test_a_wrong_checksum_is_seen() -> None:
    content = bytearray(message(0, b"v"))
    content[-1] ^= 1
    batch = only(bytes(content))
    assert not batch.crc_is_valid
    assert not batch.records()[0].crc_is_valid


# ---- the checksum of lz4 headers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("descriptor", "checksum"),
    [
        ("6040", 0x82),
        ("6050", 0xFB),
        ("6060", 0x51),
        ("6070", 0x73),
        ("6440", 0xA7),
        ("7040", 0xAD),
    ],
)
def test_published_header_checksums(descriptor: str, checksum: int) -> None:
    assert xxh32(bytes.fromhex(descriptor)) >> 8 & 0xFF == checksum


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"abcd", 0xA3643705)],
)
def test_published_hashes(content: bytes, expected: int) -> None:
    assert xxh32(content) == expected
    with pytest.raises(AssertionError):
        xxh32(bytes(16))


def test_a_header_with_content_size_and_dictionary() -> None:
    magic, size, dictionary = b"\x04\x22\x4d\x18", bytes(range(8)), bytes(4)
    for flags, more in ((0x68, size), (0x61, dictionary), (0x69, size + dictionary)):
        descriptor = bytes((flags, 0x40)) + more
        fixed = with_standard_checksum(magic + descriptor + b"\0rest")
        assert fixed == magic + descriptor + bytes((xxh32(descriptor) >> 8 & 0xFF,)) + b"rest"
        with pytest.raises(CorruptBatchError, match="the frame header is cut"):
            with_standard_checksum(magic + descriptor)
    with pytest.raises(CorruptBatchError, match="another magic"):
        with_standard_checksum(magic)
