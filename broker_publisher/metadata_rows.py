"""Metadata responses from bytes cached per topic: versions 10 to 13.

A response with all topics of 100,000 partitions is 7 MB; encoding it from objects takes over a
second. A topic's row is the same bytes in these versions and for every client of one listener, so
it is encoded once, directly from the image, and cached until a record changes the topic or any
broker. The cache holds only bytes, so old images are freed.

Everything else (errors, operations, older versions) is `responses.metadata_response`, and a
property test holds both to the same bytes.
"""

import struct
from dataclasses import replace
from typing import Any, Final

from broker_publisher.partition_view import INTERNAL_TOPICS, leader_view, offline_replicas
from broker_publisher.responses import ResponseContext, metadata_response
from metadata.delta import MetadataDelta
from metadata.image import Image, Partition, Topic, sorted_items
from wire.api_keys import METADATA
from wire.messages.codec import encode_response
from wire.primitives import encode_unsigned_varint
from wire.types import NodeId, TopicId

FIRST_VERSION: Final = 10
"""First version with topic ids; 9 is flexible too, but current clients do not send it."""
LAST_VERSION: Final = 13
TAIL_BYTES: Final = {10: 5, 11: 1, 12: 1, 13: 3}
"""Bytes after the topics: cluster operations (10), the error code (13), and no tagged fields."""
KNOWN_MAX: Final = 4096
"""Cached encodings of replica lists per listener; a full cache is cleared."""
_START: Final = struct.Struct(">hiii")  # error code, index, leader, leader epoch
_TOPIC_END: Final = struct.pack(">ib", -(2**31), 0)  # operations not requested, no tagged fields
_NO_ERROR: Final = b"\x00\x00"
_CORRELATION_ID: Final = struct.Struct(">i")

_Placement = tuple[tuple[NodeId, ...], tuple[NodeId, ...], tuple[bytes, ...]]


class _Listener:
    """Cached bytes for clients of one listener."""

    def __init__(self) -> None:
        self.rows: dict[TopicId, bytes] = {}
        self.frames: dict[tuple[int, NodeId, str], bytes] = {}  # without topics, by version
        self.leaders: dict[NodeId, tuple[int, NodeId]] = {}
        self.placements: dict[_Placement, bytes] = {}


class MetadataRows:
    """Cached bytes of one node; `forget` must be called with the delta of every new image."""

    def __init__(self) -> None:
        self._listeners: dict[str, _Listener] = {}
        self._topic_ids: list[TopicId] | None = None  # by name

    def forget(self, delta: MetadataDelta) -> None:
        """Drop the rows that a delta makes stale: all of them if a broker changed."""
        if delta.topics_created or delta.topics_deleted:
            self._topic_ids = None
        if delta.brokers:
            self._listeners.clear()
            return
        for listener in self._listeners.values():
            for topic_id in delta.topics_changed | delta.topics_deleted:
                listener.rows.pop(topic_id, None)

    def frame(
        self,
        image: Image,
        request: Any,
        context: ResponseContext,
        api_version: int,
        correlation_id: int,
    ) -> bytes | None:
        """Return the response frame with its header; None if `metadata_response` must answer.

        Args:
            image: the image after the last delta given to `forget`.
            request: kio's newest MetadataRequest.
            context: as for `metadata_response`.
            api_version: version of request and response.
            correlation_id: correlation id of the request.
        """
        if not FIRST_VERSION <= api_version <= LAST_VERSION:
            return None
        if request.include_topic_authorized_operations:
            return None
        topic_ids = self._wanted(image, request)
        if topic_ids is None:
            return None
        listener = self._listeners.setdefault(context.listener, _Listener())
        rows = listener.rows
        parts = []
        for topic_id in topic_ids:
            row = rows.get(topic_id)
            if row is None:
                topic = image.topics[topic_id]
                row = rows[topic_id] = _row(listener, image, topic, context.listener)
            parts.append(row)
        empty = _empty_frame(listener, image, request, context, api_version)
        size = TAIL_BYTES[api_version]
        head, tail = empty[4 : -size - 1], empty[-size:]
        count = encode_unsigned_varint(len(parts) + 1)
        return b"".join([_CORRELATION_ID.pack(correlation_id), head, count, *parts, tail])

    def _wanted(self, image: Image, request: Any) -> list[TopicId] | None:
        """Return the ids of the requested topics, in response order; None if one is an error."""
        if request.topics is None:
            if self._topic_ids is None:
                self._topic_ids = [id_ for _, id_ in sorted_items(image.topic_id_by_name)]
            return self._topic_ids
        wanted = []
        for name in dict.fromkeys(topic.name for topic in request.topics):
            topic_id = None if name is None else image.topic_id_by_name.get(name)
            if topic_id is None:
                return None
            wanted.append(topic_id)
        if any(topic.topic_id is not None for topic in request.topics):
            return None
        return wanted


def _empty_frame(
    listener: _Listener, image: Image, request: Any, context: ResponseContext, api_version: int
) -> bytes:
    """Return the frame of a response without topics; its correlation id is to be replaced."""
    key = (api_version, context.controller_id, context.cluster_id)
    found = listener.frames.get(key)
    if found is None:
        body = metadata_response(image, replace(request, topics=()), context, api_version)
        found = listener.frames[key] = encode_response(METADATA, api_version, 0, body)
    return found


def _row(listener: _Listener, image: Image, topic: Topic, name: str) -> bytes:
    """Encode a topic without error."""
    raw = topic.name.encode()
    parts = [
        _NO_ERROR,
        encode_unsigned_varint(len(raw) + 1),
        raw,
        topic.topic_id,
        b"\x01" if topic.name in INTERNAL_TOPICS else b"\x00",
        encode_unsigned_varint(len(topic.partitions) + 1),
    ]
    leaders, placements = listener.leaders, listener.placements
    for number, partition in sorted_items(topic.partitions):
        leader = leaders.get(partition.leader)
        if leader is None:
            view = leader_view(image, partition, name)
            leader = leaders[partition.leader] = (view.error.value, view.leader_id)
        parts.append(_START.pack(leader[0], number, leader[1], partition.leader_epoch))
        placement = (partition.replicas, partition.isr, partition.directories)
        nodes = placements.get(placement)
        if nodes is None:
            if len(placements) >= KNOWN_MAX:
                placements.clear()
            nodes = placements[placement] = _nodes(image, partition, name)
        parts.append(nodes)
    parts.append(_TOPIC_END)
    return b"".join(parts)


def _nodes(image: Image, partition: Partition, listener: str) -> bytes:
    """Encode a partition's replicas, ISR, offline replicas and empty tagged fields."""
    offline = offline_replicas(image, partition, listener)
    return b"".join([*map(_ids, (partition.replicas, partition.isr, offline)), b"\x00"])


def _ids(ids: tuple[NodeId, ...]) -> bytes:
    return encode_unsigned_varint(len(ids) + 1) + struct.pack(f">{len(ids)}i", *ids)
