"""Topics in a consumer's metadata: what a coordinator understands of the clients' own protocol.

    version        int16, not negative
    topics         int32 count, then for each: int16 length, UTF-8
    user data      int32 length or -1, bytes
    (more, in versions above 0)

apache/kafka: clients/.../consumer/internals/ConsumerProtocol.java,
ClassicGroup.computeSubscribedTopics
"""

import struct


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Topics of a subscription, read as version 0, which begins all others; None: it is not one."""
    try:
        version, count = struct.unpack_from(">hi", metadata)
        if version < 0 or count < 0:
            return None
        topics, position = _topics(metadata, 6, count)
        (size,) = struct.unpack_from(">i", metadata, position)
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return topics if position + 4 + max(size, 0) <= len(metadata) else None


def _topics(metadata: bytes, position: int, count: int) -> tuple[frozenset[str], int]:
    topics = set()
    for _ in range(count):
        (size,) = struct.unpack_from(">h", metadata, position)
        position += 2
        if size < 0:
            raise ValueError(f"{size=} of a topic at {position=}")
        topics.add(metadata[position : position + size].decode())
        position += size
    return frozenset(topics), position
