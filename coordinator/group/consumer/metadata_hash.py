"""Hash of the topics that a group subscribes, equal to Kafka's: a change of it makes a new epoch.

The hash of a topic is XXH3-64 over, all integers little endian:

    int8 0 | int64 high half of the id | int64 low half | text of the name | int32 partitions
    per partition: int32 partition | per rack of its replicas, sorted: int32 length | text

where a text is its UTF-16 units and then int32 their number. That of a group is XXH3-64 over the
hashes of its topics that exist, by name; 0 without any.
(apache/kafka: Utils.computeTopicHash, computeGroupHash; hash4j: AbstractHashSink.putString;
KIP-1101)
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

import xxhash

from metadata.image import Image, Topic
from wire.types import NodeId

_MAGIC: Final = b"\x00"
_INT32: Final = struct.Struct("<i")
_IDS: Final = struct.Struct("<QQ")
_HASH: Final = struct.Struct("<Q")


def topic_hash(topic: Topic, racks: Mapping[NodeId, str | None]) -> int:
    """Hash of a topic, in [0, 2**64); `racks` of the brokers that are registered."""
    high = int.from_bytes(topic.topic_id[:8], "big")
    low = int.from_bytes(topic.topic_id[8:], "big")
    parts = [
        _MAGIC,
        _IDS.pack(high, low),
        _text(topic.name),
        _INT32.pack(len(topic.partitions)),
    ]
    for partition_id in range(len(topic.partitions)):
        parts.append(_INT32.pack(partition_id))
        partition = topic.partitions.get(partition_id)
        replicas = () if partition is None else partition.replicas
        for rack in sorted(rack for node in replicas if (rack := racks.get(node)) is not None):
            parts += (_INT32.pack(_length(rack)), _text(rack))
    return xxhash.xxh3_64_intdigest(b"".join(parts))


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """Hash of a group's topics by name, as the int64 of its record."""
    if not topic_hashes:
        return 0
    packed = b"".join(_HASH.pack(topic_hashes[name]) for name in sorted(topic_hashes))
    value = xxhash.xxh3_64_intdigest(packed)
    return value - (1 << 64) if value >> 63 else value


def _text(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _INT32.pack(_length(text))


def _length(text: str) -> int:
    """Length in UTF-16 units, as Java counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class TopicHashes:
    """Hashes of the topics that were asked for, kept until the topic changes.

    A rack of a broker is seen when a topic changes next, as in Kafka: registrations change no
    topic.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[Topic, int]] = {}

    def of_group(self, names: Iterable[str], cluster: Image) -> int:
        """Hash of the topics with these names that exist."""
        found = {}
        for name in names:
            topic_id = cluster.topic_id_by_name.get(name)
            if topic_id is None:
                self._hashes.pop(name, None)
            else:
                found[name] = self._of_topic(cluster.topics[topic_id], cluster)
        return group_hash(found)

    def _of_topic(self, topic: Topic, cluster: Image) -> int:
        kept = self._hashes.get(topic.name)
        if kept is not None and kept[0] is topic:
            return kept[1]
        racks = {node: broker.rack for node, broker in cluster.brokers.items()}
        value = topic_hash(topic, racks)
        self._hashes[topic.name] = (topic, value)
        return value
