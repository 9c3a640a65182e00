"""Fetch of the metadata partition, versions 17 and 18, as straight-line code.

A replica fetches twice per committed batch, so Fetch is the most frequent message of a quorum;
kio's generic reader and writer take 60 to 130 us for one. Inside the project a Fetch of exactly
partition 0 of `__cluster_metadata` is a value of `wire/messages/fetch_messages.py` whatever its
version; any other Fetch keeps kio's class. A message of unusual form (more partitions, unknown
tagged fields, a rack) gives None and is left to kio. A property test proves equality with kio.
(apache/kafka: clients/.../common/message/Fetch{Request,Response}.json)
"""

import struct
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from wire.errors import ErrorCode
from wire.ids import directory_id_of, directory_uuid, node_id_of, node_number
from wire.messages.fetch_messages import HIGH_WATERMARK_UNSUPPORTED, FetchRequest, FetchResponse
from wire.messages.fetch_versions import HIGH_WATERMARK_VERSION
from wire.primitives import encode_unsigned_varint, read_unsigned_varint
from wire.types import (
    METADATA_TOPIC_ID,
    ZERO_UUID,
    DirectoryId,
    Endpoint,
    LeaderEpoch,
    NodeId,
    Offset,
    OffsetAndEpoch,
    milliseconds,
)

FIRST_VERSION: Final = 17

_REQUEST_START: Final = struct.Struct(">iiibiiB16sBiiqiqi")
"""Max wait, min and max bytes, isolation, session id and epoch, topics, topic id, partitions,
then partition, leader epoch, offset, last fetched epoch, log start offset, partition max bytes."""
_RESPONSE_START: Final = struct.Struct(">ihiB16sBihqqqBi")
"""Throttle, error, session id, topics, topic id, partitions, then partition, error, high
watermark, last stable offset, log start offset, aborted transactions, preferred replica."""
_REPLICA_STATE: Final = struct.Struct(">iq")
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_SNAPSHOT: Final = struct.Struct(">qi")
_ONE: Final = 2  # the length byte of a compact array of one
_NONE: Final = 1  # and of an empty one
_TOPIC_UUID: Final = UUID(bytes=METADATA_TOPIC_ID)
_SHORT: Final = 0x7F  # lengths below this are one byte
_NOT_READABLE: Final = (struct.error, IndexError, ValueError)
_KEPT_MAX: Final = 64
"""Number of cached responses: a leader sends equal ones to all followers, repeatedly."""
_KEPT_BYTES_MAX: Final = 512


# ---- the request -------------------------------------------------------------------------------


def encode_request(version: int, fetch: FetchRequest) -> bytes:
    """The body of a request, without a header."""
    assert version >= FIRST_VERSION, f"{version=}"
    start = _REQUEST_START.pack(
        fetch.max_wait_ms, 0, fetch.max_bytes, 0, 0, -1, _ONE, METADATA_TOPIC_ID, _ONE,
        0, fetch.current_leader_epoch, fetch.fetch_offset, fetch.last_fetched_epoch, -1, 0,
    )  # fmt: skip
    directory_id = fetch.replica_directory_id
    tags = b"" if directory_id is None else b"\x00\x10" + directory_id
    count = 0 if directory_id is None else 1
    watermark = fetch.high_watermark
    if version >= HIGH_WATERMARK_VERSION and watermark != HIGH_WATERMARK_UNSUPPORTED:
        tags += b"\x01\x08" + _INT64.pack(watermark)
        count += 1
    # Then the topic's tagged fields, no forgotten topics, no rack.
    return b"".join(
        (start, bytes((count,)), tags, b"\x00\x01\x01", _origin(fetch.cluster_id, fetch.replica_id))
    )


@lru_cache(64)
def _origin(cluster_id: str | None, replica_id: NodeId | None) -> bytes:
    """The tagged fields of the whole request: cluster id and replica state."""
    tags, count = b"", 0
    if cluster_id is not None:
        text = cluster_id.encode()
        content = encode_unsigned_varint(len(text) + 1) + text
        tags, count = b"\x00" + encode_unsigned_varint(len(content)) + content, 1
    if replica_id is not None:
        tags += b"\x01\x0d" + _REPLICA_STATE.pack(replica_id, -1) + b"\x00"
        count += 1
    return bytes((count,)) + tags


def decode_request(
    body: bytes, position: int = 0, version: int = HIGH_WATERMARK_VERSION
) -> FetchRequest | None:
    """The request of version 17 or 18 at a position; None for one of unusual form."""
    assert version >= FIRST_VERSION, f"{version=}"
    try:
        return _decode_request(body, position, version)
    except _NOT_READABLE:
        return None


def _decode_request(body: bytes, position: int, version: int) -> FetchRequest | None:
    """Decode the usual Fetch of the metadata partition; None for any other request."""
    (
        max_wait_ms, _, max_bytes, _, _, _, topics, topic_id, partitions,
        partition, leader_epoch, fetch_offset, last_epoch, _, _,
    ) = _REQUEST_START.unpack_from(body, position)  # fmt: skip
    ours = topics == _ONE and partitions == _ONE and partition == 0
    if not ours or topic_id != METADATA_TOPIC_ID:
        return None
    position += _REQUEST_START.size
    tags, position = body[position], position + 1
    directory_id, watermark = None, HIGH_WATERMARK_UNSUPPORTED
    for _ in range(tags):
        tag = body[position : position + 2]
        position += 2
        if tag == b"\x00\x10":
            uuid = body[position : position + 16]
            directory_id = None if uuid == ZERO_UUID else DirectoryId(uuid)
            position += 16
        elif tag == b"\x01\x08" and version >= HIGH_WATERMARK_VERSION:
            (watermark,) = _INT64.unpack_from(body, position)
            position += 8
        else:
            return None
    if body[position : position + 3] != b"\x00\x01\x01":
        return None
    origin = _read_origin(body[position + 3 :])
    if origin is None:
        return None
    return FetchRequest(
        cluster_id=origin[0],
        replica_id=origin[1],
        replica_directory_id=directory_id,
        current_leader_epoch=LeaderEpoch(leader_epoch),
        fetch_offset=Offset(fetch_offset),
        last_fetched_epoch=LeaderEpoch(last_epoch),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        high_watermark=watermark,
    )


@lru_cache(64)
def _read_origin(section: bytes) -> tuple[str | None, NodeId | None] | None:
    """Cluster id and replica id of the last tagged fields; bytes after them are ignored."""
    cluster_id, replica_id = None, None
    tags, position = section[0], 1
    for _ in range(tags):
        tag, size = section[position], section[position + 1]
        position += 2
        content = section[position : position + size]
        position += size
        if tag == 0 and 0 < size < _SHORT and len(content) == size == content[0]:
            cluster_id = content[1:].decode()
        elif tag == 1 and len(content) == size == _REPLICA_STATE.size + 1 and content[-1] == 0:
            replica_id = node_id_of(_REPLICA_STATE.unpack_from(content)[0])
        else:
            return None
    return cluster_id, replica_id


# ---- the response ------------------------------------------------------------------------------


def encode_response(fetched: FetchResponse) -> bytes:
    """The body of a response of version 17 or 18, without a header."""
    assert not fetched.top_error_code, f"{fetched=} is about no partition"
    is_kept = len(fetched.records) <= _KEPT_BYTES_MAX
    return _kept_content(fetched) if is_kept else _encode_response(fetched)


def _encode_response(fetched: FetchResponse) -> bytes:
    """Encode a response for the metadata partition with the tagged fields that it has."""
    start = _RESPONSE_START.pack(
        0, 0, 0, _ONE, METADATA_TOPIC_ID, _ONE,
        0, fetched.error_code, fetched.high_watermark, -1, fetched.log_start_offset, _NONE, -1,
    )  # fmt: skip
    count, tags = 0, b""
    diverging, snapshot_id = fetched.diverging_epoch, fetched.snapshot_id
    if diverging is not None:
        tags = b"\x00\x0d" + _EPOCH_END.pack(diverging.epoch, diverging.offset) + b"\x00"
        count = 1
    leader_id, leader_epoch = node_number(fetched.leader_id), fetched.leader_epoch
    if leader_id != -1 or leader_epoch != -1:
        tags += b"\x01\x09" + _LEADER.pack(leader_id, leader_epoch) + b"\x00"
        count += 1
    if snapshot_id is not None:
        tags += b"\x02\x0d" + _SNAPSHOT.pack(snapshot_id.offset, snapshot_id.epoch) + b"\x00"
        count += 1
    records = fetched.records
    length = encode_unsigned_varint(len(records) + 1)
    # Then the topic's tagged fields.
    where = _endpoint(fetched.leader_id, fetched.leader_endpoint)
    return b"".join((start, length, records, bytes((count,)), tags, b"\x00", where))


_kept_content = lru_cache(_KEPT_MAX)(_encode_response)


@lru_cache(64)
def _endpoint(leader_id: NodeId | None, endpoint: Endpoint | None) -> bytes:
    """The tagged fields of the whole response: the leader's endpoint."""
    if leader_id is None or endpoint is None:
        return b"\x00"
    name = endpoint.host.encode()
    content = encode_unsigned_varint(2) + _INT32.pack(leader_id)
    content += encode_unsigned_varint(len(name) + 1) + name
    content += _INT32.pack(endpoint.port) + b"\x00\x00"  # no rack
    return b"\x01\x00" + encode_unsigned_varint(len(content)) + content


def decode_response(body: bytes, position: int = 0) -> FetchResponse | None:
    """The response of version 17 or 18 at a position; None for one of unusual form."""
    try:
        if len(body) - position > _KEPT_BYTES_MAX:
            return _decode_response(body, position)
        return _kept_response(body[position:])
    except _NOT_READABLE:
        return None


@lru_cache(_KEPT_MAX)
def _kept_response(body: bytes) -> FetchResponse | None:
    return _decode_response(body, 0)


def _decode_response(body: bytes, position: int) -> FetchResponse | None:
    """Decode the usual response for the metadata partition; None for any other."""
    (
        _, top_error, _, topics, topic_id, partitions,
        partition, error_code, high_watermark, _, log_start_offset, aborted, _,
    ) = _RESPONSE_START.unpack_from(body, position)  # fmt: skip
    ours = topics == _ONE and partitions == _ONE and partition == 0 and aborted <= _NONE
    if top_error or not ours or topic_id != METADATA_TOPIC_ID:
        return None
    length, position = read_unsigned_varint(body, position + _RESPONSE_START.size)
    records = body[position : position + length - 1] if length else b""
    position += len(records)
    diverging, leader, snapshot_id, position = _read_tags(body, position)
    leader_id = node_id_of(leader[0])
    endpoints = _read_endpoints(body[position + 1 :])
    if body[position] != 0 or endpoints is None:
        return None
    return FetchResponse(
        error_code=error_code,
        leader_id=leader_id,
        leader_epoch=LeaderEpoch(leader[1]),
        leader_endpoint=_endpoint_of(leader_id, endpoints),
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        diverging_epoch=diverging,
        snapshot_id=snapshot_id,
        records=records,
    )


def _read_tags(
    body: bytes, position: int
) -> tuple[OffsetAndEpoch | None, tuple[int, int], OffsetAndEpoch | None, int]:
    """Diverging epoch, leader and snapshot of the partition, and the position after them.

    Raises:
        ValueError: there are other tagged fields, or their form is unusual.
    """
    count, position = body[position], position + 1
    diverging = snapshot_id = None
    leader = (-1, -1)
    for _ in range(count):
        tag, position = body[position : position + 2], position + 2
        if tag == b"\x01\x09":
            leader = _LEADER.unpack_from(body, position)
            position += _LEADER.size
        elif tag == b"\x00\x0d":
            epoch, offset = _EPOCH_END.unpack_from(body, position)
            diverging = _position(offset, epoch)
            position += _EPOCH_END.size
        elif tag == b"\x02\x0d":
            offset, epoch = _SNAPSHOT.unpack_from(body, position)
            snapshot_id = _position(offset, epoch)
            position += _SNAPSHOT.size
        else:
            raise ValueError(f"unusual tag {tag!r}")
        if body[position] != 0:
            raise ValueError("unusual tagged fields")
        position += 1
    return diverging, leader, snapshot_id, position


def _endpoint_of(
    leader_id: NodeId | None, endpoints: tuple[tuple[int, str, int], ...]
) -> Endpoint | None:
    """The leader's endpoint: the first of the node endpoints with its id."""
    for node_id, host, port in endpoints:
        if node_id == leader_id:
            return Endpoint("", host, port)
    return None


def _position(offset: int, epoch: int) -> OffsetAndEpoch | None:
    if offset < 0 or epoch < 0:
        return None
    return OffsetAndEpoch(Offset(offset), LeaderEpoch(epoch))


@lru_cache(64)
def _read_endpoints(section: bytes) -> tuple[tuple[int, str, int], ...] | None:
    """Node endpoints of the last tagged fields; bytes after them are ignored."""
    if section[0] == 0:
        return ()
    if section[:2] != b"\x01\x00":
        return None
    size, position = read_unsigned_varint(section, 2)
    end = position + size
    count, position = read_unsigned_varint(section, position)
    if count == 0:
        return None
    endpoints = []
    for _ in range(count - 1):
        (node_id,) = _INT32.unpack_from(section, position)
        length, position = read_unsigned_varint(section, position + _INT32.size)
        if length == 0:
            return None
        host = section[position : position + length - 1].decode()
        position += length - 1
        (port,) = _INT32.unpack_from(section, position)
        position += _INT32.size
        if section[position : position + 2] != b"\x00\x00":
            return None
        position += 2
        endpoints.append((node_id, host, port))
    return tuple(endpoints) if position == end else None


# ---- other versions, through kio's newest classes -----------------------------------------------


def request_from_kio(body: Any) -> FetchRequest | None:
    """The request in kio's newest shape; None unless it is about the metadata partition."""
    if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
        return None
    topic, partition = body.topics[0], body.topics[0].partitions[0]
    if topic.topic_id != _TOPIC_UUID or partition.partition != 0:
        return None
    return FetchRequest(
        cluster_id=body.cluster_id,
        replica_id=node_id_of(body.replica_state.replica_id),
        replica_directory_id=directory_id_of(partition.replica_directory_id),
        current_leader_epoch=partition.current_leader_epoch,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        max_wait_ms=milliseconds(body.max_wait),
        max_bytes=body.max_bytes,
        high_watermark=partition.high_watermark,
    )


def request_to_kio(new: Any, fetch: FetchRequest) -> Any:
    """The request as an entity of kio's newest request module."""
    partition = new.FetchPartition(
        partition=0,
        current_leader_epoch=fetch.current_leader_epoch,
        fetch_offset=fetch.fetch_offset,
        last_fetched_epoch=fetch.last_fetched_epoch,
        partition_max_bytes=0,
        replica_directory_id=directory_uuid(fetch.replica_directory_id),
        high_watermark=fetch.high_watermark,
    )
    return new.FetchRequest(
        cluster_id=fetch.cluster_id,
        replica_state=new.ReplicaState(replica_id=node_number(fetch.replica_id)),
        max_wait=timedelta(milliseconds=fetch.max_wait_ms),
        min_bytes=0,
        max_bytes=fetch.max_bytes,
        topics=(new.FetchTopic(topic_id=_TOPIC_UUID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def response_from_kio(body: Any) -> FetchResponse | None:
    """The response in kio's newest shape; None unless it is about the metadata partition."""
    if body.error_code.value or len(body.responses) != 1 or len(body.responses[0].partitions) != 1:
        return None
    topic, partition = body.responses[0], body.responses[0].partitions[0]
    if topic.topic_id != _TOPIC_UUID or partition.partition_index != 0:
        return None
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    leader_id = node_id_of(partition.current_leader.leader_id)
    endpoints = tuple((node.node_id, node.host, node.port) for node in body.node_endpoints)
    return FetchResponse(
        error_code=partition.error_code.value,
        leader_id=leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        leader_endpoint=_endpoint_of(leader_id, endpoints),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging_epoch=_position(diverging.end_offset, diverging.epoch),
        snapshot_id=_position(snapshot_id.end_offset, snapshot_id.epoch),
        records=bytes(partition.records or b""),
    )


def response_to_kio(new: Any, fetched: FetchResponse) -> Any:
    """The response as an entity of kio's newest response module."""
    more: dict[str, Any] = {}
    diverging, snapshot_id = fetched.diverging_epoch, fetched.snapshot_id
    if diverging is not None:
        more["diverging_epoch"] = new.EpochEndOffset(
            epoch=diverging.epoch, end_offset=diverging.offset
        )
    if snapshot_id is not None:
        more["snapshot_id"] = new.SnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch)
    leader_id, endpoint = node_number(fetched.leader_id), fetched.leader_endpoint
    nodes: tuple[Any, ...] = ()
    if leader_id >= 0 and endpoint is not None:
        nodes = (new.NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port),)
    partition = new.PartitionData(
        partition_index=0,
        error_code=ErrorCode(fetched.error_code),
        high_watermark=fetched.high_watermark,
        log_start_offset=fetched.log_start_offset,
        current_leader=new.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=fetched.leader_epoch),
        aborted_transactions=(),
        records=fetched.records,
        **more,
    )
    return new.FetchResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        responses=(new.FetchableTopicResponse(topic_id=_TOPIC_UUID, partitions=(partition,)),),
        node_endpoints=nodes,
    )
