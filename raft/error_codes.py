"""The Kafka error codes that raft messages carry, as plain ints.

Source: apache/kafka: clients/.../protocol/Errors.java. The numbers are part of the wire protocol.
"""

from typing import Final

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
BROKER_NOT_AVAILABLE: Final = 8
NETWORK_EXCEPTION: Final = 13
UNSUPPORTED_VERSION: Final = 35
INVALID_REPLICA_ASSIGNMENT: Final = 39
NOT_CONTROLLER: Final = 41
INVALID_REQUEST: Final = 42
REASSIGNMENT_IN_PROGRESS: Final = 60
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
PREFERRED_LEADER_NOT_AVAILABLE: Final = 80
SNAPSHOT_NOT_FOUND: Final = 98
POSITION_OUT_OF_RANGE: Final = 99
INCONSISTENT_CLUSTER_ID: Final = 104
INVALID_VOTER_KEY: Final = 125
DUPLICATE_VOTER: Final = 126
VOTER_NOT_FOUND: Final = 127
