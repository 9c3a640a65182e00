"""Wrappers of magic 0 and 1 with fewer messages, as Kafka's own of the golden logs."""

import json
from pathlib import Path

import pytest

from wire.batches.compression import Codec
from wire.batches.legacy_batch import LegacyBatch, iterate_any
from wire.batches.legacy_writer import encode_wrapper
from wire.batches.lz4_header import with_old_checksum, with_standard_checksum

LEGACY = Path(__file__).resolve().parent.parent / "golden" / "storage" / "legacy-log"


def wrappers() -> list[LegacyBatch]:
    found = []
    for path in sorted(LEGACY.rglob("*.log")):
        for one in iterate_any(path.read_bytes()):
            if isinstance(one, LegacyBatch) and one.codec is not Codec.NONE:
                found.append(one)  # noqa: PERF401 - the type is known here
    return found


WRAPPERS = wrappers()
assert {(each.magic, each.codec) for each in WRAPPERS} >= {
    (magic, codec) for magic in (0, 1) for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
}


def again(content: bytes) -> LegacyBatch:
    (found,) = iterate_any(content)
    assert isinstance(found, LegacyBatch)
    assert found.crc_is_valid
    return found


@pytest.mark.parametrize("one", WRAPPERS, ids=lambda each: f"v{each.magic}-{each.codec.name}")
def test_all_messages_make_the_same_wrapper(one: LegacyBatch) -> None:
    found = again(encode_wrapper(one, one.records()))
    assert found.records() == one.records()
    assert (found.last_offset, found.magic, found.attributes, found.timestamp_ms) == (
        one.last_offset,
        one.magic,
        one.attributes,
        one.timestamp_ms,
    )


@pytest.mark.parametrize("one", WRAPPERS, ids=lambda each: f"v{each.magic}-{each.codec.name}")
def test_some_messages_keep_their_offsets(one: LegacyBatch) -> None:
    records = one.records()
    for kept in (records[1:], records[:-1], records[1:2]):
        if not kept:
            continue
        found = again(encode_wrapper(one, kept))
        assert [(each.offset, each.key, each.value) for each in found.records()] == [
            (each.offset, each.key, each.value) for each in kept
        ]
        assert found.last_offset == kept[-1].offset
        is_append_time = one.timestamp_type == "LogAppendTime"
        newest = one.timestamp_ms if is_append_time else max(each.timestamp_ms for each in kept)
        assert found.timestamp_ms == newest
        assert found.timestamp_type == one.timestamp_type


def test_the_checksum_of_lz4_in_magic_0_is_that_of_old_producers() -> None:
    (one,) = [each for each in WRAPPERS if (each.magic, each.codec) == (0, Codec.LZ4)][:1]
    start = bytes(one.buffer).index(b"\x04\x22\x4d\x18")
    frame = bytes(one.buffer[start:])
    assert with_old_checksum(with_standard_checksum(frame)) == frame
    assert with_standard_checksum(frame) != frame


def test_the_golden_wrappers_are_all_kinds() -> None:
    assert json.dumps(sorted({each.timestamp_type for each in WRAPPERS})) == (
        '["CreateTime", "LogAppendTime", "NoTimestampType"]'
    )
