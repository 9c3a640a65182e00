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
from wire.fields import LeaderEndpoint, encode_endpoints, encode_length, encode_tagged, encode_text
from wire.primitives import Buffer, read_unsigned_varint, skip_tagged_fields

VERSION_MIN: Final = 3
"""Kafka 4 refuses 0 to 2, which carry message sets (KIP-896)."""
VERSION_MAX: Final = 13
_LOG_START_VERSION: Final = 5
_RECORD_ERRORS_VERSION: Final = 8
_FLEXIBLE_VERSION: Final = 9
_LEADER_VERSION: Final = 10
_TOPIC_ID_VERSION: Final = 13
_TOPIC_ID_BYTES: Final = 16

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqq")
_OFFSET: Final = struct.Struct(">q")
_LEADER: Final = struct.Struct(">iib")


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
    """Read a request.

    Args:
        version: VERSION_MIN to VERSION_MAX.
        body: the frame; the views of the records share its memory.
        position: behind the header.

    Raises:
        RemoteProtocolError: lengths that do not fit into the frame, a null where none may be, or
            text that is not UTF-8. Bytes behind the request are ignored, as in Kafka.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, f"{version=}"
    reader = _Reader(body, position, is_flexible=version >= _FLEXIBLE_VERSION)
    try:
        return _request(reader, version)
    except (IndexError, ValueError, struct.error, RemoteProtocolError) as error:
        raise RemoteProtocolError(f"Produce {version} cannot be read: {error}") from error


def _request(reader: "_Reader", version: int) -> ProduceRequest:
    transactional_id = reader.string()
    acks, timeout_ms = reader.unpack(_ACKS_AND_TIMEOUT)
    partitions: list[ProducedPartition] = []
    for _ in range(reader.count()):
        topic: str | bytes | None
        if version >= _TOPIC_ID_VERSION:
            topic = bytes(reader.take(_TOPIC_ID_BYTES))
        else:
            topic = reader.string()
        if topic is None:
            raise ValueError("a topic without a name")
        for _ in range(reader.count()):
            (partition,) = reader.unpack(_INT32)
            partitions.append(ProducedPartition(topic, partition, reader.records()))
            reader.end()
        reader.end()
    reader.end()
    return ProduceRequest(transactional_id, acks, timeout_ms, tuple(partitions))


class _Reader:
    """A position in a frame; every length is compared with the bytes that are left."""

    def __init__(self, body: Buffer, position: int, *, is_flexible: bool) -> None:
        self.view = memoryview(body)
        self.position = position
        self._is_flexible = is_flexible

    def take(self, size_bytes: int) -> memoryview:
        """The next bytes."""
        end = self.position + size_bytes
        if size_bytes < 0 or end > len(self.view):
            left = len(self.view) - self.position
            raise ValueError(f"a field of {size_bytes} bytes at {self.position}, {left} are left")
        taken = self.view[self.position : end]
        self.position = end
        return taken

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """The next numbers."""
        numbers = layout.unpack_from(self.view, self.position)
        self.position += layout.size
        return numbers

    def _length(self, layout: struct.Struct) -> int:
        """A length or -1 for null."""
        if not self._is_flexible:
            return self.unpack(layout)[0]
        length, self.position = read_unsigned_varint(self.view, self.position)
        return length - 1

    def count(self) -> int:
        """The length of an array, which may not be null; each element takes a byte at least."""
        count = self._length(_INT32)
        if not 0 <= count <= len(self.view) - self.position:
            raise ValueError(f"an array of {count} elements at {self.position}")
        return count

    def string(self) -> str | None:
        """A text, None for null."""
        length = self._length(_INT16)
        return None if length == -1 else str(self.take(length), "utf-8")

    def records(self) -> memoryview | None:
        """Record batches, None for null."""
        length = self._length(_INT32)
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        """The tagged fields that end a structure; none is known."""
        if self._is_flexible:
            self.position = skip_tagged_fields(self.view, self.position)


def encode_produce_response(
    version: int,
    answers: list[PartitionAnswer],
    throttle_time_ms: int = 0,
    endpoints: tuple[LeaderEndpoint, ...] = (),
) -> bytes:
    """Write a response, without a header.

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
        parts += [_answer(version, answer) for answer in of_topic]
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
