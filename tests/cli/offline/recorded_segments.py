"""Files of partitions, made again from what Kafka's dump tool printed of them, byte for byte."""

import re
import struct
from collections.abc import Iterator

from storage.producers.producer_snapshot import ProducerSnapshotEntry, encode_producer_snapshot
from wire.batches.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    RecordView,
    encode_records,
)
from wire.batches.compression import Codec
from wire.checksum import crc32c
from wire.types import LeaderEpoch, Offset

Headers = tuple[tuple[str, bytes | None], ...]
FIELD = re.compile(r"(\w+): (\S*)")
NUMBER = re.compile(r"(\w+): (?:OptionalLong[.[])?(-?\d+|empty)")
COMMIT = {"COMMIT": b"\0\0\0\1", "ABORT": b"\0\0\0\0"}
UNKNOWN_SYSTEM = 255
"""The operating system of a gzip stream as Java writes it."""
_SYSTEM_POSITION = HEADER_BYTES + 9


def segment(printed: str, headers: list[Headers]) -> bytes:
    """The log of an output of `--print-data-log`; values of headers are not printed."""
    content, left = b"", iter(headers)
    for line, records in _batches(printed):
        fields = dict(FIELD.findall(line))
        views = [_record(record, left) for record in records]
        batch = _batch(fields, views)
        checksum = int.from_bytes(batch[CRC_START - 4 : CRC_START], "big")
        assert (len(content), len(batch)) == (int(fields["position"]), int(fields["size"]))
        assert checksum == int(fields["crc"]), f"{line=}"
        content += batch
    assert next(left, None) is None
    return content


def _batches(printed: str) -> Iterator[tuple[str, list[str]]]:
    lines = printed.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("baseOffset: ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start], [line for line in lines[start + 1 : end] if line.startswith("| ")]


def _batch(fields: dict[str, str], records: list[RecordView]) -> bytes:
    codec = Codec[fields["compresscodec"].upper()]
    header = BatchHeader(
        base_offset=Offset(int(fields["baseOffset"])),
        leader_epoch=LeaderEpoch(int(fields["partitionLeaderEpoch"])),
        attributes=codec
        | TRANSACTIONAL_BIT * (fields["isTransactional"] == "true")
        | CONTROL_BIT * (fields["isControl"] == "true"),
        last_offset_delta=int(fields["lastOffset"]) - int(fields["baseOffset"]),
        base_timestamp_ms=records[0].timestamp_ms,
        max_timestamp_ms=int(fields["CreateTime"]),
        producer_id=int(fields["producerId"]),
        producer_epoch=int(fields["producerEpoch"]),
        base_sequence=int(fields["baseSequence"]),
        records_count=len(records),
    )
    batch = bytearray(encode_records(header, records))
    if codec is Codec.GZIP:
        batch[_SYSTEM_POSITION] = UNKNOWN_SYSTEM
        struct.pack_into(">I", batch, CRC_START - 4, crc32c(bytes(batch[CRC_START:])))
    return bytes(batch)


def _record(line: str, headers: Iterator[Headers]) -> RecordView:
    metadata, _, rest = line.partition(" headerKeys: [")
    names, _, rest = rest.partition("]")
    fields = dict(FIELD.findall(metadata))
    found = next(headers) if names else ()
    assert ",".join(name for name, _ in found) == names
    key: bytes | None
    value: bytes | None
    if "endTxnMarker" in rest:
        (kind, epoch) = (word for _, word in FIELD.findall(rest))
        key, value = COMMIT[kind], struct.pack(">hi", 0, int(epoch))
    else:
        key, rest = _text(rest, " key: ", int(fields["keySize"]))
        value, rest = _text(rest, " payload: ", int(fields["valueSize"]))
        assert not rest, f"{rest=}"
    return RecordView(Offset(int(fields["offset"])), int(fields["CreateTime"]), key, value, found)


def _text(rest: str, label: str, size: int) -> tuple[bytes | None, str]:
    if size < 0:
        return None, rest
    assert rest.startswith(label), f"{rest=}"
    end = len(label) + size
    return rest[len(label) : end].encode(), rest[end:]


def indexed_log(offsets: str, times: str) -> bytes:
    """A log that the printed entries of both of its indexes point into; values fill it up.

    An entry stands for a batch that ends at its offset, begins at its position, and has its time.
    """
    places = dict(_pairs(offsets))
    first, content = 0, b""
    for timestamp_ms, last in [(0, min(places) - 1), *_pairs(times)]:
        start = len(content)
        assert places.get(last, start) == start, f"{last=}"
        end = min((at for at in places.values() if at > start), default=start + 100)
        content += _filled(first, last, end - start, timestamp_ms)
        first = last + 1
    return content


def _pairs(rows: str) -> list[tuple[int, int]]:
    found = [[int(text) for _, text in NUMBER.findall(line)] for line in rows.splitlines()]
    return [(left, right) for left, right in found]


def _filled(first: int, last: int, size: int, timestamp_ms: int) -> bytes:
    header = BatchHeader(
        base_offset=Offset(first),
        leader_epoch=LeaderEpoch(0),
        last_offset_delta=last - first,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        records_count=1,
    )
    for spare in range(size):
        record = RecordView(Offset(first), timestamp_ms, None, bytes(size - HEADER_BYTES - spare))
        batch = encode_records(header, [record])
        if len(batch) == size:
            return batch
    raise AssertionError(f"no record makes a batch of {size=}")


def snapshot(printed: str) -> bytes:
    """The producers of an output about a `.snapshot` file; one without a batch has -1 for it."""
    return encode_producer_snapshot(
        _entry({name: -1 if text == "empty" else int(text) for name, text in NUMBER.findall(line)})
        for line in printed.splitlines()
        if line.startswith("producerId: ")
    )


def _entry(fields: dict[str, int]) -> ProducerSnapshotEntry:
    return ProducerSnapshotEntry(
        producer_id=fields["producerId"],
        producer_epoch=fields["producerEpoch"],
        last_sequence=fields.get("lastSequence", -1),
        last_offset=fields.get("lastOffset", -1),
        offset_delta=fields.get("offsetDelta", 0),
        timestamp_ms=fields["lastTimestamp"],
        coordinator_epoch=fields["coordinatorEpoch"],
        current_transaction_first_offset=fields["currentTxnFirstOffset"],
    )


def packed(printed: str, form: str) -> bytes:
    """The entries of an index, a line each, by the form of an entry."""
    rows = [line for line in printed.splitlines() if ": " in line]
    return b"".join(
        struct.pack(form, *(int(text) for _, text in NUMBER.findall(line))) for line in rows
    )
