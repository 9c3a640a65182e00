"""The image that requests read: one reference to the newest published one.

A request reads `cache.image` once and is answered from that value, so it never sees a partial
change.
"""

from broker_publisher.metadata_rows import MetadataRows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image


class MetadataCache:
    """The newest published image, and bytes of responses; the first publisher of every node.

    It is the first so that requests caused by later publishers are answered from the new image
    (apache/kafka: BrokerMetadataPublisher, step 1).
    """

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self.rows = MetadataRows()

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Replace the image; drop the bytes that the delta makes stale."""
        assert before is self.image, "an image was published that this cache never saw"
        assert after.provenance.end_offset >= before.provenance.end_offset, "published backwards"
        self.rows.forget(delta)
        self.image = after
