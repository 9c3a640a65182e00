"""The publishers of one node, called in a fixed order with every committed image.

The order is part of the behaviour: the metadata cache first, then the publishers that act on the
change (partition directories, registrations), as in apache/kafka: BrokerMetadataPublisher and
MetadataLoader. A publisher that raises stops the node: a view that missed a change would be wrong
for ever.
"""

from collections.abc import Iterable
from typing import Protocol

from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image


class Publisher(Protocol):
    """A component that follows the committed image."""

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Follow a change; `delta` names every id in which the two images differ."""
        ...


class Publishers:
    """The publishers in their order, and the image that was published last.

    The caller decides which image is the first to publish; its delta names everything in it.
    """

    def __init__(self, publishers: Iterable[Publisher]) -> None:
        self._publishers = tuple(publishers)
        self.image: Image = EMPTY

    def add(self, publisher: Publisher) -> None:
        """Add a publisher after the others, for the images published from now on."""
        self._publishers = (*self._publishers, publisher)

    def publish(self, after: Image, delta: MetadataDelta) -> None:
        """Publish a new image to every publisher, in order.

        Args:
            after: the new image, at or above the one published before.
            delta: every id in which `after` differs from `self.image`, at least.
        """
        before = self.image
        assert after.provenance.end_offset >= before.provenance.end_offset, "published backwards"
        for publisher in self._publishers:
            publisher.publish(before, after, delta)
        self.image = after
