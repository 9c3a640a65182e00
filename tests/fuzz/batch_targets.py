"""Targets: record batches with all codecs, metadata and control records, snapshots, recovery."""

import json
import struct
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from metadata import record_codec
from metadata.control_records import decode_control
from metadata.schema import MetadataRecordError
from metadata.snapshot import decode_snapshot, snapshot_timestamp_ms
from simulator.cluster.memory_vfs import MemoryVfs
from storage.log_dir.partition_directories import open_metadata_log
from storage.logs.log import Log, LogConfig
from tests.fuzz.engine import Target
from wire.batches.batch import (
    Batch,
    BatchHeader,
    RecordView,
    encode_batch,
    encode_control_batch,
    encode_records,
    iterate_batches,
    parse_batch_header,
)
from wire.batches.compression import Codec, compress, decompress
from wire.batches.control_records import ControlType, control_type, decode_control_value
from wire.errors import CorruptBatchError

GOLDEN = Path(__file__).parent.parent / "golden"
PLAIN_BYTES_MAX = 1 << 16
LENGTH = struct.Struct(">i")
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, recovery_point_bytes=400)
LOG = "/d/__cluster_metadata-0"


@cache
def golden_batches() -> list[bytes]:
    """Single batches of real logs, all codecs, small ones."""
    found = []
    for path in sorted((GOLDEN / "pipeline").rglob("*.log")):
        batches = [bytes(b.buffer) for b in iterate_batches(path.read_bytes())]
        found += [content for content in batches[:4] if len(content) < 4000]
    for path in sorted((GOLDEN / "metadata").rglob("*.log")):
        batches = [bytes(b.buffer) for b in iterate_batches(path.read_bytes())]
        found += [content for content in batches[:20] if len(content) < 4000]
    return found


def _text_records(rng: Random) -> list[RecordView]:
    count = rng.randrange(1, 6)
    return [
        RecordView(
            number,
            rng.randrange(10**6),
            rng.choice((None, b"", b"key")),
            rng.choice((None, b"", b"v" * rng.randrange(200))),
            rng.choice(((), (("h", None),), (("", b""), ("é", b"x")))),
        )
        for number in range(count)
    ]


def _batch(rng: Random) -> bytes:
    if rng.random() < 0.2:
        return encode_control_batch([(rng.randrange(8), rng.randbytes(9))], 0, 1, 5)
    records = _text_records(rng)
    header = BatchHeader(
        base_offset=rng.choice((0, 7, 2**62)),
        leader_epoch=rng.randrange(-1, 9),
        attributes=rng.randrange(5) | rng.choice((0, 8, 16, 64)),
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=rng.choice((0, -1, 10**12)),
        max_timestamp_ms=10**12,
        records_count=0,
    )
    shifted = [
        RecordView(header.base_offset + r.offset, r.timestamp_ms, r.key, r.value, r.headers)
        for r in records
    ]
    return encode_records(header, shifted)


def _read_batches(data: bytes) -> list[tuple[Batch, list[RecordView]]]:
    """A checksum does not protect against who computes it: the records are read without it."""
    return [(batch, batch.records()) for batch in iterate_batches(data)]


def _batches_again(value: list[tuple[Batch, list[RecordView]]], data: bytes, rng: Random) -> None:
    for batch, records in value:
        assert parse_batch_header(data, batch.position) == batch.header
        if batch.crc_is_valid:
            _check_flips(batch, rng)
        if batch.header.codec is not Codec.NONE or not _can_be_written(batch.header, records):
            continue
        again = encode_records(batch.header, records)
        (second,) = iterate_batches(again)
        assert second.records() == records
        if batch.crc_is_valid and _is_canonical(batch, records):
            assert again == bytes(batch.buffer)


def _check_flips(batch: Batch, rng: Random) -> None:
    """P5: one flipped bit behind the checksum is seen."""
    content = bytearray(batch.buffer)
    for _ in range(4):
        place = rng.randrange(21, len(content))
        content[place] ^= 1 << rng.randrange(8)
        assert not Batch(batch.header, memoryview(content), 0).crc_is_valid
        content = bytearray(batch.buffer)


def _can_be_written(header: BatchHeader, records: list[RecordView]) -> bool:
    """Deltas may be what no writer makes; then only reading must be safe."""
    low, high = header.base_offset, header.base_offset + 2**31
    in_order = all(low <= record.offset < high for record in records)
    deltas = [record.timestamp_ms - header.base_timestamp_ms for record in records]
    return in_order and all(-(2**63) <= delta < 2**63 for delta in deltas)


def _is_canonical(batch: Batch, records: list[RecordView]) -> bool:
    """Numbers as short as they can be, as every writer makes them; else bytes may differ."""
    return bytes(batch.buffer) in _known() and len(records) == batch.header.records_count


@cache
def _known() -> frozenset[bytes]:
    return frozenset(golden_batches())


def _compressed(data: bytes) -> bytes:
    codec = Codec(data[0] % 5) if data else Codec.NONE
    return decompress(codec, data[1:], PLAIN_BYTES_MAX)


def _compressed_again(plain: bytes, data: bytes, _rng: Random) -> None:
    codec = Codec(data[0] % 5) if data else Codec.NONE
    assert len(plain) <= PLAIN_BYTES_MAX
    assert decompress(codec, compress(codec, plain)) == plain


def _blob(rng: Random) -> bytes:
    codec = Codec(rng.randrange(5))
    plain = rng.choice((b"", b"a" * rng.randrange(5000), rng.randbytes(rng.randrange(300))))
    return bytes([codec]) + compress(codec, plain)


def _bombs() -> list[bytes]:
    plain = bytes(4 * PLAIN_BYTES_MAX)
    return [bytes([codec]) + compress(codec, plain) for codec in Codec if codec is not Codec.NONE]


# ---- records -----------------------------------------------------------------------------------


@cache
def _record_seeds() -> list[bytes]:
    path = GOLDEN / "metadata" / "record-vectors.jsonl"
    return [bytes.fromhex(json.loads(line)["hex"]) for line in path.read_text().splitlines()]


def _record_again(record: Any, data: bytes, _rng: Random) -> None:
    """P2: bytes of the same version read the same; canonical ones are the same."""
    version = record_codec.decoded_version(data)
    first = record_codec.encode(record, version)
    assert record_codec.encode(record_codec.decode(first), version) == first
    if data in _canonical_records():
        assert first == data


@cache
def _canonical_records() -> frozenset[bytes]:
    return frozenset(_record_seeds())


def _control_seeds() -> list[bytes]:
    found = []
    for content in golden_batches():
        for batch in iterate_batches(content):
            if batch.header.is_control:
                for record in batch.records():
                    key, value = record.key or b"", record.value or b""
                    found.append(LENGTH.pack(len(key)) + key + value)
    path = GOLDEN / "metadata" / "control-record-vectors.jsonl"
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "hex" in row:
            for kind in range(2, 7):
                key = struct.pack(">hh", 0, kind)
                found.append(LENGTH.pack(4) + key + bytes.fromhex(row["hex"]))
    return found


def _control(data: bytes) -> Any:
    """A control record: 4 bytes of key length, key, value."""
    if len(data) < 4:
        raise CorruptBatchError("no key length in the input")
    (length,) = LENGTH.unpack_from(data)
    length = min(max(length, 0), len(data) - 4)
    kind = control_type(data[4 : 4 + length])
    value = data[4 + length :]
    known = decode_control(kind, value)
    if kind is not None and kind >= ControlType.LEADER_CHANGE:
        decode_control_value(kind, value)
    return known


# ---- snapshots ---------------------------------------------------------------------------------


@cache
def _snapshot_seeds() -> list[bytes]:
    paths = sorted((GOLDEN / "metadata").rglob("*.checkpoint"))
    return [content for path in paths if len(content := path.read_bytes()) < 12_000][:12]


def _snapshot(data: bytes) -> Any:
    content = decode_snapshot(data)
    assert snapshot_timestamp_ms(data) == content.last_contained_timestamp_ms
    return content


# ---- recovery of a log -------------------------------------------------------------------------


def _log_bytes(count: int, epoch_of: int = 5) -> bytes:
    return b"".join(
        encode_batch([bytes([n]) * (n % 30)] * (1 + n % 3), _base(n), 1 + n // epoch_of, 1000 + n)
        for n in range(count)
    )


def _base(number: int) -> int:
    return sum(1 + n % 3 for n in range(number))


@cache
def _valid_log() -> bytes:
    return _log_bytes(12)


def _recovered(data: bytes) -> tuple[Log, MemoryVfs]:
    """Opening a log that was never recorded as flushed: damage is cut off, never an error."""
    vfs = MemoryVfs()
    vfs.make_directory("/d")
    vfs.make_directory(LOG)
    file = vfs.open(f"{LOG}/{0:020d}.log", create=True)
    file.pwrite(data, 0)
    return open_metadata_log(vfs, "/d", CONFIG), vfs


def _kept_before_damage(value: tuple[Log, MemoryVfs], data: bytes, _rng: Random) -> None:
    """P6: exactly the whole batches before the first damage are kept, byte for byte."""
    log, vfs = value
    valid = _valid_log()
    same = next(
        (place for place, pair in enumerate(zip(data, valid, strict=False)) if pair[0] != pair[1]),
        min(len(data), len(valid)),
    )
    kept = b"".join(
        vfs.read(f"{LOG}/{name}") for name in sorted(vfs.list(LOG)) if name.endswith(".log")
    )
    whole = 0
    for batch in iterate_batches(valid):
        if batch.position + batch.header.size_bytes > same:
            break
        whole = batch.position + batch.header.size_bytes
    assert kept[:whole] == valid[:whole], "a batch before the damage was lost"
    assert data.startswith(kept), "recovery made bytes up"
    ends = [b.position + b.header.size_bytes for b in iterate_batches(kept)]
    assert (ends or [0])[-1] == len(kept), "a cut batch was kept"
    assert log.end_offset == ([b.header.end_offset for b in iterate_batches(kept)] or [0])[-1]
    again = open_metadata_log(vfs, "/d", CONFIG)
    assert again.end_offset == log.end_offset


def targets() -> list[Target]:
    """All of this file."""
    logs = [_valid_log(), _log_bytes(3), b""]
    both = (CorruptBatchError, MetadataRecordError)
    return [
        Target(
            "batches", golden_batches(), _read_batches, (CorruptBatchError,), _batches_again,
            _batch, weight=3,
        ),
        Target(
            "compression", [*_bombs(), b"\x02"], _compressed, (CorruptBatchError,),
            _compressed_again, _blob,
        ),
        Target(
            "metadata-records", _record_seeds(), record_codec.decode, (MetadataRecordError,),
            _record_again, weight=4,
        ),
        Target("control-records", _control_seeds(), _control, both),
        Target("snapshots", _snapshot_seeds(), _snapshot, both),
        Target("log-recovery", logs, _recovered, (), _kept_before_damage, weight=0.2),
    ]  # fmt: skip
