"""Requests about offsets, with the topics that the broker has resolved and allowed.

No class of kio has both forms of a topic: OffsetCommit and OffsetFetch name it below version 10 and
give its id from then on.
"""

import msgspec

from wire.errors import ErrorCode
from wire.messages.offset_commit_request import PartitionCommit
from wire.types import TopicId


class Committer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member of a generation or epoch that commits, or a client that is none (-1, empty)."""

    member_id: str = ""
    group_instance_id: str | None = None
    generation_id: int = -1
    api_version: int
    is_transactional: bool = False


class TopicCommit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Offsets to commit of a topic; zeros are no topic id."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionCommit, ...]


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """OffsetCommit or TxnOffsetCommit."""

    group_id: str
    committer: Committer
    topics: tuple[TopicCommit, ...]
    retention_ms: int | None = None
    """Given by OffsetCommit 2 to 4."""


class TopicResult(msgspec.Struct, frozen=True, gc=False):
    """Codes by partition of a topic, in the order of the request."""

    name: str
    topic_id: TopicId
    codes: tuple[tuple[int, ErrorCode], ...]


class TopicFetch(msgspec.Struct, frozen=True, gc=False):
    """Partitions of a topic whose offsets are asked for; zeros are no topic id."""

    name: str
    topic_id: TopicId
    partitions: tuple[int, ...]


class GroupFetch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A group of OffsetFetch; `topics` None for all that it has."""

    group_id: str
    topics: tuple[TopicFetch, ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    requires_stable: bool = False


class PartitionOffset(msgspec.Struct, frozen=True, gc=False):
    """A committed offset as it is answered; -1 for none."""

    partition: int
    code: ErrorCode
    offset: int
    leader_epoch: int
    metadata: str


class TopicOffsets(msgspec.Struct, frozen=True, gc=False):
    """Committed offsets of a topic."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionOffset, ...]
