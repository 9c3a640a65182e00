"""Fetch requests to brokers, 4 to 18, read from the frame.

kio needs a microsecond for each partition, this some less and no entities of its own. The metadata
partition has `wire/messages/metadata_fetch.py`, the requests that a follower sends
`wire/messages/replica_fetch.py`.
apache/kafka: clients/.../common/message/FetchRequest.json (4.3.1)
"""

import struct
from typing import Final

import msgspec

from wire.errors import RemoteProtocolError
from wire.messages import one_row
from wire.messages.fetch_versions import (
    FLEXIBLE_VERSION,
    LEADER_EPOCH_VERSION,
    LOG_START_VERSION,
    RACK_VERSION,
    REPLICA_STATE_TAG,
    REPLICA_STATE_VERSION,
    SESSION_VERSION,
    TOPIC_ID_VERSION,
    VERSION_MAX,
    VERSION_MIN,
)
from wire.messages.field_reader import NOT_READABLE, FieldReader
from wire.primitives import Buffer
from wire.steps import Steps, finished

PIECE: Final = 128
"""Partitions that are read in one piece."""
_INT32: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")
_PARTITION_4: Final = struct.Struct(">iqi")
_PARTITION_5: Final = struct.Struct(">iqqi")
_PARTITION_9: Final = struct.Struct(">iiqqi")
_PARTITION_12: Final = struct.Struct(">iiqiqi")


class RequestedPartition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A partition; -1 is none. `topic` is its name, from version 13 on its id (16 bytes)."""

    topic: str | bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class BrokerFetchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a consumer or a follower; -1 is none."""

    replica_id: int
    replica_epoch: int = -1
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    is_committed_only: bool
    """True for isolation level 1, READ_COMMITTED."""
    session_id: int = 0
    session_epoch: int = -1
    partitions: tuple[RequestedPartition, ...]
    forgotten: tuple[tuple[str | bytes, int], ...] = ()
    rack_id: str = ""

    @property
    def is_from_follower(self) -> bool:
        """True if a replica with an id asks; consumers and readers for repair have none."""
        return self.replica_id >= 0


def decode_fetch_request(version: int, body: Buffer, position: int = 0) -> BrokerFetchRequest:
    """Read a request at once; as `read_fetch_request`."""
    if version >= REPLICA_STATE_VERSION:
        request = _of_one_row(body, position)
        if request is not None:
            return request
    return finished(read_fetch_request(version, body, position))


def _of_one_row(body: Buffer, position: int) -> BrokerFetchRequest | None:
    """Read a request for one partition; None if it is another one."""
    size_bytes = len(body) - position
    if size_bytes == one_row.REQUEST.size:
        *fields, marks, replica_id, replica_epoch, _ = one_row.REQUEST.unpack_from(body, position)
        is_one = marks == one_row.REQUEST_END
    elif size_bytes == one_row.CONSUMER_REQUEST.size:
        *fields, marks = one_row.CONSUMER_REQUEST.unpack_from(body, position)
        replica_id = replica_epoch = -1
        is_one = marks == one_row.CONSUMER_REQUEST_END
    else:
        return None
    (
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
        topics, topic, rows, partition, leader_epoch, offset, last_epoch, log_start, size,
    ) = fields  # fmt: skip
    if not is_one or not topics == rows == one_row.ONE or isolation_level not in (0, 1):
        return None
    row = RequestedPartition(
        topic=topic,
        partition=partition,
        fetch_offset=offset,
        max_bytes=size,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start,
    )
    return BrokerFetchRequest(
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        is_committed_only=isolation_level == 1,
        session_id=session_id,
        session_epoch=session_epoch,
        partitions=(row,),
    )


def read_fetch_request(version: int, body: Buffer, position: int = 0) -> Steps[BrokerFetchRequest]:
    """Read a request in pieces; each partition is a unit.

    Args:
        version: VERSION_MIN to VERSION_MAX.
        body: the frame.
        position: behind the header.

    Raises:
        RemoteProtocolError: lengths that do not fit into the frame, a null where none may be, an
            unknown isolation level, or text that is not UTF-8. Bytes behind the request are
            ignored, as in Kafka.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, f"{version=}"
    reader = FieldReader(body, position, is_flexible=version >= FLEXIBLE_VERSION)
    try:
        return (yield from _request(reader, version))
    except NOT_READABLE as error:
        raise RemoteProtocolError(f"Fetch {version} cannot be read: {error}") from error


def _request(reader: FieldReader, version: int) -> Steps[BrokerFetchRequest]:
    replica_id = replica_epoch = -1
    if version < REPLICA_STATE_VERSION:
        (replica_id,) = reader.unpack(_INT32)
    max_wait_ms, min_bytes, max_bytes, isolation_level = reader.unpack(_LIMITS)
    if isolation_level not in (0, 1):
        raise ValueError(f"isolation level {isolation_level}")
    session_id, session_epoch = 0, -1
    if version >= SESSION_VERSION:
        session_id, session_epoch = reader.unpack(_SESSION)
    partitions = yield from _partitions(reader, version)
    forgotten = _forgotten(reader, version) if version >= SESSION_VERSION else ()
    rack_id = reader.text("rack id") if version >= RACK_VERSION else ""
    if version >= FLEXIBLE_VERSION:
        state = reader.tagged().get(REPLICA_STATE_TAG)
        if state is not None and version >= REPLICA_STATE_VERSION:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(state)
    return BrokerFetchRequest(
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        is_committed_only=isolation_level == 1,
        session_id=session_id,
        session_epoch=session_epoch,
        partitions=partitions,
        forgotten=forgotten,
        rack_id=rack_id,
    )


def _partitions(reader: FieldReader, version: int) -> Steps[tuple[RequestedPartition, ...]]:
    partitions: list[RequestedPartition] = []
    for _ in range(reader.count()):
        topic = reader.topic(has_id=version >= TOPIC_ID_VERSION)
        for _ in range(reader.count()):
            partitions.append(_partition(reader, version, topic))
            reader.end()
            if len(partitions) % PIECE == 0:
                yield PIECE
        reader.end()
    return tuple(partitions)


def _partition(reader: FieldReader, version: int, topic: str | bytes) -> RequestedPartition:
    leader_epoch = last_epoch = log_start = -1
    if version >= FLEXIBLE_VERSION:
        number, leader_epoch, offset, last_epoch, log_start, size = reader.unpack(_PARTITION_12)
    elif version >= LEADER_EPOCH_VERSION:
        number, leader_epoch, offset, log_start, size = reader.unpack(_PARTITION_9)
    elif version >= LOG_START_VERSION:
        number, offset, log_start, size = reader.unpack(_PARTITION_5)
    else:
        number, offset, size = reader.unpack(_PARTITION_4)
    return RequestedPartition(
        topic=topic,
        partition=number,
        fetch_offset=offset,
        max_bytes=size,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start,
    )


def _forgotten(reader: FieldReader, version: int) -> tuple[tuple[str | bytes, int], ...]:
    forgotten: list[tuple[str | bytes, int]] = []
    for _ in range(reader.count()):
        topic = reader.topic(has_id=version >= TOPIC_ID_VERSION)
        forgotten += [(topic, reader.unpack(_INT32)[0]) for _ in range(reader.count())]
        reader.end()
    return tuple(forgotten)
