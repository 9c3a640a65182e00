"""What a node's configs are at one image: dynamic, cluster-wide, static and default, best first.

Three views of the same layers: `value` is what a broker config says now; `topic_values` and
`group_values` are what topics and groups have that say nothing themselves; `synonyms` lists every
layer that names a config, as DescribeConfigs tells it.
Source: apache/kafka: core/.../server/{KafkaConfig,ConfigHelper,DynamicBrokerConfig},
server-common/.../ServerTopicConfigSynonyms.java, metadata/.../KafkaConfigSchema.java.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from metadata.config_schema import (
    SOURCE_BROKER,
    SOURCE_CLUSTER_DEFAULT,
    SOURCE_DEFAULT,
    SOURCE_STATIC,
    ConfigDefinition,
    broker_config,
    group_configs,
    topic_configs,
)
from metadata.config_values import parse_value, value_text
from metadata.image import CONFIG_BROKER, Image

LISTENER_CONFIG: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
"""A config for one listener; the group is its name without the prefix."""
_MECHANISM_CONFIGS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
UNLIMITED: Final = -1


class Named(msgspec.Struct, frozen=True):
    """One layer that names a config: `value` as written there, `source` a ConfigSource."""

    name: str
    value: str
    source: int


class NodeConfigs:
    """The configs of one node; a view made for an image, dropped with it.

    Args:
        image: gives the dynamic configs.
        node_id: whose own dynamic configs count.
        properties: its server.properties.
    """

    __slots__ = ("_layers", "node_id", "properties")

    def __init__(self, image: Image, node_id: int, properties: Mapping[str, str]) -> None:
        self.node_id = node_id
        properties = _with_both_ids(properties)
        self.properties = properties
        self._layers: tuple[tuple[Mapping[str, str], int], ...] = (
            (image.config(CONFIG_BROKER, str(node_id)), SOURCE_BROKER),
            (image.config(CONFIG_BROKER, ""), SOURCE_CLUSTER_DEFAULT),
            (properties, SOURCE_STATIC),
        )

    def value(self, name: str) -> str | None:
        """What a broker config says now, None where Kafka has null."""
        for layer, _ in self._layers:
            if name in layer:
                return _normal(broker_config(name), layer[name])
        definition = broker_config(name)
        return None if definition is None else definition.default

    def synonyms(self, name: str) -> list[Named]:
        """Every layer that names the config or a synonym, best first, defaults last.

        A list that starts with another name is empty, as Kafka has it: the value then counts as
        the default of the name that was asked for.
        """
        names = synonyms_of(name)
        found = [
            Named(synonym, layer[synonym], source)
            for layer, source in self._layers
            for synonym in names
            if synonym in layer
        ]
        for synonym in names:
            definition = broker_config(synonym)
            if definition is not None and definition.default is not None:
                found.append(Named(synonym, definition.default, SOURCE_DEFAULT))
        first = next((i for i, named in enumerate(found) if named.name == name), len(found))
        return found[first:]

    def topic_value(self, definition: ConfigDefinition) -> str | None:
        """What a topic has for this config that does not set it itself."""
        if not definition.synonyms:
            return definition.default
        for synonym in definition.synonyms:
            value = self.value(synonym.name)
            if value is None:
                continue
            text = value if synonym.factor == 1 else str(int(value) * synonym.factor)
            is_retention = definition.name == "retention.ms"
            return str(UNLIMITED) if is_retention and int(text) < 0 else text
        return definition.default

    def topic_values(self) -> Iterator[tuple[ConfigDefinition, str | None]]:
        """Every listed config of topics with its value where the topic does not set it."""
        for definition in topic_configs().values():
            if not definition.is_internal:
                yield definition, self.topic_value(definition)

    def group_value(self, definition: ConfigDefinition) -> str | None:
        """What a group has for this config that does not set it itself."""
        if not definition.synonyms:
            return definition.default
        return self.value(definition.synonyms[0].name)

    def group_values(self) -> Iterator[tuple[ConfigDefinition, str | None]]:
        """Every config of groups with its value where the group does not set it."""
        for definition in group_configs().values():
            yield definition, self.group_value(definition)

    def integer(self, name: str) -> int:
        """A broker config that is a number and never null."""
        value = self.value(name)
        assert value is not None, f"{name} has no default"
        return int(value)


def _with_both_ids(properties: Mapping[str, str]) -> Mapping[str, str]:
    """`node.id` and the older `broker.id` say the same: where one is missing the other counts."""
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name not in properties and other in properties:
            return {**properties, name: properties[other]}
    return properties


def synonyms_of(name: str) -> tuple[str, ...]:
    """Names that give a broker config its value, best first; the name itself is one of them."""
    definition = broker_config(name)
    if definition is not None and definition.synonyms:
        return tuple(synonym.name for synonym in definition.synonyms)
    listener = LISTENER_CONFIG.fullmatch(name)
    if listener is None:
        return (name,)
    base = listener[1]
    mechanism = next((config for config in _MECHANISM_CONFIGS if base.endswith(config)), None)
    return (name, mechanism or base)


def definition_of(name: str) -> ConfigDefinition | None:
    """The definition of a broker config, also behind a listener prefix; None if not known."""
    definition = broker_config(name)
    if definition is not None:
        return definition
    listener = LISTENER_CONFIG.fullmatch(name)
    return None if listener is None else broker_config(listener[1])


def _normal(definition: ConfigDefinition | None, text: str) -> str | None:
    """The text as Kafka writes it back after parsing it."""
    if definition is None:
        return text
    value, error = parse_value(definition, text)
    return text if error is not None else value_text(value)
