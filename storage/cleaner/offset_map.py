"""The newest offset of each key in the dirty part of a log, as far as the keys fit.

Kafka's map has `log.cleaner.dedupe.buffer.size` bytes for all threads and 24 for a key, an MD5 and
an offset, and is full at `log.cleaner.io.buffer.load.factor` of its slots. This one counts as that,
so that a round of cleaning ends at the same offset; its own keys take about 150 bytes each. Keys
are compared themselves, long ones by a hash of 128 bits.

apache/kafka: storage/.../log/SkimpyOffsetMap.java
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

SLOT_BYTES: Final = 24
BUFFER_BYTES_MAX: Final = (1 << 31) - 1
"""Of one thread: what is above it Kafka ignores."""
KEY_BYTES_MAX: Final = 63
"""Longer keys are hashed."""
_HASH_BYTES: Final = 16

MapKey = bytes | int
"""A key, or the hash of a long one as a number: no key is equal to the hash of another."""


def map_slots(buffer_bytes: int, threads: int) -> int:
    """Slots in the map of one of the threads.

    Args:
        buffer_bytes: `log.cleaner.dedupe.buffer.size`, of all threads.
        threads: `log.cleaner.threads`.
    """
    assert threads > 0, f"{threads=}"
    return min(buffer_bytes // threads, BUFFER_BYTES_MAX) // SLOT_BYTES


def map_key(key: bytes) -> MapKey:
    """The key of the map for the key of a record."""
    if len(key) <= KEY_BYTES_MAX:
        return key
    return int.from_bytes(blake2b(key, digest_size=_HASH_BYTES).digest())


class OffsetMap:
    """Offsets by key; `keys_max` is the number of them that fit."""

    def __init__(self, keys_max: int) -> None:
        assert keys_max > 0, f"{keys_max=}: no round would end"
        self.keys_max = keys_max
        self.offsets: dict[MapKey, int] = {}
        self.latest_offset = -1
        """The highest offset that is covered; inclusive."""

    @property
    def end_offset(self) -> int:
        """First offset that is not covered, the first dirty one of the next round."""
        return self.latest_offset + 1

    def put_all(self, base_offset: int, keys: Sequence[tuple[int, bytes]]) -> bool:
        """Put the keys of a batch, each with the delta of its offset; False if the map is full.

        As in Kafka a full map ends the round at the next key, whether it has that or not.
        """
        assert base_offset >= 0, f"{base_offset=}"
        room = self.keys_max - len(self.offsets)
        assert room >= 0, f"{room=}: a map holds at most {self.keys_max=}"
        if len(keys) <= room:
            self.offsets.update([(map_key(key), base_offset + delta) for delta, key in keys])
            return True
        for delta, key in keys:
            if len(self.offsets) >= self.keys_max:
                return False
            self.offsets[map_key(key)] = self.latest_offset = base_offset + delta
        return True
