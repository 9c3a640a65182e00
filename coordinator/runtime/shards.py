"""The partitions of a coordinator's topic that this broker coordinates.

apache/kafka: group-coordinator/.../GroupCoordinatorService.java (partitionFor),
coordinator-common/.../runtime/CoordinatorRuntime.java
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Generic

from coordinator.runtime.machine import ImageT
from coordinator.runtime.shard import Shard, ShardState
from wire.errors import ApiError, ErrorCode

_KEPT_MAX: Final = 4096
KEPT_LENGTH_MAX: Final = 256
"""Longest id that is kept, in characters: what clients send bounds the memory of all."""
_INT32_MIN: Final = -(1 << 31)


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group id or transactional id; those of the last short ids are kept."""
    if len(key) > KEPT_LENGTH_MAX:
        return partition_of_key(key, partition_count)
    return _kept_partition(key, partition_count)


def partition_of_key(key: str, partition_count: int) -> int:
    """As `partition_for`, anew."""
    assert partition_count > 0, f"{partition_count=}"
    number = java_hash(key)
    return (0 if number == _INT32_MIN else abs(number)) % partition_count


_kept_partition = lru_cache(_KEPT_MAX)(partition_of_key)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: a signed int32 of the UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    number = 0
    for index in range(0, len(units), 2):
        number = (31 * number + (units[index] << 8) + units[index + 1]) & 0xFFFF_FFFF
    return number - (1 << 32) if number & 0x8000_0000 else number


class Shards(Generic[ImageT]):
    """Shards by partition: those that load, are active, or have failed to load."""

    def __init__(self) -> None:
        self._by_partition: dict[int, Shard[ImageT]] = {}

    def __iter__(self) -> Iterator[tuple[int, Shard[ImageT]]]:
        """Partition and shard, ascending."""
        return iter(sorted(self._by_partition.items(), key=lambda item: item[0]))

    def put(self, partition: int, shard: Shard[ImageT]) -> None:
        """Coordinate a partition."""
        assert partition not in self._by_partition, f"{partition=} is coordinated"
        self._by_partition[partition] = shard

    def resign(self, partition: int) -> None:
        """Coordinate it no longer; nothing if it is not coordinated."""
        shard = self._by_partition.pop(partition, None)
        if shard is not None:
            shard.resign()

    def find(self, partition: int) -> Shard[ImageT] | None:
        """The shard of a partition, in any state."""
        return self._by_partition.get(partition)

    def of(self, partition: int) -> Shard[ImageT] | ApiError:
        """The shard of a partition; NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS otherwise."""
        shard = self._by_partition.get(partition)
        if shard is None:
            return ApiError(ErrorCode.not_coordinator)
        return shard.refusal() or shard

    def active(self) -> list[Shard[ImageT]]:
        """Those that take requests, by partition."""
        return [shard for _, shard in self if shard.state is ShardState.ACTIVE]

    def flush(self) -> None:
        """Append what the turn has written."""
        for _, shard in self:
            shard.flush()

    def next_ms(self) -> int | None:
        """Instant of the next `tick`, None for none."""
        due = (shard.next_ms() for shard in self._by_partition.values())
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def tick(self) -> None:
        """Run the timers that are due."""
        for _, shard in self:
            shard.tick()
