"""What requests read: one reference to the newest published image.

A request takes `cache.image` once and answers from that value, so it never sees half of a change.
"""

from broker_publisher.metadata_rows import MetadataRows
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, Image


class MetadataCache:
    """Holds the newest published image, and bytes of answers; the first publisher of every node.

    It comes first so that whatever later publishers cause is answered from the new image
    (apache/kafka: BrokerMetadataPublisher, step 1).
    """

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self.rows = MetadataRows()

    def publish(self, before: Image, after: Image, delta: MetadataDelta) -> None:
        """Swap the reference."""
        assert before is self.image, "an image was published that this cache never saw"
        assert after.provenance.end_offset >= before.provenance.end_offset, "published backwards"
        self.rows.forget(delta)
        self.image = after
