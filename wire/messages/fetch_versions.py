"""Versions and tags of Fetch, of which brokers and followers read and write the bodies by hand.

apache/kafka: clients/.../common/message/Fetch{Request,Response}.json (4.3.1)
"""

from typing import Final

VERSION_MIN: Final = 4
"""Kafka 4 refuses 0 to 3, which are answered with message sets (KIP-896)."""
VERSION_MAX: Final = 18

# The first version with a field:
LOG_START_VERSION: Final = 5
SESSION_VERSION: Final = 7
LEADER_EPOCH_VERSION: Final = 9
RACK_VERSION: Final = 11
"""Also the preferred replica: the first in which consumers may read from followers."""
FLEXIBLE_VERSION: Final = 12
TOPIC_ID_VERSION: Final = 13
REPLICA_STATE_VERSION: Final = 15
LEADER_VERSION: Final = 16
"""Leaders beside errors, and their endpoints."""
DIRECTORY_VERSION: Final = 17
HIGH_WATERMARK_VERSION: Final = 18

REPLICA_STATE_TAG: Final = 1
DIRECTORY_TAG: Final = 0
HIGH_WATERMARK_TAG: Final = 1
"""Of a partition of a request, as the one above."""
DIVERGING_EPOCH_TAG: Final = 0
CURRENT_LEADER_TAG: Final = 1
"""Of a partition of a response, as the one above."""
