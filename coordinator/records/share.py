"""Records of `__share_group_state`, which this software reads and does not write.

(apache/kafka: ShareSnapshot*, ShareUpdate*.json)
"""

from typing import Annotated, ClassVar

from coordinator.records.schema import Fields, Key, Value, array, field
from metadata.schema import INT8, INT16, INT32, INT64, STRING, UUID
from wire.types import TopicId


class SharePartitionKey(Key, frozen=True, kw_only=True, gc=False):
    """A partition of a share group."""

    group_id: Annotated[str, field(STRING)]
    topic_id: Annotated[TopicId, field(UUID)]
    partition: Annotated[int, field(INT32)]


class ShareSnapshotKey(SharePartitionKey, frozen=True, kw_only=True, gc=False):
    """The state of a share-partition."""

    type: ClassVar[int] = 0


class ShareUpdateKey(SharePartitionKey, frozen=True, kw_only=True, gc=False):
    """A change of the state of a share-partition."""

    type: ClassVar[int] = 1


class StateBatch(Fields, frozen=True, kw_only=True, gc=False):
    """Offsets, both inclusive; delivery state 0 is available, 2 acknowledged, 4 archived."""

    first_offset: Annotated[int, field(INT64)]
    last_offset: Annotated[int, field(INT64)]
    delivery_state: Annotated[int, field(INT8)]
    delivery_count: Annotated[int, field(INT16)]


class ShareSnapshotValue(Value, frozen=True, kw_only=True, gc=False):
    """The whole state (KIP-932; the count of deliveries since 4.2, KIP-1226)."""

    snapshot_epoch: Annotated[int, field(INT32)]
    state_epoch: Annotated[int, field(INT32)]
    leader_epoch: Annotated[int, field(INT32)]
    start_offset: Annotated[int, field(INT64)]
    delivery_complete_count: Annotated[int, field(INT32, tag=0)] = -1
    create_timestamp: Annotated[int, field(INT64)]
    write_timestamp: Annotated[int, field(INT64)]
    state_batches: Annotated[tuple[StateBatch, ...], field(array(StateBatch))]


class ShareUpdateValue(Value, frozen=True, kw_only=True, gc=False):
    """Batches that changed; start offset -1 if it did not."""

    snapshot_epoch: Annotated[int, field(INT32)]
    leader_epoch: Annotated[int, field(INT32)]
    start_offset: Annotated[int, field(INT64)]
    delivery_complete_count: Annotated[int, field(INT32, tag=0)] = -1
    state_batches: Annotated[tuple[StateBatch, ...], field(array(StateBatch))]
