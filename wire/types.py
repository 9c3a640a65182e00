"""Values that every package shares: ids, offsets, epochs, replica keys, randomness.

Offsets are half-open everywhere: an `end_offset`, a `high_watermark` and the offset of a snapshot
id are the first offset that is NOT included. An inclusive offset is called `last_offset`.
"""

from datetime import timedelta
from typing import Final, NewType, Protocol, TypeVar

import msgspec

NodeId = NewType("NodeId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
Offset = NewType("Offset", int)
TopicId = NewType("TopicId", bytes)  # 16 bytes, big endian
DirectoryId = NewType("DirectoryId", bytes)  # 16 bytes, big endian
CorrelationId = NewType("CorrelationId", int)
ApiVersion = NewType("ApiVersion", int)

ZERO_UUID: Final = bytes(16)
METADATA_TOPIC_NAME: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")
# apache/kafka: server-common/.../DirectoryId.java
DIRECTORY_MIGRATING: Final = DirectoryId(ZERO_UUID)
DIRECTORY_UNASSIGNED: Final = DirectoryId(bytes(15) + b"\x01")
DIRECTORY_LOST: Final = DirectoryId(bytes(15) + b"\x02")

TopicIdPartition = tuple[TopicId, int]
"""Id of a topic and number of a partition."""

EPOCH_MAX: Final = 2**31 - 1 - 2**16
"""Highest epoch of the quorum that is accepted: elections after it still fit into 32 bits.

A raft request above it gets INVALID_REQUEST, a response counts as failed; a quorum-state, log or
snapshot above it is refused at start.
"""
assert EPOCH_MAX < 2**31 - 1, "elections after the highest epoch fit into 32 bits"

T = TypeVar("T")


class Rng(Protocol):
    """Randomness of the deterministic core; the driver passes `random.Random(seed)`."""

    def randrange(self, stop: int, /) -> int:
        """Uniform integer in [0, stop)."""
        ...

    def shuffle(self, x: list[T], /) -> None:
        """Shuffle the list in place."""
        ...


class OffsetAndEpoch(msgspec.Struct, frozen=True, gc=False):
    """An end offset (exclusive) with the epoch of the record before it; ordered epoch first."""

    offset: Offset
    epoch: LeaderEpoch

    def is_before(self, other: "OffsetAndEpoch") -> bool:
        """True if this log position is strictly less up to date than the other."""
        return (self.epoch, self.offset) < (other.epoch, other.offset)


class LeaderAndEpoch(msgspec.Struct, frozen=True, gc=False):
    """The leader of an epoch, None while it is unknown."""

    leader_id: NodeId | None
    epoch: LeaderEpoch


class ReplicaKey(msgspec.Struct, frozen=True, gc=False):
    """Identity of a replica: node id and the directory id of its metadata log (KIP-853)."""

    id: NodeId
    directory_id: DirectoryId | None = None


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """Name, host and port of a listener."""

    listener: str
    host: str
    port: int


def milliseconds(duration: timedelta) -> int:
    """Whole milliseconds of a kio duration field."""
    return duration // timedelta(milliseconds=1)
