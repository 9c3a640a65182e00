"""Settings of the coordinator of groups."""

import msgspec

from coordinator.group.classic.settings import ClassicSettings
from coordinator.group.consumer.settings import ConsumerSettings
from coordinator.group.machine import OffsetsConfig
from wire.batches.compression import Codec


class GroupCoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the coordinator of groups, with Kafka's defaults."""

    offsets: OffsetsConfig = OffsetsConfig()
    classic: ClassicSettings = ClassicSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    load_bytes_max: int = 5 * 1024 * 1024
    """`offsets.load.buffer.size`"""
    codec: Codec = Codec.NONE
    """`offsets.topic.compression.codec`"""
    linger_ms: int = -1
    """`group.coordinator.append.linger.ms`"""
