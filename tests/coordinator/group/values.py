"""Values that tests of the image and of its replay have in common."""

from coordinator.records.group import GroupMetadataValue
from wire.types import TopicId

TOPIC_ID = TopicId(bytes(15) + b"\7")
CLASSIC = GroupMetadataValue(
    protocol_type="consumer", generation=1, protocol=None, leader=None,
    current_state_timestamp=5, members=(),
)  # fmt: skip
