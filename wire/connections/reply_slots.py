"""Order of the responses of one connection: each request has a slot, released in their order.

Kafka promises the responses of a connection in the order of its requests. A response that is ready
before an earlier one waits here.
"""

from typing import Generic, TypeVar

Content = TypeVar("Content")


class ReplySlots(Generic[Content]):
    """Slots of the unanswered requests of one connection, numbered from 0.

    Invariant: slots from `oldest` to `next_slot` (exclusive) are in flight; `_ready` holds contents
    of slots after the oldest.
    """

    __slots__ = ("_ready", "in_flight_count", "next_slot", "oldest")

    def __init__(self) -> None:
        self.next_slot = 0
        """Slot of the next request."""
        self.oldest = 0
        """Slot of the oldest request that is not answered; `next_slot` if all are."""
        self.in_flight_count = 0
        """Number of slots taken and not released."""
        self._ready: dict[int, Content] = {}

    def take(self) -> int:
        """Take the slot of the next request."""
        slot = self.next_slot
        self.next_slot = slot + 1
        self.in_flight_count += 1
        return slot

    def release(self, slot: int, content: Content) -> list[Content]:
        """Fill a slot, once.

        Returns:
            All that can leave now, in order; nothing while an earlier slot is not filled.
        """
        oldest, ready = self.oldest, self._ready
        assert oldest <= slot < self.next_slot, f"{slot=} is not in flight"
        assert slot not in ready, "a request is answered once"
        if slot != oldest:
            ready[slot] = content
            return []
        released = [content]
        oldest += 1
        while oldest in ready:
            released.append(ready.pop(oldest))
            oldest += 1
        self.oldest = oldest
        self.in_flight_count = self.next_slot - oldest
        return released

    def drop(self) -> list[Content]:
        """Remove the contents that wait for an earlier one, as when the connection closes."""
        dropped = list(self._ready.values())
        self._ready.clear()
        return dropped
