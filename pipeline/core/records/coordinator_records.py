"""Records of `__consumer_offsets`, `__transaction_state` and `__share_group_state` as JSON.

The layouts are declared in coordinator/records. Types of keys that are not declared there (share
groups and streams groups in `__consumer_offsets`) are left to the caller in hex.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from coordinator.records.codec import decoded, key_type
from coordinator.records.json_form import content_of
from coordinator.records.kinds import CONSUMER_OFFSETS, KINDS, SHARE_GROUP_STATE, TRANSACTION_STATE
from coordinator.records.schema import CoordinatorRecordError

__all__ = [
    "CONSUMER_OFFSETS",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "CoordinatorRecord",
    "CoordinatorRecordError",
    "Decoder",
    "UnknownTypeError",
    "coordinator_decoder",
]


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
