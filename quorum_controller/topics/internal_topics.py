"""The topics of the coordinators, as a broker asks the controller to create them.

(apache/kafka: core/.../server/AutoTopicCreationManager.scala, 4.3.1)
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from metadata.config_schema import broker_configs
from metadata.config_values import parse_value
from wire.api_keys import CREATE_TOPICS
from wire.messages import codec
from wire.messages.codec import Entity


class InternalTopic(msgspec.Struct, frozen=True):
    """The keys of a topic of a coordinator, and its configs: of a key, or always the same."""

    partition_count: str
    replication_factor: str
    keys: Mapping[str, str]
    configs: Mapping[str, str]


INTERNAL: Final = {
    "__consumer_offsets": InternalTopic(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {"segment.bytes": "offsets.topic.segment.bytes"},
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    "__transaction_state": InternalTopic(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {
            "segment.bytes": "transaction.state.log.segment.bytes",
            "min.insync.replicas": "transaction.state.log.min.isr",
        },
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
    "__share_group_state": InternalTopic(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {
            "segment.bytes": "share.coordinator.state.topic.segment.bytes",
            "min.insync.replicas": "share.coordinator.state.topic.min.isr",
        },
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}
INTERNAL_KEYS: Final = frozenset(
    key
    for topic in INTERNAL.values()
    for key in (topic.partition_count, topic.replication_factor, *topic.keys.values())
)
"""Keys of the broker that such topics are created with."""


def internal_topic(name: str, properties: Mapping[str, str]) -> Entity:
    """A row of a CreateTopics request for a topic of a coordinator.

    Args:
        name: in `INTERNAL`.
        properties: of the broker, as given.
    """
    internal, schema = INTERNAL[name], codec.newest(CREATE_TOPICS, "request")
    keys = {each: str(_number(properties, key)) for each, key in internal.keys.items()}
    return schema.CreatableTopic(
        name=name,
        num_partitions=_number(properties, internal.partition_count),
        replication_factor=_number(properties, internal.replication_factor),
        assignments=(),
        configs=tuple(
            schema.CreatableTopicConfig(name=each, value=value)
            for each, value in sorted({**internal.configs, **keys}.items())
        ),
    )


def _number(properties: Mapping[str, str], key: str) -> int:
    definition = broker_configs()[key]
    value, message = parse_value(definition, properties.get(key, definition.default or ""))
    assert message is None, message
    assert isinstance(value, int), f"{key=} {value=}"
    return value
