"""Choice of partitions as Kafka's default: by key (murmur2), without a key sticky.

apache/kafka: clients/.../producer/internals/BuiltInPartitioner.java, common/utils/Utils.java;
weights by the length of the queues are left out.
"""

from typing import Final

from cli.records.clients.topic_metadata import NO_LEADER, Topic
from wire.types import Rng

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(content: bytes) -> int:
    """The hash of Kafka's clients, as a number of 32 bits without sign."""
    length = len(content)
    hashed = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(content[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ k
    if whole < length:
        hashed = (hashed ^ int.from_bytes(content[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return hashed ^ hashed >> 15


class Partitioner:
    """The partition of each record; keeps to one for `batch_size_bytes` of records without key."""

    def __init__(self, batch_size_bytes: int, rng: Rng) -> None:
        """A partitioner that has chosen nothing yet."""
        self._batch_size_bytes = max(1, batch_size_bytes)
        self._rng = rng
        self._current: dict[str, tuple[int, int]] = {}
        """Topic -> partition, bytes since it was chosen."""

    def partition(self, topic: Topic, key: bytes | None, size_bytes: int) -> int:
        """The partition for a record of this key and size."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % len(topic.leaders)
        number, produced = self._current.get(topic.name, (-1, 0))
        if number not in topic.leaders or produced >= self._batch_size_bytes:
            available = [n for n, leader in topic.leaders.items() if leader != NO_LEADER]
            choice = available or list(topic.leaders)
            number, produced = choice[self._rng.randrange(len(choice))], 0
        self._current[topic.name] = number, produced + size_bytes
        return number
