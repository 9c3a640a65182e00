"""Replay of the log of `__consumer_offsets`: most records of it are plain commits.

A plain commit is in no transaction, has no metadata text and no expiry: its value has a size that
is known, so that it is read by one unpacking, and the partitions of one request begin with the same
bytes. Whatever looks otherwise goes the way of all records, which also finds the error in it.

Sources: apache/kafka: OffsetCommitKey.json, OffsetCommitValue.json; coordinator-common/.../
runtime/CoordinatorLoaderImpl.java
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from coordinator.group.image import (
    Draft,
    GroupsImage,
    OffsetAndMetadata,
    TopicPartition,
    apply_all,
)
from coordinator.records.codec import decode
from coordinator.records.group import (
    COMMIT_WITH_ID,
    TOPIC_ID_TAG,
    WITHOUT_TEXT,
    OffsetCommitKey,
)
from coordinator.records.kinds import GROUP_KINDS
from coordinator.runtime.replay import decoded
from coordinator.runtime.write import Applied
from wire.batches.batch import RecordView
from wire.types import ZERO_UUID, TopicId

_KEY_TYPE: Final = struct.pack(">h", OffsetCommitKey.type)
_GROUP_AT: Final = 2
"""Position of the group's length in a key."""
_PARTITION: Final = struct.Struct(">i")
_PARTITION_BYTES: Final = _PARTITION.size
_KEY_BYTES_MIN: Final = _GROUP_AT + 2 + 2 + _PARTITION_BYTES
_VALUE_3: Final = struct.Struct(">hqihq")
_VALUE_4: Final = struct.Struct(">hqiBqB")
_NO_TOPIC_ID: Final = TopicId(ZERO_UUID)

_unpack_length = struct.Struct(">h").unpack_from
_unpack_partition = _PARTITION.unpack_from
_unpack_value_4 = _VALUE_4.unpack
_HEAD: Final = struct.Struct(">hqiBq")
"""Begin of COMMIT_WITH_ID."""
_WITH_ID_BYTES: Final = COMMIT_WITH_ID.size
_unpack_head = _HEAD.unpack_from
IDS_MAX: Final = 1024
"""Ids of topics that are kept, one object each: a group has many offsets of few topics."""
_Plain = tuple[int, int, int, TopicId]
"""Offset, leader epoch, time of the commit (ms), id of the topic."""


def replay(image: GroupsImage, views: Sequence[RecordView], producer_id: int | None) -> GroupsImage:
    """The image after records of a batch, in order; that of `apply_all`.

    Args:
        image: before them.
        views: as they are in the log.
        producer_id: of the transaction that they are part of; None if they are of none.

    Raises:
        CoordinatorRecordError: a record cannot be read, or not be applied.
    """
    if producer_id is not None:
        return apply_all(image, decoded(GROUP_KINDS, views, producer_id))
    draft = Draft(image)
    entries: dict[TopicPartition, OffsetAndMetadata] = {}
    topic = ""
    before: bytes | None = None
    """Key of the last commit up to its partition, which `entries` and `topic` are of."""
    for view in views:
        key = view.key or b""
        plain = _plain(view.value or b"")
        if plain is not None and key[:-_PARTITION_BYTES] != before:
            names = _names(key)
            if names is None:
                plain = None
            else:
                before, (group_id, topic) = key[:-_PARTITION_BYTES], names
                entries = draft.entries(group_id)
        if plain is None:
            record = decode(GROUP_KINDS, view.key, view.value)
            if record is not None:
                draft.add(record, Applied(view.offset, view.timestamp_ms))
            before = None
            continue
        offset, leader_epoch, committed_ms, topic_id = plain
        (partition,) = _unpack_partition(key, len(key) - _PARTITION_BYTES)
        entries[topic, partition] = OffsetAndMetadata(
            offset=offset,
            leader_epoch=None if leader_epoch == -1 else leader_epoch,
            metadata="",
            commit_timestamp_ms=committed_ms,
            expire_timestamp_ms=None,
            topic_id=topic_id,
            record_offset=view.offset,
        )
    return draft.image()


def _plain(value: bytes) -> _Plain | None:
    """Fields of the value of a plain commit; None of any other."""
    size = len(value)
    if size == _WITH_ID_BYTES:
        version, offset, epoch, text, at_ms = _unpack_head(value)
        topic_id = _topic_id(value[_HEAD.size :])
        if version == 4 and text == WITHOUT_TEXT and topic_id is not None:
            return offset, epoch, at_ms, topic_id
    elif size == _VALUE_4.size:  # also that of version 3
        version, offset, epoch, text, at_ms, tags = _unpack_value_4(value)
        if version == 4 and text == WITHOUT_TEXT and not tags:
            return offset, epoch, at_ms, _NO_TOPIC_ID
        version, offset, epoch, text, at_ms = _VALUE_3.unpack(value)
        if version == 3 and not text:
            return offset, epoch, at_ms, _NO_TOPIC_ID
    return None


@lru_cache(IDS_MAX)
def _topic_id(tags: bytes) -> TopicId | None:
    """The id in the tags of a value, once for all records of a topic; None if they are others."""
    size = len(TOPIC_ID_TAG)
    return TopicId(tags[size:]) if tags[:size] == TOPIC_ID_TAG else None


def _names(key: bytes) -> tuple[str, str] | None:
    """Group and topic of the key of a commit; None if it is no such key, or damaged."""
    size = len(key)
    if key[:_GROUP_AT] != _KEY_TYPE or size < _KEY_BYTES_MIN:
        return None
    (group_bytes,) = _unpack_length(key, _GROUP_AT)
    topic_at, end = _GROUP_AT + 2 + group_bytes, size - _PARTITION_BYTES
    if group_bytes < 0 or topic_at + 2 > end:
        return None
    if topic_at + 2 + _unpack_length(key, topic_at)[0] != end:
        return None
    try:
        return key[_GROUP_AT + 2 : topic_at].decode(), key[topic_at + 2 : end].decode()
    except UnicodeDecodeError:
        return None
