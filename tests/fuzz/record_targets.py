"""Inputs of the data plane: message sets, Produce requests, batches that producers send."""

import importlib
import struct
import zlib
from functools import cache
from pathlib import Path
from random import Random
from uuid import UUID

from kio.serial import entity_reader

from storage.logs.log_validator import AppendRules, RejectedError, TimestampType, stamp, validated
from storage.logs.produced_records import parse_produced
from tests.fuzz.batch_targets import golden_batches
from tests.fuzz.engine import Target
from tests.wire.recorded_pairs import of_key
from wire.batches.batch import Batch, BatchHeader, RecordView, encode_records, iterate_batches
from wire.batches.compression import Codec, compress
from wire.batches.legacy_batch import LegacyBatch, LegacyRecord, iterate_any
from wire.errors import CorruptBatchError, RemoteProtocolError
from wire.messages import replica_fetch
from wire.messages.body_walk import checked_body
from wire.messages.codec import split_request
from wire.messages.produce import VERSION_MAX, VERSION_MIN, ProduceRequest, decode_produce_request
from wire.types import Offset

GOLDEN = Path(__file__).parent.parent / "golden"
NOW_MS = 1_700_000_000_000
TOPIC_ID_VERSION = 13
RULES = (
    AppendRules(),
    AppendRules(is_compacted=True),
    AppendRules(codec=Codec.GZIP),
    AppendRules(codec=Codec.NONE, timestamp_type=TimestampType.LOG_APPEND_TIME),
    AppendRules(validates_records=True, before_ms_max=1000, batch_bytes_max=5000),
)


# ---- message sets of magic 0 and 1 -------------------------------------------------------------


@cache
def _message_sets() -> tuple[bytes, ...]:
    logs = sorted((GOLDEN / "storage" / "legacy-log").glob("*/*.log"))
    entries = [
        bytes(each.buffer)
        for log in logs
        for each in iterate_any(log.read_bytes())
        if isinstance(each, LegacyBatch)
    ]
    return tuple(entries[::5])


def _message(offset: int, value: bytes, magic: int, attributes: int) -> bytes:
    checked = struct.pack(">bb", magic, attributes) + (struct.pack(">q", 5) if magic else b"")
    checked += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def _message_set(rng: Random) -> bytes:
    magic, count = rng.randrange(2), rng.randrange(1, 5)
    inner = [_message(n, rng.randbytes(rng.randrange(40)), magic, 0) for n in range(count)]
    if rng.random() < 0.5:
        return b"".join(inner)
    codec = rng.choice((Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
    return _message(count - 1, compress(codec, b"".join(inner)), magic, codec)


def _legacy(data: bytes) -> list[tuple[LegacyBatch, list[LegacyRecord]]]:
    found = [each for each in iterate_any(data) if isinstance(each, LegacyBatch)]
    return [(each, each.records()) for each in found]


def _legacy_fits(
    value: list[tuple[LegacyBatch, list[LegacyRecord]]], data: bytes, rng: Random
) -> None:
    for batch, records in value:
        assert records, "an entry without a message is refused"
        assert data[batch.position : batch.position + batch.size_bytes] == batch.buffer
        if batch.crc_is_valid:  # P5: one flipped bit is seen
            content = bytearray(batch.buffer)
            content[rng.randrange(16, len(content))] ^= 1 << rng.randrange(8)
            assert zlib.crc32(content[16:]) != batch.crc


# ---- Produce requests --------------------------------------------------------------------------


@cache
def _requests() -> tuple[bytes, ...]:
    """Produce requests: a byte of the version, then the body."""
    found = []
    for pair in of_key(0):
        frame = bytes.fromhex(pair["request_hex"])
        _, position = split_request(frame)
        found.append(bytes([pair["api_version"]]) + frame[position:])
    return tuple(found)


def _produce(data: bytes) -> ProduceRequest:
    if not data or not VERSION_MIN <= data[0] <= VERSION_MAX:
        raise RemoteProtocolError("not a version of it")
    return decode_produce_request(data[0], data, 1)


def _as_kio_reads_it(value: ProduceRequest, data: bytes, _rng: Random) -> None:
    """P3: what the reader accepts, kio's reads the same."""
    version = data[0]
    entity = importlib.import_module(f"kio.schema.produce.v{version}.request").ProduceRequest
    kio, _ = entity_reader(entity)(checked_body(entity, data[1:]), 0)
    assert (value.transactional_id, value.acks) == (kio.transactional_id, kio.acks)
    found = [
        (each.topic, each.partition, None if each.records is None else bytes(each.records))
        for each in value.partitions
    ]
    assert found == [
        (_topic(version, topic), each.index, each.records)
        for topic in kio.topic_data
        for each in topic.partition_data
    ]


def _topic(version: int, topic: object) -> str | bytes:
    if version < TOPIC_ID_VERSION:
        return topic.name
    return (topic.topic_id or UUID(int=0)).bytes


# ---- what a follower reads of a leader's response ----------------------------------------------


@cache
def _responses() -> tuple[bytes, ...]:
    """Fetch responses: a byte of the version, then the body."""
    return tuple(
        bytes([pair["api_version"]]) + bytes.fromhex(pair["response_hex"])[5:]
        for pair in of_key(1)
        if pair["api_version"] >= replica_fetch.VERSION_MIN
    )


def _fetched(data: bytes) -> replica_fetch.ReplicaFetchResponse:
    if not data or not replica_fetch.VERSION_MIN <= data[0] <= replica_fetch.VERSION_MAX:
        raise RemoteProtocolError("not a version of it")
    return replica_fetch.decode_replica_fetched(data[0], data, 1)


def _is_in_the_frame(value: replica_fetch.ReplicaFetchResponse, data: bytes, _rng: Random) -> None:
    """Check that records are bytes of the frame, none of them twice, and no epoch is below 0."""
    assert sum(len(each.records) for each in value.partitions) < len(data)
    for each in value.partitions:
        assert bytes(each.records) in data
        assert each.diverging_epoch is None or each.diverging_epoch.epoch >= 0


# ---- batches that producers send ---------------------------------------------------------------


def _produced(rng: Random) -> bytes:
    count = rng.randrange(1, 6)
    header = BatchHeader(
        base_offset=Offset(0),
        leader_epoch=-1,
        attributes=rng.randrange(5) | rng.choice((0, 16)),
        last_offset_delta=count - 1,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        producer_id=7,
        base_sequence=rng.randrange(2**31),
        records_count=count,
    )
    records = [
        RecordView(Offset(n), NOW_MS, rng.randbytes(3), rng.randbytes(rng.randrange(50)))
        for n in range(count)
    ]
    return bytes([rng.randrange(len(RULES))]) + encode_records(header, records)


def _rules_and_data(data: bytes) -> tuple[AppendRules, bytes]:
    return RULES[data[0] % len(RULES)] if data else RULES[0], data[1:]


def _validated(data: bytes) -> Batch:
    rules, content = _rules_and_data(data)
    return validated(parse_produced(memoryview(bytearray(content)), 9), rules, "t-0", NOW_MS)


def _stays_readable(value: Batch, _data: bytes, rng: Random) -> None:
    """Check that an accepted batch is whole with a valid checksum, also when it is stamped."""
    offset, epoch = rng.randrange(2**62), rng.randrange(2**31)
    header = stamp(value, offset, epoch)
    (again,) = iterate_batches(value.buffer)
    assert again.header == header
    assert again.crc_is_valid
    assert (header.base_offset, header.leader_epoch) == (offset, epoch)
    assert header.records_count == header.last_offset_delta + 1 > 0


def targets() -> list[Target]:
    """All of this file."""
    produced = [bytes([n]) + batch for n, batch in enumerate(golden_batches()[:20])]
    return [
        Target(
            "message-sets", _message_sets(), _legacy, (CorruptBatchError,), _legacy_fits,
            _message_set,
        ),
        Target(
            "produce-requests", _requests(), _produce, (RemoteProtocolError,), _as_kio_reads_it,
        ),
        Target(
            "replica-fetch-responses", _responses(), _fetched, (RemoteProtocolError,),
            _is_in_the_frame,
        ),
        Target(
            "produced-batches", produced, _validated, (RejectedError,), _stays_readable, _produced,
        ),
    ]  # fmt: skip
