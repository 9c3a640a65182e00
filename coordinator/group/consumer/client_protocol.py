"""Subscriptions and assignments of clients that use the classic protocol, as bytes.

    subscription   int16 version | topics | user data
                   from 1: owned partitions | from 2: int32 generation | from 3: rack, int16 length
    assignment     int16 version | array of topic and partitions | user data

All big endian; an array has an int32 count, a text an int16 length, user data an int32 length or
-1. A version above the newest is read as that. (apache/kafka: clients/.../consumer/internals/
ConsumerProtocol.java, ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json)
"""

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

VERSION_MAX: Final = 3
PROTOCOL_TYPE: Final = "consumer"

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

TopicPartitions = Mapping[str, tuple[int, ...]]
"""Partitions by topic name."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """Topics that a client subscribes, and what it owns."""

    version: int
    topics: tuple[str, ...]
    owned: TopicPartitions
    rack_id: str | None


class MalformedProtocolError(Exception):
    """Bytes that are no subscription or assignment; the text says why."""


class _Reader:
    """Values one behind the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def integer(self, layout: struct.Struct) -> int:
        if self._position + layout.size > len(self._content):
            raise MalformedProtocolError(f"no integer at {self._position}")
        value: int = layout.unpack_from(self._content, self._position)[0]
        self._position += layout.size
        return value

    def count(self) -> int:
        """Number of elements of an array; each has at least two bytes."""
        count = self.integer(_INT32)
        if not 0 <= count <= (len(self._content) - self._position) // 2:
            raise MalformedProtocolError(f"{count=} at {self._position}")
        return count

    def text(self) -> str | None:
        size = self.integer(_INT16)
        if size == -1:
            return None
        try:
            return self._taken(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedProtocolError("text is not UTF-8") from error

    def name(self) -> str:
        text = self.text()
        if text is None:
            raise MalformedProtocolError("a topic without a name")
        return text

    def user_data(self) -> bytes:
        size = self.integer(_INT32)
        return b"" if size == -1 else self._taken(size)

    def topic_partitions(self) -> TopicPartitions:
        found = {}
        for _ in range(self.count()):
            name = self.name()
            found[name] = tuple(self.integer(_INT32) for _ in range(self.count()))
        return found

    def _taken(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._content):
            raise MalformedProtocolError(f"{size=} at {self._position}")
        taken = self._content[self._position : end]
        self._position = end
        return taken


def version_of(content: bytes) -> int:
    """The version that a subscription or assignment begins with, the newest at most.

    Raises:
        MalformedProtocolError: there is none.
    """
    version = _Reader(content).integer(_INT16)
    if version < 0:
        raise MalformedProtocolError(f"{version=}")
    return min(version, VERSION_MAX)


def subscription_of(content: bytes) -> Subscription:
    """The subscription of a client.

    Raises:
        MalformedProtocolError: the bytes are none.
    """
    version = version_of(content)
    reader = _Reader(content)
    reader.integer(_INT16)
    topics = tuple(reader.name() for _ in range(reader.count()))
    reader.user_data()
    owned: TopicPartitions = reader.topic_partitions() if version >= 1 else {}
    if version >= 2:
        reader.integer(_INT32)
    rack_id = reader.text() if version >= 3 else None
    return Subscription(version=version, topics=topics, owned=owned, rack_id=rack_id or None)


def assignment_of(content: bytes) -> tuple[TopicPartitions, bytes]:
    """Partitions and user data of an assignment; nothing for no bytes: none was made yet.

    Raises:
        MalformedProtocolError: the bytes are none.
    """
    if not content:
        return {}, b""
    version_of(content)
    reader = _Reader(content)
    reader.integer(_INT16)
    return reader.topic_partitions(), reader.user_data()


def assignment_bytes(partitions: TopicPartitions, version: int) -> bytes:
    """An assignment without user data."""
    assert 0 <= version <= VERSION_MAX, f"{version=}"
    parts = [_INT16.pack(version), _INT32.pack(len(partitions))]
    for name in sorted(partitions):
        encoded = name.encode()
        parts += [_INT16.pack(len(encoded)), encoded, _INT32.pack(len(partitions[name]))]
        parts += [_INT32.pack(partition) for partition in partitions[name]]
    parts.append(_INT32.pack(-1))
    return b"".join(parts)
