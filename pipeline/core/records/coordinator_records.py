"""Records of `__consumer_offsets`, `__transaction_state` and `__share_group_state`, also as JSON.

The layouts are declared in coordinator/records. Types of keys that are not declared there (share
groups and streams groups in `__consumer_offsets`) are left to the caller, by number.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from coordinator.records.codec import Decoded, decoded, key_type
from coordinator.records.json_form import content_of
from coordinator.records.kinds import CONSUMER_OFFSETS, KINDS, SHARE_GROUP_STATE, TRANSACTION_STATE
from coordinator.records.schema import CoordinatorRecordError

__all__ = [
    "CONSUMER_OFFSETS",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "CoordinatorRecord",
    "CoordinatorRecordError",
    "Decoded",
    "Decoder",
    "TypedDecoder",
    "UnknownTypeError",
    "coordinator_decoder",
    "typed_decoder",
    "undeclared_name",
]

_UNDECLARED: Final = {
    9: "ShareGroupPartitionMetadata", 10: "ShareGroupMemberMetadata", 11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata", 13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment", 15: "ShareGroupStatePartitionMetadata",
    17: "StreamsGroupMetadata", 18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata", 20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember", 22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology", 24: "StreamsGroupTargetAssignmentResolvedTopicIds",
}  # fmt: skip
"""Keys of `__consumer_offsets` without a declaration, by their type.

(apache/kafka: group-coordinator/src/main/resources/common/message, `apiKey`)
"""


class UnknownTypeError(CoordinatorRecordError):
    """A record whose key is of a type that is not declared."""

    def __init__(self, number: int) -> None:
        super().__init__(f"key version {number} is unknown")
        self.number = number


class CoordinatorRecord(msgspec.Struct, frozen=True):
    """Decoded record: `content` as Kafka's dump tool prints key and value, `version` of the value.

    {"key": {"type": "0", "data": {...}}, "value": {"version": "1", "data": {...}} or null}
    """

    kind: int
    name: str
    version: int | None
    content: dict[str, Any]


Decoder = Callable[[bytes | None, bytes | None], CoordinatorRecord]


TypedDecoder = Callable[[bytes | None, bytes | None], Decoded]


def typed_decoder(topic: str) -> TypedDecoder:
    """The reader of a coordinators' topic; it raises as `coordinator.records.codec.decoded`.

    It raises UnknownTypeError for a type of key that is not declared.
    """
    kinds = KINDS[topic]

    def decode(key: bytes | None, value: bytes | None) -> Decoded:
        found = decoded(kinds, key, value)
        if found is None:
            raise UnknownTypeError(key_type(key))
        return found

    return decode


def undeclared_name(topic: str, number: int) -> str:
    """Kafka's name of a type of key that is not declared; its number where it is not known."""
    name = _UNDECLARED.get(number) if topic == CONSUMER_OFFSETS else None
    return f"key type {number}" if name is None else name


def coordinator_decoder(topic: str) -> Decoder | None:
    """The decoder of a topic's records; None for any other topic."""
    kinds = KINDS.get(topic)
    if kinds is None:
        return None

    def decode(key: bytes | None, value: bytes | None) -> CoordinatorRecord:
        found = decoded(kinds, key, value)
        number = key_type(key)
        if found is None:
            raise UnknownTypeError(number)
        content = content_of(found, number)
        return CoordinatorRecord(number, found.kind.name, found.version, content)

    return decode
