"""The publishers of one node, called in a fixed order with every committed image.

The order is part of the behaviour: the metadata cache first, then what acts on the change (folders
of partitions, registrations), as in apache/kafka: BrokerMetadataPublisher and MetadataLoader.
A publisher that raises stops the node: a view that missed a change would be wrong for ever.
"""

from collections.abc import Iterable
from typing import Protocol

from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image


class Publisher(Protocol):
    """Something that follows the committed image."""

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Follow one step; `delta` names every id in which the two images differ."""
        ...


class Publishers:
    """The ordered list, and the image that was published last.

    Nothing is published before the first image that is worth it (the node has reached the high
    watermark it found): who calls `publish` decides that, the first call then carries everything.
    """

    def __init__(self, publishers: Iterable[Publisher]) -> None:
        self._publishers = tuple(publishers)
        self.image: Image = EMPTY
        self.has_published = False

    def add(self, publisher: Publisher) -> None:
        """One more, behind the others; it sees what is published from now on."""
        self._publishers = (*self._publishers, publisher)

    def publish(self, after: Image, delta: MetadataDelta) -> None:
        """Hand one new image to every publisher, in order.

        Args:
            after: the new image, at or above the one published before.
            delta: every id in which `after` differs from `self.image`, at least.
        """
        before = self.image
        assert after.provenance.end_offset >= before.provenance.end_offset, "published backwards"
        for publisher in self._publishers:
            publisher.publish(before, after, delta)
        self.image = after
        self.has_published = True
