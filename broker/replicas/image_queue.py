"""Images that a broker applies, in order, one slice at a time.

A slice is what the budget of a turn has room for: others wait for it meanwhile. An image of many
partitions takes several; those that come in the meantime wait behind it.
"""

import heapq
from collections import deque
from collections.abc import Callable, Container, Iterator
from enum import IntEnum

from metadata.delta import MetadataDelta
from metadata.image import Image
from network.turn_budget import TurnBudget
from wire.types import NodeId, TopicId, TopicIdPartition


class Change(IntEnum):
    """Kind of a change, with its cost in units."""

    SEEN = 1
    """A partition of the delta was looked at."""
    SETTINGS = 4
    """The settings of a topic, or a partition's, were looked at or applied."""
    PARTITION = 16
    """A partition was hosted or dropped, or took other metadata."""


class ImageQueue:
    """The image that is being applied, and those behind it.

    Args:
        applying: applies an image, one change at each `next`.
        budget: of the turn.
    """

    def __init__(
        self,
        applying: Callable[[Image, MetadataDelta], Iterator[Change]],
        budget: TurnBudget,
    ) -> None:
        self._applying = applying
        self._budget = budget
        self._waiting: deque[tuple[Image, MetadataDelta]] = deque()
        self._current: Iterator[Change] | None = None
        self.count = 0
        """Images that are not applied, or only in part."""

    @property
    def first(self) -> Image:
        """The oldest, while none is begun."""
        assert self._current is None, "it is begun"
        return self._waiting[0][0]

    def put(self, image: Image, delta: MetadataDelta) -> None:
        """Apply an image behind all others."""
        self._waiting.append((image, delta))
        self.count += 1

    def apply_slice(self) -> int:
        """Go on while the budget has room and something is left; the number of ended images."""
        budget, ended = self._budget, 0
        while budget.has_room:
            if self._current is None:
                if not self._waiting:
                    break
                self._current = self._applying(*self._waiting.popleft())
            change = next(self._current, None)
            if change is None:
                self._current = None
                ended += 1
                self.count -= 1
                change = Change.SETTINGS
            budget.spend(change)
        return ended


class _Rank(IntEnum):
    DELETED = 0
    LED = 1
    FOLLOWED = 2


class PartitionChanges:
    """The partitions of a delta in the order in which a broker takes them.

    First those that are gone, or have another set of replicas, then those that it leads, then those
    that it follows, each by name. A heap: no step sorts them all.

    Args:
        before: the image before.
        after: the image.
        delta: between them.
        node_id: of the broker.
        hosted: its partitions, which only `deleted` takes away.
    """

    def __init__(
        self,
        before: Image,
        after: Image,
        delta: MetadataDelta,
        node_id: NodeId,
        hosted: Container[TopicIdPartition],
    ) -> None:
        self._topics_before = before.topics
        self._topics = after.topics
        self._delta = delta
        self._node_id = node_id
        self._hosted = hosted
        self._heap: list[tuple[_Rank, str, int, TopicId]] = []

    def collected(self) -> Iterator[Change]:
        """Look at all partitions of the delta, one at each `next`."""
        for topic_id in self._delta.topics_deleted:
            topic = self._topics_before.get(topic_id)
            for number in () if topic is None else topic.partitions:
                if (topic_id, number) in self._hosted:
                    assert topic is not None, "it has partitions"
                    self._push(_Rank.DELETED, topic.name, number, topic_id)
                yield Change.SEEN
        for topic_id, number in self._delta.partitions_changed:
            topic = self._topics[topic_id]
            name, registration = topic.name, topic.partitions[number]
            if self._node_id not in registration.replicas:
                if (topic_id, number) in self._hosted:
                    self._push(_Rank.DELETED, name, number, topic_id)
            else:
                leads = registration.leader == self._node_id
                self._push(_Rank.LED if leads else _Rank.FOLLOWED, name, number, topic_id)
            yield Change.SEEN

    def _push(self, rank: _Rank, name: str, number: int, topic_id: TopicId) -> None:
        heapq.heappush(self._heap, (rank, name, number, topic_id))

    def deleted(self) -> Iterator[TopicIdPartition]:
        """Take those that are dropped."""
        while self._heap and self._heap[0][0] is _Rank.DELETED:
            _, _, number, topic_id = heapq.heappop(self._heap)
            yield topic_id, number

    def taken(self) -> Iterator[tuple[str, TopicIdPartition]]:
        """Take the others, with the name of their topic."""
        while self._heap:
            rank, name, number, topic_id = heapq.heappop(self._heap)
            assert rank is not _Rank.DELETED, "those are dropped first"
            yield name, (topic_id, number)
