"""Records of `__consumer_offsets` that every kind of group has, and those of classic groups.

(apache/kafka: OffsetCommit*, LegacyOffsetCommit*, GroupMetadata*.json)
"""

import struct
from typing import Annotated, ClassVar, Final

from typing_extensions import override

from coordinator.records.schema import Fields, Key, Value, array, field
from metadata.schema import BYTES, INT32, INT64, STRING, UUID
from wire.types import ZERO_UUID, TopicId

WITHOUT_TEXT: Final = 1
"""The compact length of an empty text."""
TOPIC_ID_TAG: Final = b"\1\0\x10"
"""Number of tags, the tag of the topic's id, its size."""
COMMIT_WITH_ID: Final = struct.Struct(">hqiBq3s16s")
"""Version 4 of a value without a text: version, offset, leader epoch, WITHOUT_TEXT, time of the
commit, TOPIC_ID_TAG, topic id. Nearly all commits are so."""
_ID_BYTES: Final = 16


class OffsetCommitKey(Key, frozen=True, kw_only=True, gc=False):
    """A partition whose offset a group has committed."""

    type: ClassVar[int] = 1

    group: Annotated[str, field(STRING)]
    topic: Annotated[str, field(STRING)]
    partition: Annotated[int, field(INT32)]


class LegacyOffsetCommitKey(OffsetCommitKey, frozen=True, kw_only=True, gc=False):
    """The same as brokers before 0.9 wrote it; read, never written."""

    type: ClassVar[int] = 0


class OffsetCommitValue(Value, frozen=True, kw_only=True, gc=False):
    """A committed offset; `expire_timestamp` only where the client gave a retention (v1)."""

    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_from: ClassVar[int] = 4
    written: ClassVar[int] = 4
    written_with_expiry: ClassVar[int] = 1

    offset: Annotated[int, field(INT64)]
    leader_epoch: Annotated[int, field(INT32, since=3, ignorable=True)] = -1
    metadata: Annotated[str, field(STRING)]
    commit_timestamp: Annotated[int, field(INT64)]
    expire_timestamp: Annotated[int, field(INT64, since=1, until=1, ignorable=True)] = -1
    topic_id: Annotated[TopicId, field(UUID, since=4, tag=0, ignorable=True)] = TopicId(ZERO_UUID)

    @override
    def version_to_write(self) -> int:
        return self.written if self.expire_timestamp == -1 else self.written_with_expiry

    @override
    def plain_bytes(self) -> bytes | None:
        topic_id = self.topic_id
        if self.metadata or self.expire_timestamp != -1 or topic_id == ZERO_UUID:
            return None
        if len(topic_id) != _ID_BYTES:  # struct would pad or cut it
            return None
        return COMMIT_WITH_ID.pack(
            4,
            self.offset,
            self.leader_epoch,
            WITHOUT_TEXT,
            self.commit_timestamp,
            TOPIC_ID_TAG,
            topic_id,
        )


class GroupMetadataKey(Key, frozen=True, kw_only=True, gc=False):
    """A classic group."""

    type: ClassVar[int] = 2

    group: Annotated[str, field(STRING)]


class MemberMetadata(Fields, frozen=True, kw_only=True, gc=False):
    """A member of a classic group; times are ms."""

    member_id: Annotated[str, field(STRING)]
    group_instance_id: Annotated[
        str | None, field(STRING, since=3, nullable=True, ignorable=True)
    ] = None
    client_id: Annotated[str, field(STRING)]
    client_host: Annotated[str, field(STRING)]
    rebalance_timeout: Annotated[int, field(INT32, since=1, ignorable=True)] = -1
    session_timeout: Annotated[int, field(INT32)]
    subscription: Annotated[bytes, field(BYTES)]
    assignment: Annotated[bytes, field(BYTES)]


class GroupMetadataValue(Value, frozen=True, kw_only=True, gc=False):
    """A generation of a classic group with its members."""

    versions: ClassVar[tuple[int, int]] = (0, 4)
    flexible_from: ClassVar[int] = 4
    written: ClassVar[int] = 3

    protocol_type: Annotated[str, field(STRING)]
    generation: Annotated[int, field(INT32)]
    protocol: Annotated[str | None, field(STRING, nullable=True)]
    leader: Annotated[str | None, field(STRING, nullable=True)]
    current_state_timestamp: Annotated[int, field(INT64, since=2, ignorable=True)] = -1
    members: Annotated[tuple[MemberMetadata, ...], field(array(MemberMetadata))]
