"""Fetch 13 to 18 of a follower: requests in one pass, responses as views into the frame.

The records of a response are megabytes, which the follower writes to its log from the buffer that
they arrived in; kio would copy them. Topics have ids in these versions. The metadata partition has
`wire/messages/metadata_fetch.py`; the leader's side are `wire/messages/fetch_request.py` and
`fetch_response.py`.
apache/kafka: clients/.../common/message/Fetch{Request,Response}.json (4.3.1)
"""

import struct
from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec

from wire.errors import ErrorCode, RemoteProtocolError
from wire.messages import one_row
from wire.messages.fetch_versions import (
    CURRENT_LEADER_TAG,
    DIRECTORY_TAG,
    DIRECTORY_VERSION,
    DIVERGING_EPOCH_TAG,
    HIGH_WATERMARK_TAG,
    HIGH_WATERMARK_VERSION,
    REPLICA_STATE_TAG,
    REPLICA_STATE_VERSION,
    VERSION_MAX,
)
from wire.messages.field_reader import NOT_READABLE, FieldReader
from wire.messages.fields import encode_length, encode_tagged
from wire.primitives import Buffer, read_unsigned_varint
from wire.types import (
    BrokerEpoch,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    TopicId,
    TopicIdPartition,
)

VERSION_MIN: Final = 13
"""The first with ids of topics. Kafka 3.1 and later know it."""

_INT32: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">iiibii")
"""Max wait, min and max bytes, isolation level, session id and epoch."""
_REPLICA_STATE: Final = struct.Struct(">iqb")
_ROW: Final = struct.Struct(">iiqiqi")
"""Partition, leader epoch, fetch offset, last fetched epoch, log start offset, max bytes."""
_INT64: Final = struct.Struct(">q")
_RESPONSE: Final = struct.Struct(">ihi")
"""Throttle time, error, session id."""
_PARTITION: Final = struct.Struct(">ihqqq")
"""Partition, error, high watermark, last stable offset, log start offset."""
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_KNOWN_CODES: Final = frozenset(code.value for code in ErrorCode)
_NONE: Final = memoryview(b"")


class ReplicaFetchRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Row of a Fetch request for a partition."""

    fetch_offset: Offset
    current_leader_epoch: LeaderEpoch
    last_fetched_epoch: LeaderEpoch | None
    """Of the last record, None for an empty log."""
    log_start_offset: Offset
    max_bytes: int
    directory_id: DirectoryId | None = None
    """Left out below version 17."""
    high_watermark: Offset | None = None
    """None for one that is not told; left out below version 18."""


class ReplicaFetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request; without a session its id is 0 and its epoch -1."""

    replica_id: NodeId
    replica_epoch: BrokerEpoch | None = None
    """Broker epoch of the follower, None while it is unknown; left out below version 15."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int = 0
    session_epoch: int = -1
    rows: Sequence[tuple[TopicIdPartition, ReplicaFetchRow]] = ()
    """In this order; a topic is written once for all its rows behind each other."""
    forgotten: Sequence[TopicIdPartition] = ()


class ReplicaFetchedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's answer for a partition."""

    key: TopicIdPartition
    code: ErrorCode = ErrorCode.none
    high_watermark: Offset
    log_start_offset: Offset
    diverging_epoch: OffsetAndEpoch | None = None
    leader: tuple[NodeId, LeaderEpoch] | None = None
    """The current leader as the answering broker knows it."""
    records: memoryview = _NONE
    """Batches, the last maybe cut; empty for none."""


class ReplicaFetchResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response; the error is that of the session or of the whole request."""

    code: ErrorCode = ErrorCode.none
    session_id: int = 0
    partitions: tuple[ReplicaFetchedPartition, ...] = ()


def encode_replica_fetch(version: int, request: ReplicaFetchRequest) -> bytes:
    """Write a request, without a header.

    Args:
        version: VERSION_MIN to VERSION_MAX.
        request: all records up to the log end are asked for, as followers do.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, f"{version=}"
    has_state = version >= REPLICA_STATE_VERSION
    if has_state and len(request.rows) == 1 and not request.forgotten:
        (((topic, partition), row),) = request.rows
        if row.directory_id is None and row.high_watermark is None:
            return _of_one_row(request, topic, partition, row)
    replica_id = request.replica_id
    epoch = -1 if request.replica_epoch is None else request.replica_epoch
    parts = [] if has_state else [_INT32.pack(replica_id)]
    parts.append(
        _LIMITS.pack(
            request.max_wait_ms, request.min_bytes, request.max_bytes, 0,
            request.session_id, request.session_epoch,
        )
    )  # fmt: skip
    topics = [(topic, list(rows)) for topic, rows in groupby(request.rows, lambda row: row[0][0])]
    parts.append(encode_length(len(topics), is_flexible=True))
    for topic, rows in topics:
        parts += (topic, encode_length(len(rows), is_flexible=True))
        parts += [_row(version, partition, row) for (_, partition), row in rows]
        parts.append(b"\0")
    parts.append(_forgotten(request.forgotten))
    tagged = {REPLICA_STATE_TAG: _REPLICA_STATE.pack(replica_id, epoch, 0)} if has_state else {}
    parts += (b"\1", encode_tagged(tagged))  # behind a rack of no letters
    return b"".join(parts)


def _of_one_row(
    request: ReplicaFetchRequest, topic: TopicId, partition: int, row: ReplicaFetchRow
) -> bytes:
    """A request for one partition, from version 15 on; the row has no tagged fields."""
    return one_row.REQUEST.pack(
        request.max_wait_ms, request.min_bytes, request.max_bytes, 0,
        request.session_id, request.session_epoch,
        one_row.ONE, topic, one_row.ONE,
        partition, row.current_leader_epoch, row.fetch_offset,
        -1 if row.last_fetched_epoch is None else row.last_fetched_epoch,
        row.log_start_offset, row.max_bytes,
        one_row.REQUEST_END, request.replica_id,
        -1 if request.replica_epoch is None else request.replica_epoch, one_row.NULL,
    )  # fmt: skip


def _row(version: int, partition: int, row: ReplicaFetchRow) -> bytes:
    start = _ROW.pack(
        partition,
        row.current_leader_epoch,
        row.fetch_offset,
        -1 if row.last_fetched_epoch is None else row.last_fetched_epoch,
        row.log_start_offset,
        row.max_bytes,
    )
    tagged: dict[int, bytes] = {}
    if version >= DIRECTORY_VERSION and row.directory_id is not None:
        tagged[DIRECTORY_TAG] = row.directory_id
    if version >= HIGH_WATERMARK_VERSION and row.high_watermark is not None:
        tagged[HIGH_WATERMARK_TAG] = _INT64.pack(row.high_watermark)
    return start + (encode_tagged(tagged) if tagged else b"\0")


def _forgotten(keys: Sequence[TopicIdPartition]) -> bytes:
    topics = [(topic, list(of_topic)) for topic, of_topic in groupby(keys, lambda key: key[0])]
    parts = [encode_length(len(topics), is_flexible=True)]
    for topic, of_topic in topics:
        parts += (topic, encode_length(len(of_topic), is_flexible=True))
        parts += [_INT32.pack(partition) for _, partition in of_topic]
        parts.append(b"\0")
    return b"".join(parts)


def decode_replica_fetched(version: int, body: Buffer, position: int = 0) -> ReplicaFetchResponse:
    """Read a response.

    Args:
        version: VERSION_MIN to VERSION_MAX, which have the same fields but for endpoints of
            brokers, which a follower knows from the metadata.
        body: the frame; the views of the records share its memory.
        position: behind the header.

    Raises:
        RemoteProtocolError: lengths that do not fit into the frame, or a null where none may be.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, f"{version=}"
    try:
        return _response_of_one_row(body, position) or _response(
            FieldReader(body, position, is_flexible=True)
        )
    except NOT_READABLE as error:
        raise RemoteProtocolError(f"Fetch response {version} cannot be read: {error}") from error


def _response_of_one_row(body: Buffer, position: int) -> ReplicaFetchResponse | None:
    """Read a response for one partition; None if it is another one."""
    start = position + one_row.RESPONSE.size
    if len(body) <= start:
        return None
    (
        _, code, session_id, topics, topic, rows,
        partition, row_code, high_watermark, _, log_start_offset, aborted, _,
    ) = one_row.RESPONSE.unpack_from(body, position)  # fmt: skip
    if not (topics == rows == one_row.ONE and aborted == one_row.NULL):
        return None
    length, start = read_unsigned_varint(body, start)
    if length == 0:
        return None
    end = start + length - 1
    if body[end:] != one_row.RESPONSE_END:
        return None
    answer = ReplicaFetchedPartition(
        key=(TopicId(topic), partition),
        code=_code(row_code),
        high_watermark=Offset(high_watermark),
        log_start_offset=Offset(log_start_offset),
        records=memoryview(body)[start:end],
    )
    return ReplicaFetchResponse(code=_code(code), session_id=session_id, partitions=(answer,))


def _response(reader: FieldReader) -> ReplicaFetchResponse:
    _, code, session_id = reader.unpack(_RESPONSE)
    partitions: list[ReplicaFetchedPartition] = []
    for _ in range(reader.count()):
        topic = TopicId(reader.topic_id())
        partitions += [_partition(reader, topic) for _ in range(reader.count())]
        reader.end()
    reader.end()
    return ReplicaFetchResponse(
        code=_code(code), session_id=session_id, partitions=tuple(partitions)
    )


def _partition(reader: FieldReader, topic: TopicId) -> ReplicaFetchedPartition:
    partition, code, high_watermark, _, log_start_offset = reader.unpack(_PARTITION)
    for _ in range(reader.nullable_count() or 0):  # aborted transactions, of consumers
        reader.unpack(_ABORTED)
        reader.end()
    reader.unpack(_INT32)  # preferred replica, of consumers
    records = reader.records()
    diverging = leader = None
    for number, content in reader.tagged().items():
        if number == DIVERGING_EPOCH_TAG:
            epoch, end_offset = _EPOCH_END.unpack_from(content)
            if epoch >= 0:
                diverging = OffsetAndEpoch(Offset(end_offset), LeaderEpoch(epoch))
        elif number == CURRENT_LEADER_TAG:
            leader_id, leader_epoch = _LEADER.unpack_from(content)
            if leader_id >= 0:
                leader = (NodeId(leader_id), LeaderEpoch(leader_epoch))
    return ReplicaFetchedPartition(
        key=(topic, partition),
        code=_code(code),
        high_watermark=Offset(high_watermark),
        log_start_offset=Offset(log_start_offset),
        diverging_epoch=diverging,
        leader=leader,
        records=_NONE if records is None else records,
    )


def _code(value: int) -> ErrorCode:
    """The error; one that is newer than this code is an unknown one, as in Kafka."""
    return ErrorCode(value) if value in _KNOWN_CODES else ErrorCode.unknown_server_error
