"""What topics have that set no configs of their own: rows of CreateTopics responses, defaults.

Source: apache/kafka: metadata/.../metadata/KafkaConfigSchema.java (resolveEffectiveTopicConfigs).
"""

from collections.abc import Mapping
from typing import Any, Final

from metadata.config_schema import (
    SOURCE_BROKER,
    SOURCE_CLUSTER_DEFAULT,
    SOURCE_DEFAULT,
    SOURCE_STATIC,
    SOURCE_TOPIC,
    ConfigDefinition,
    topic_configs,
)
from metadata.image import CONFIG_BROKER, Image
from metadata.node_configs import NodeConfigs
from quorum_controller.bodies import CreatableTopicConfigs

_LISTED: Final = tuple(
    sorted(
        (definition for definition in topic_configs().values() if not definition.is_internal),
        key=lambda definition: definition.name,
    )
)
_POSITIONS: Final = {definition.name: index for index, definition in enumerate(_LISTED)}


class TopicConfigDefaults:
    """What a topic has without configs of its own, as rows of a CreateTopics response.

    The rows of one image are kept: they change only with broker configs, and making them costs more
    than creating a topic.
    """

    def __init__(self, node_id: int, properties: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._properties = properties
        self._key: tuple[Any, Any] | None = None
        self._rows: tuple[Any, ...] = ()

    def node_configs(self, image: Image) -> NodeConfigs:
        """The configs of this node at an image."""
        return NodeConfigs(image, self._node_id, self._properties)

    def rows(self, image: Image, topic_configs: Mapping[str, str]) -> tuple[Any, ...]:
        """Rows sorted by name; a topic's own value wins."""
        own = image.config(CONFIG_BROKER, str(self._node_id))
        cluster = image.config(CONFIG_BROKER, "")
        if self._key is None or self._key[0] is not own or self._key[1] is not cluster:
            self._key = (own, cluster)
            self._rows = tuple(self._row(definition, own, cluster) for definition in _LISTED)
        if not topic_configs:
            return self._rows
        rows = list(self._rows)
        for name, value in topic_configs.items():
            position = _POSITIONS.get(name)
            if position is not None:
                rows[position] = _config_row(name, value, SOURCE_TOPIC)
        return tuple(rows)

    def _row(
        self, definition: ConfigDefinition, own: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Any:
        layers = (
            (own, SOURCE_BROKER),
            (cluster, SOURCE_CLUSTER_DEFAULT),
            (self._properties, SOURCE_STATIC),
        )
        for layer, source in layers:
            for synonym in definition.synonyms:
                value = layer.get(synonym.name)
                if value is not None:
                    text = value if synonym.factor == 1 else str(int(value) * synonym.factor)
                    return _config_row(definition.name, text, source)
        return _config_row(definition.name, definition.default, SOURCE_DEFAULT)


def unclean_election_default(image: Image, node_id: int, properties: Mapping[str, str]) -> bool:
    """Whether topics that say nothing themselves may elect a leader outside their ISR."""
    name = "unclean.leader.election.enable"
    layers: tuple[Mapping[str, str], ...] = (
        image.config(CONFIG_BROKER, str(node_id)),
        image.config(CONFIG_BROKER, ""),
        properties,
    )
    value = next((layer[name] for layer in layers if name in layer), "false")
    return value.strip().lower() == "true"


def _config_row(name: str, value: str | None, source: int) -> Any:
    return CreatableTopicConfigs(
        name=name, value=value, read_only=False, config_source=source, is_sensitive=False
    )
