"""Produce 3 to 13: requests read as views into the frame, responses written in one pass.

kio copies the records of a request; a producer's batches are megabytes, and a leader writes them
to its log from the buffer that they arrived in. The shape of both messages, flexible from 9 on,
topic ids instead of names from 13 on, is that of
apache/kafka: clients/.../common/message/{ProduceRequest,ProduceResponse}.json (4.3.1).
"""

import struct
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages.field_reader import NOT_READABLE, FieldReader
from wire.messages.fields import (
    LeaderEndpoint,
    encode_endpoints,
    encode_length,
    encode_tagged,
    encode_text,
)
from wire.primitives import Buffer
from wire.steps import Steps, finished

VERSION_MIN: Final = 3
"""Kafka 4 refuses 0 to 2, which carry message sets (KIP-896)."""
VERSION_MAX: Final = 13
PIECE: Final = 128
"""Partitions of a message that are read or written in one piece."""
_READ_UNITS: Final = 2
"""Cost of a partition of a request."""
_ANSWER_UNITS: Final = 2
"""Cost of a partition of a response."""
_LOG_START_VERSION: Final = 5
_RECORD_ERRORS_VERSION: Final = 8
_FLEXIBLE_VERSION: Final = 9
_LEADER_VERSION: Final = 10
_TOPIC_ID_VERSION: Final = 13

_INT32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqq")
_OFFSET: Final = struct.Struct(">q")
_LEADER: Final = struct.Struct(">iib")
_NOTHING_ELSE: Final = {
    version: b"" if version < _RECORD_ERRORS_VERSION
    else b"\0\0\0\0\xff\xff" if version < _FLEXIBLE_VERSION
    else b"\1\0\0"
    for version in range(VERSION_MIN, VERSION_MAX + 1)
}  # fmt: skip
"""By version: no errors of records, no message and no tagged field, the end of most answers."""


class ProducedPartition(msgspec.Struct, frozen=True):
    """The records for one partition; `topic` is its name, from version 13 on its id (16 bytes)."""

    topic: str | bytes
    partition: int
    records: memoryview | None


class ProduceRequest(msgspec.Struct, frozen=True):
    """A request; the partitions are in its order, those of one topic behind each other."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    partitions: tuple[ProducedPartition, ...]


class PartitionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one partition's append; -1 is none. Fields that a version lacks are left out."""

    topic: str | bytes
    partition: int
    code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()
    message: str | None = None
    leader: tuple[int, int] | None = None
    """Id and epoch, beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH."""


def decode_produce_request(version: int, body: Buffer, position: int = 0) -> ProduceRequest:
    """Read a request at once; as `read_produce_request`."""
    return finished(read_produce_request(version, body, position))


def read_produce_request(version: int, body: Buffer, position: int = 0) -> Steps[ProduceRequest]:
    """Read a request, in pieces of `PIECE` topics and partitions.

    Args:
        version: VERSION_MIN to VERSION_MAX.
        body: the frame; the views of the records share its memory.
        position: behind the header.

    Raises:
        RemoteProtocolError: lengths that do not fit into the frame, a null where none may be, or
            text that is not UTF-8. Bytes behind the request are ignored, as in Kafka.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, f"{version=}"
    reader = FieldReader(body, position, is_flexible=version >= _FLEXIBLE_VERSION)
    try:
        return (yield from _request(reader, version))
    except NOT_READABLE as error:
        raise RemoteProtocolError(f"Produce {version} cannot be read: {error}") from error


def _request(reader: FieldReader, version: int) -> Steps[ProduceRequest]:
    transactional_id = reader.string()
    acks, timeout_ms = reader.unpack(_ACKS_AND_TIMEOUT)
    partitions: list[ProducedPartition] = []
    count = 0
    for _ in range(reader.count()):
        topic = reader.topic(has_id=version >= _TOPIC_ID_VERSION)
        for _ in range(reader.count()):
            (partition,) = reader.unpack(_INT32)
            partitions.append(ProducedPartition(topic, partition, reader.records()))
            reader.end()
            count += 1
            if count % PIECE == 0:
                yield PIECE * _READ_UNITS
        reader.end()
        count += 1
        if count % PIECE == 0:
            yield PIECE * _READ_UNITS
    reader.end()
    return ProduceRequest(transactional_id, acks, timeout_ms, tuple(partitions))


def encode_produce_response(
    version: int,
    answers: list[PartitionAnswer],
    throttle_time_ms: int = 0,
    endpoints: tuple[LeaderEndpoint, ...] = (),
) -> bytes:
    """Write a response at once; as `write_produce_response`."""
    return finished(write_produce_response(version, answers, throttle_time_ms, endpoints))


def write_produce_response(
    version: int,
    answers: list[PartitionAnswer],
    throttle_time_ms: int = 0,
    endpoints: tuple[LeaderEndpoint, ...] = (),
) -> Steps[bytes]:
    """Write a response, without a header, in pieces of `PIECE` partitions.

    Args:
        version: VERSION_MIN to VERSION_MAX.
        answers: of all partitions of the request, those of one topic behind each other.
        throttle_time_ms: how long the client should wait.
        endpoints: of the leaders that the answers name; left out below version 10.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, f"{version=}"
    is_flexible = version >= _FLEXIBLE_VERSION
    topics = [list(of_topic) for _, of_topic in groupby(answers, key=attrgetter("topic"))]
    parts = [encode_length(len(topics), is_flexible=is_flexible)]
    for of_topic in topics:
        topic = of_topic[0].topic
        if isinstance(topic, str):
            topic = encode_text(topic, is_flexible=is_flexible)
        parts.append(topic)
        parts.append(encode_length(len(of_topic), is_flexible=is_flexible))
        for count, answer in enumerate(of_topic, 1):
            parts.append(_answer(version, answer))
            if count % PIECE == 0:
                yield PIECE * _ANSWER_UNITS
        if is_flexible:
            parts.append(b"\0")
    parts.append(_INT32.pack(throttle_time_ms))
    if is_flexible:
        has_endpoints = bool(endpoints) and version >= _LEADER_VERSION
        parts.append(encode_tagged({0: encode_endpoints(endpoints)} if has_endpoints else {}))
    return b"".join(parts)


def _answer(version: int, answer: PartitionAnswer) -> bytes:
    is_flexible = version >= _FLEXIBLE_VERSION
    parts = [
        _PARTITION.pack(
            answer.partition, answer.code.value, answer.base_offset, answer.log_append_time_ms
        )
    ]
    if version >= _LOG_START_VERSION:
        parts.append(_OFFSET.pack(answer.log_start_offset))
    if not answer.record_errors and answer.message is None and answer.leader is None:
        parts.append(_NOTHING_ELSE[version])
        return b"".join(parts)
    if version >= _RECORD_ERRORS_VERSION:
        parts.append(encode_length(len(answer.record_errors), is_flexible=is_flexible))
        for index, message in answer.record_errors:
            parts.append(_INT32.pack(index) + encode_text(message, is_flexible=is_flexible))
            if is_flexible:
                parts.append(b"\0")
        parts.append(encode_text(answer.message, is_flexible=is_flexible))
    if is_flexible:
        leader = answer.leader if version >= _LEADER_VERSION else None
        parts.append(encode_tagged({} if leader is None else {0: _LEADER.pack(*leader, 0)}))
    return b"".join(parts)
