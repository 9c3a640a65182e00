"""OffsetCommit as nearly every client sends it, from version 8 on: read at once, without kio.

    group | generation | member | instance | topics [ name, from 10 its id | partitions [ row ] ]

Such a request has no tagged fields, no text beside an offset, and lengths of one byte, so that rows
have one size. Whatever looks otherwise is read field by field, which also finds the error in it.
(apache/kafka: clients/src/main/resources/common/message/OffsetCommitRequest.json)
"""

import struct
from typing import Final

import msgspec

from wire.primitives import Buffer
from wire.types import TopicId

VERSION_MIN: Final = 8
"""First version with compact lengths."""
TOPIC_ID_FROM: Final = 10
_LENGTH_MAX: Final = 127
"""Largest length of one byte; it is one more than what it counts."""
_ROW: Final = struct.Struct(">iqiBB")
"""Partition, offset, leader epoch; length of the text; number of tagged fields."""
_NO_TEXT_MAX: Final = 1
"""Length of an empty text; 0 is null."""
_ID_BYTES: Final = 16
_unpack_generation = struct.Struct(">i").unpack_from


class PartitionCommit(msgspec.Struct, frozen=True, gc=False):
    """An offset to commit; -1 is no leader epoch, as on the wire and in the record."""

    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


class CommittedTopic(msgspec.Struct, frozen=True, gc=False):
    """Offsets of a topic, which has a name or, from version 10 on, an id."""

    name: str | None
    topic_id: TopicId | None
    partitions: tuple[PartitionCommit, ...]


class PlainCommit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a request; the generation is a member epoch in groups of KIP-848."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[CommittedTopic, ...]


def read_plain_commit(version: int, frame: Buffer, position: int) -> PlainCommit | None:
    """The request behind its header; None if it is to be read field by field.

    Args:
        version: of the request.
        frame: the whole request.
        position: of its body.
    """
    if version < VERSION_MIN:
        return None
    try:
        return _read(frame, position, has_ids=version >= TOPIC_ID_FROM)
    except (IndexError, struct.error, UnicodeDecodeError):  # it is cut, or no such request
        return None


def _read(b: Buffer, start: int, *, has_ids: bool) -> PlainCommit | None:
    size = b[start]
    generation_at = start + size
    (generation,) = _unpack_generation(b, generation_at)
    member_at = generation_at + 4
    member_size = b[member_at]
    instance_at = member_at + member_size
    instance_size = b[instance_at]
    topics_at = instance_at + (instance_size or 1)
    topic_count = b[topics_at]
    if not (size and member_size and topic_count):
        return None  # null, which none of them may be
    if max(size, member_size, instance_size, topic_count) > _LENGTH_MAX:
        return None
    topics, position = [], topics_at + 1
    for _ in range(topic_count - 1):
        found = _topic(b, position, has_id=has_ids)
        if found is None:
            return None
        topic, position = found
        topics.append(topic)
    if b[position]:
        return None
    return PlainCommit(
        group_id=str(b[start + 1 : generation_at], "utf-8"),
        generation_id_or_member_epoch=generation,
        member_id=str(b[member_at + 1 : instance_at], "utf-8"),
        group_instance_id=str(b[instance_at + 1 : topics_at], "utf-8") if instance_size else None,
        topics=tuple(topics),
    )


def _topic(b: Buffer, position: int, *, has_id: bool) -> tuple[CommittedTopic, int] | None:
    """A topic and the position behind it; None of one that is not plain."""
    name, topic_id, end = None, None, position + _ID_BYTES
    if has_id:
        topic_id = TopicId(bytes(b[position:end]))
    else:
        size = b[position]  # 0, null, ends where it begins: then there are no rows either
        if size > _LENGTH_MAX:
            return None
        end = position + size
        name = str(b[position + 1 : end], "utf-8")
    count = b[end] - 1
    if not 0 <= count < _LENGTH_MAX:
        return None
    rows_end = end + 1 + count * _ROW.size
    rows = []
    for partition, offset, epoch, text_size, tag_count in _ROW.iter_unpack(b[end + 1 : rows_end]):
        if text_size > _NO_TEXT_MAX or tag_count:
            return None
        rows.append(PartitionCommit(partition, offset, epoch))
    if b[rows_end]:
        return None
    return CommittedTopic(name, topic_id, tuple(rows)), rows_end + 1
