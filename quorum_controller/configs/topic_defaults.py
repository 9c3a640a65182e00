"""Defaults of topic configs: rows of CreateTopics responses, defaults of partitions.

Source: apache/kafka: metadata/.../metadata/KafkaConfigSchema.java (resolveEffectiveTopicConfigs).
"""

from collections.abc import Mapping
from typing import Final

from metadata.config_schema import SOURCE_DEFAULT, SOURCE_TOPIC, ConfigDefinition, topic_configs
from metadata.image import CONFIG_BROKER, Image
from metadata.node_configs import NodeConfigs
from quorum_controller.bodies import ConfigRow, CreatableTopicConfigs
from quorum_controller.partitions.electorate import PartitionDefaults
from quorum_controller.partitions.elr import MIN_INSYNC_REPLICAS

_LISTED: Final = tuple(
    sorted(
        (definition for definition in topic_configs().values() if not definition.is_internal),
        key=lambda definition: definition.name,
    )
)
_POSITIONS: Final = {definition.name: index for index, definition in enumerate(_LISTED)}


class TopicConfigDefaults:
    """The configs of a new topic as rows of a CreateTopics response.

    The rows of defaults are cached: they change only with broker configs, and computing them costs
    more than creating a topic.
    """

    def __init__(self, node_id: int, properties: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._properties = properties
        self._key: tuple[object, object] | None = None
        self._rows: tuple[ConfigRow, ...] = ()

    def node_configs(self, image: Image) -> NodeConfigs:
        """Return the configs of this node at an image."""
        return NodeConfigs(image, self._node_id, self._properties)

    def rows(self, image: Image, topic_configs: Mapping[str, str]) -> tuple[ConfigRow, ...]:
        """Return rows sorted by name; a topic's own value overrides the default."""
        own = image.config(CONFIG_BROKER, str(self._node_id))
        cluster = image.config(CONFIG_BROKER, "")
        if self._key is None or self._key[0] is not own or self._key[1] is not cluster:
            self._key = (own, cluster)
            node = self.node_configs(image)
            self._rows = tuple(_default_row(node, definition) for definition in _LISTED)
        if not topic_configs:
            return self._rows
        rows = list(self._rows)
        for name, value in topic_configs.items():
            position = _POSITIONS.get(name)
            if position is not None:
                rows[position] = _config_row(name, value, SOURCE_TOPIC)
        return tuple(rows)


def partition_defaults(node: NodeConfigs) -> PartitionDefaults:
    """The defaults of partitions whose topic has no configs of its own."""
    configs = topic_configs()
    unclean = node.topic_value(configs["unclean.leader.election.enable"])
    min_insync_replicas = node.topic_value(configs[MIN_INSYNC_REPLICAS])
    assert min_insync_replicas is not None, f"{MIN_INSYNC_REPLICAS} has no default"
    return PartitionDefaults(unclean == "true", int(min_insync_replicas))


def _default_row(node: NodeConfigs, definition: ConfigDefinition) -> ConfigRow:
    named = node.topic_layer(definition)
    if named is None:
        return _config_row(definition.name, definition.default, SOURCE_DEFAULT)
    return _config_row(definition.name, named.value, named.source)


def _config_row(name: str, value: str | None, source: int) -> ConfigRow:
    return CreatableTopicConfigs(
        name=name, value=value, read_only=False, config_source=source, is_sensitive=False
    )
