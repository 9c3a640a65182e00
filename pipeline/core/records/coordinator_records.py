"""Records of `__consumer_offsets`, `__transaction_state` and `__share_group_state`, key and value.

A record's key starts with an int16 for its type; the value starts with its version. The
layouts are those of Kafka's schemas (group-coordinator, transaction-coordinator and
share-coordinator, src/main/resources/common/message). Other types are left to the
caller in hex.
"""

import struct
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec

from metadata.json_form import uuid_text
from metadata.primitives import (
    read_array_size,
    read_bytes,
    read_string,
    read_tag_header,
    unsigned_varint,
)
from metadata.schema import MetadataRecordError

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"


class CoordinatorRecordError(Exception):
    """A record that cannot be decoded; the text has the reason."""


class CoordinatorRecord(msgspec.Struct, frozen=True):
    """Decoded record: `content` as Kafka's dump tool prints key and value, `version` of the value.

    {"key": {"type": "0", "data": {...}}, "value": {"version": "1", "data": {...}} or null}
    """

    kind: int
    name: str
    version: int | None
    content: dict[str, Any]


Decoder = Callable[[bytes | None, bytes | None], CoordinatorRecord]

# A layout: fields in order as (JSON name, type, first version, last version or None).
# Types: struct codes, "s" string, "?s" nullable string, "y" bytes, "uuid", ("[", layout or type),
# (tag, type) of a tagged field, which is shown at its place if present.
Field = tuple[str, Any, int, int | None]


_ABSENT: Final = object()  # a tagged field that is not present


class _Kind(msgspec.Struct, frozen=True):
    name: str
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    versions: tuple[int, int]
    flexible_from: int


def _all(name: str, kind: Any, since: int = 0, until: int | None = None) -> Field:
    return name, kind, since, until


_OFFSET_KEY: Final = (_all("group", "s"), _all("topic", "s"), _all("partition", "i"))
_OFFSET_VALUE: Final = (
    _all("offset", "q"),
    _all("leaderEpoch", "i", 3),
    _all("metadata", "s"),
    _all("commitTimestamp", "q"),
    _all("expireTimestamp", "q", 1, 1),
    _all("topicId", (0, "uuid"), 4),
)
_MEMBER: Final = (
    _all("memberId", "s"),
    _all("groupInstanceId", "?s", 3),
    _all("clientId", "s"),
    _all("clientHost", "s"),
    _all("rebalanceTimeout", "i", 1),
    _all("sessionTimeout", "i"),
    _all("subscription", "y"),
    _all("assignment", "y"),
)
_GROUP_VALUE: Final = (
    _all("protocolType", "s"),
    _all("generation", "i"),
    _all("protocol", "?s"),
    _all("leader", "?s"),
    _all("currentStateTimestamp", "q", 2),
    _all("members", ("[", _MEMBER)),
)
_TRANSACTION_VALUE: Final = (
    _all("producerId", "q"),
    _all("previousProducerId", (0, "q"), 1),
    _all("nextProducerId", (1, "q"), 1),
    _all("producerEpoch", "h"),
    _all("transactionTimeoutMs", "i"),
    _all("transactionStatus", "b"),
    _all("transactionPartitions", ("[", (_all("topic", "s"), _all("partitionIds", ("[", "i"))))),
    _all("transactionLastUpdateTimestampMs", "q"),
    _all("transactionStartTimestampMs", "q"),
    _all("clientTransactionVersion", (2, "h"), 1),
)
_SHARE_KEY: Final = (_all("groupId", "s"), _all("topicId", "uuid"), _all("partition", "i"))
_SHARE_BATCH: Final = (
    _all("firstOffset", "q"),
    _all("lastOffset", "q"),
    _all("deliveryState", "b"),
    _all("deliveryCount", "h"),
)
_SHARE_SNAPSHOT_VALUE: Final = (
    _all("snapshotEpoch", "i"),
    _all("stateEpoch", "i"),
    _all("leaderEpoch", "i"),
    _all("startOffset", "q"),
    _all("deliveryCompleteCount", (0, "i")),
    _all("createTimestamp", "q"),
    _all("writeTimestamp", "q"),
    _all("stateBatches", ("[", _SHARE_BATCH)),
)
_SHARE_UPDATE_VALUE: Final = (
    _all("snapshotEpoch", "i"),
    _all("leaderEpoch", "i"),
    _all("startOffset", "q"),
    _all("deliveryCompleteCount", (0, "i")),
    _all("stateBatches", ("[", _SHARE_BATCH)),
)
_OFFSET: Final = _Kind("OffsetCommit", _OFFSET_KEY, _OFFSET_VALUE, (0, 4), 4)
_KINDS: Final[dict[str, dict[int, _Kind]]] = {
    CONSUMER_OFFSETS: {
        0: _OFFSET,
        1: _OFFSET,
        2: _Kind("GroupMetadata", (_all("group", "s"),), _GROUP_VALUE, (0, 4), 4),
    },
    TRANSACTION_STATE: {
        0: _Kind("TransactionLog", (_all("transactionalId", "s"),), _TRANSACTION_VALUE, (0, 1), 1),
    },
    SHARE_GROUP_STATE: {
        0: _Kind("ShareSnapshot", _SHARE_KEY, _SHARE_SNAPSHOT_VALUE, (0, 0), 0),
        1: _Kind("ShareUpdate", _SHARE_KEY, _SHARE_UPDATE_VALUE, (0, 0), 0),
    },
}


def coordinator_decoder(topic: str) -> Decoder | None:
    """The decoder of a topic's records; None for any other topic."""
    kinds = _KINDS.get(topic)
    if kinds is None:
        return None

    def decode(key: bytes | None, value: bytes | None) -> CoordinatorRecord:
        try:
            return _decode(kinds, key, value)
        except (struct.error, IndexError, UnicodeDecodeError, MetadataRecordError) as error:
            raise CoordinatorRecordError(f"the record is cut or damaged: {error}") from error

    return decode


def _decode(kinds: dict[int, _Kind], key: bytes | None, value: bytes | None) -> CoordinatorRecord:
    if key is None:
        raise CoordinatorRecordError("the record has no key")
    (number,) = struct.unpack_from(">h", key)
    kind = kinds.get(number)
    if kind is None:
        raise CoordinatorRecordError(f"key version {number} is unknown")
    shown, position = _Reader(key, 0, flexible=False).fields(kind.key, 2)
    if position != len(key):
        raise CoordinatorRecordError(f"{len(key) - position} bytes after the key")
    named = {"type": str(number), "data": shown}
    if value is None:
        return CoordinatorRecord(number, kind.name, None, {"key": named, "value": None})
    (version,) = struct.unpack_from(">h", value)
    if not kind.versions[0] <= version <= kind.versions[1]:
        raise CoordinatorRecordError(f"{kind.name} value version {version} is unknown")
    reader = _Reader(value, version, flexible=version >= kind.flexible_from)
    content, position = reader.fields(kind.value, 2)
    if position != len(value):
        raise CoordinatorRecordError(f"{len(value) - position} bytes after the value")
    decoded = {"version": str(version), "data": content}
    return CoordinatorRecord(number, kind.name, version, {"key": named, "value": decoded})


class _Reader:
    def __init__(self, buffer: bytes, version: int, *, flexible: bool) -> None:
        self.buffer = buffer
        self.version = version
        self.flexible = flexible

    def fields(self, layout: tuple[Field, ...], position: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        tagged: dict[int, tuple[str, str]] = {}
        for name, kind, since, until in layout:
            if not (since <= self.version and (until is None or self.version <= until)):
                continue
            if isinstance(kind, tuple) and kind[0] != "[":
                tagged[kind[0]] = name, kind[1]
                found[name] = _ABSENT
            else:
                found[name], position = self._read(kind, position)
        if self.flexible:
            position = self._tags(tagged, found, position)
        return {name: value for name, value in found.items() if value is not _ABSENT}, position

    def _read(self, kind: Any, position: int) -> tuple[Any, int]:
        if isinstance(kind, tuple):
            return self._array(kind[1], position)
        if kind in ("s", "?s"):
            return self._string(position)
        if kind == "y":
            content, position = self._bytes(position)
            return (None if content is None else b64encode(content).decode()), position
        if kind == "uuid":
            content, position = self._take(16, position)
            return uuid_text(content or b""), position
        (number,) = struct.unpack_from(f">{kind}", self.buffer, position)
        return number, position + struct.calcsize(f">{kind}")

    def _string(self, position: int) -> tuple[str | None, int]:
        if self.flexible:
            return read_string(self.buffer, position, len(self.buffer))
        (size,) = struct.unpack_from(">h", self.buffer, position)
        content, position = self._take(size, position + 2)
        return (None if content is None else content.decode()), position

    def _bytes(self, position: int) -> tuple[bytes | None, int]:
        if self.flexible:
            return read_bytes(self.buffer, position, len(self.buffer))
        (size,) = struct.unpack_from(">i", self.buffer, position)
        return self._take(size, position + 4)

    def _take(self, size: int, position: int) -> tuple[bytes | None, int]:
        if size < 0:
            return None, position
        if position + size > len(self.buffer):
            raise IndexError(f"{size} bytes announced, {len(self.buffer) - position} left")
        return self.buffer[position : position + size], position + size

    def _array(self, element: Any, position: int) -> tuple[list[Any] | None, int]:
        if self.flexible:
            size, position = read_array_size(self.buffer, position, len(self.buffer), 1)
        else:
            (size,) = struct.unpack_from(">i", self.buffer, position)
            position += 4
        if size < 0:
            return None, position
        if size > len(self.buffer) - position:
            raise IndexError(f"array of {size} announced, {len(self.buffer) - position} bytes left")
        items = []
        for _ in range(size):
            if isinstance(element, str):
                item, position = self._read(element, position)
            else:
                item, position = self.fields(element, position)
            items.append(item)
        return items, position

    def _tags(self, known: dict[int, tuple[str, str]], found: dict[str, Any], position: int) -> int:
        count, position = unsigned_varint(self.buffer, position)
        for _ in range(count):
            tag, position, after = read_tag_header(self.buffer, position, len(self.buffer))
            if tag in known:
                name, kind = known[tag]
                found[name], position = self._read(kind, position)
                if position != after:
                    raise CoordinatorRecordError(f"{name} does not fill its tagged field")
            position = after
        return position
