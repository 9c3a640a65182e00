"""The memory of requests that are received and not done with: one bound for all connections.

Memory of a frame is taken whole when its size is known, before it is received: what is begun can
end, whatever others do. A frame for which there is no room waits in the order in which they came,
and its connection is not read. One larger than the pool has its turn when nothing else holds
memory. A frame is let in only if it fits; Kafka lets one more in while a byte is left.

Requests of at most `SMALL_BYTES_MAX` other than Produce neither count nor wait: the Fetch of a
follower must not wait for a Produce that waits for it.

apache/kafka: clients/.../common/memory/SimpleMemoryPool.java, .../network/Selector.java, 4.3
"""

from collections.abc import Callable, Iterable
from typing import Final

from wire.api_keys import PRODUCE

API_KEY_BYTES: Final = 2
"""Size of the first field of a request."""
SMALL_BYTES_MAX: Final = 1024 * 1024
"""Size above which any request counts; a follower's Fetch of 10,000 partitions is below."""
_PRODUCE_START: Final = PRODUCE.to_bytes(API_KEY_BYTES, "big")


class MemoryPool:
    """The memory of the requests of one thread.

    Args:
        size_bytes: the bound.
        nanoseconds: a clock.
    """

    __slots__ = (
        "_depleted_ns",
        "_nanoseconds",
        "_since_ns",
        "_users",
        "_waiting",
        "size_bytes",
        "used_bytes",
    )

    def __init__(self, size_bytes: int, nanoseconds: Callable[[], int] = lambda: 0) -> None:
        assert size_bytes > 0
        self.size_bytes = size_bytes
        self.used_bytes = 0
        self._users: set[int] = set()
        """Connections that took memory since the last `take_users`."""
        self._waiting: dict[int, int] = {}
        """Bytes that connections wait for, first come first."""
        self._nanoseconds = nanoseconds
        self._since_ns = 0
        """Begin of the wait of those that wait."""
        self._depleted_ns = 0

    def take(self, connection_id: int, count: int) -> bool:
        """Take bytes for a frame; False: the connection waits until it is `first_with_room`.

        It then tries again, or leaves.
        """
        waiting = self._waiting
        first = next(iter(waiting), connection_id)
        if connection_id != first or not self._has_room(count):
            if not waiting:
                self._since_ns = self._nanoseconds()
            waiting[connection_id] = count
            return False
        self.leave(connection_id)
        self.used_bytes += count
        self._users.add(connection_id)
        return True

    def _has_room(self, count: int) -> bool:
        return self.used_bytes + count <= max(self.size_bytes, count)

    def release(self, count: int) -> None:
        """Give bytes back."""
        assert 0 <= count <= self.used_bytes, f"{count=} {self.used_bytes=}"
        self.used_bytes -= count

    def drop(self, frames: Iterable[bytearray]) -> None:
        """Give back what whole frames hold, which nobody takes."""
        for frame in frames:
            self.release(counted_bytes_of(frame))

    def leave(self, connection_id: int) -> None:
        """Wait no more."""
        if self._waiting.pop(connection_id, None) is not None and not self._waiting:
            self._depleted_ns += self._nanoseconds() - self._since_ns

    def is_waiting(self, connection_id: int) -> bool:
        """Return True if a connection waits for memory."""
        return connection_id in self._waiting

    @property
    def is_depleted(self) -> bool:
        """True while any connection waits for memory."""
        return bool(self._waiting)

    def take_users(self) -> set[int]:
        """Return the connections that took memory since the last call."""
        users, self._users = self._users, set()
        return users

    def first_with_room(self) -> int | None:
        """The connection that has waited longest, if there is room for it now."""
        for connection_id, count in self._waiting.items():
            return connection_id if self._has_room(count) else None
        return None

    @property
    def depleted_ns(self) -> int:
        """Time for which any connection waited."""
        now_ns = self._nanoseconds() if self._waiting else self._since_ns
        return self._depleted_ns + now_ns - self._since_ns


def counted_bytes(length: int, start: bytes | bytearray | memoryview) -> int:
    """Bytes that a frame takes of the pool, by its length and its first two bytes."""
    return length if length > SMALL_BYTES_MAX or start == _PRODUCE_START else 0


def counted_bytes_of(frame: bytearray) -> int:
    """Bytes that a whole frame holds of the pool."""
    return counted_bytes(len(frame), frame[:API_KEY_BYTES])
