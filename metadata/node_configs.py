"""The configs of a node at one image, by layer: dynamic, cluster-wide, static, default.

Views of the same layers, highest priority first: `value` is the effective value of a broker config;
`topic_values` and `group_values` are the defaults of topics and groups; `topic_layer` is such a
default as CreateTopics reports it; `synonyms` lists every layer that sets a config, as
DescribeConfigs reports it.

Kafka's two reports of a topic default differ, and both are reproduced: CreateTopics has the text of
the first layer, its unit converted (`log.retention.hours=-3` is -10800000); DescribeConfigs has the
effective value, and every negative retention is -1. Measured with 4.3.1.
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
    Synonym,
    broker_config,
    group_configs,
    topic_configs,
)
from metadata.config_values import parse_value, value_text, whole_number
from metadata.image import CONFIG_BROKER, Image

LISTENER_CONFIG: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
"""The name of a config for one listener; the group is the name without the prefix."""
_MECHANISM_CONFIGS: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
UNLIMITED: Final = -1
_INT_MAX: Final = 2**31 - 1


class Named(msgspec.Struct, frozen=True):
    """One layer that sets a config: `value` as written there, `source` a ConfigSource."""

    name: str
    value: str
    source: int


class NodeConfigs:
    """The configs of one node: a view of one image.

    Args:
        image: with the dynamic configs.
        node_id: of the node, for its per-broker dynamic configs.
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
        """Return the effective value of a broker config, None for Kafka's null."""
        definition = broker_config(name)
        default = None if definition is None else definition.default
        return self._in_force((Synonym(name),), default)

    def synonyms(self, name: str) -> list[Named]:
        """Return every layer that sets the config or a synonym, highest first, defaults last.

        Layers of other names before the first of `name` are dropped, as in Kafka: their value
        counts as the default of `name`.
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
        """Return the default of a topic config on this node.

        The defaults of its synonyms are equal to its own.
        """
        value = self._in_force(definition.synonyms, definition.default)
        is_retention = definition.name == "retention.ms"
        if is_retention and value is not None and int(value) < UNLIMITED:
            return str(UNLIMITED)
        return value

    def topic_layer(self, definition: ConfigDefinition) -> Named | None:
        """Return the first layer that sets a topic default, in the topic's unit; None if none does.

        An invalid number counts as 0 if the unit differs, as in Kafka.
        """
        for synonym, named in self._naming(definition.synonyms):
            if synonym.factor == 1:
                return named
            number = whole_number(named.value.strip()) or 0
            is_int = -_INT_MAX - 1 <= number <= _INT_MAX
            text = str(number * synonym.factor if is_int else 0)
            return Named(named.name, text, named.source)
        return None

    def topic_values(self) -> Iterator[tuple[ConfigDefinition, str | None]]:
        """Yield every listed config of topics with its default on this node."""
        for definition in topic_configs().values():
            if not definition.is_internal:
                yield definition, self.topic_value(definition)

    def group_value(self, definition: ConfigDefinition) -> str | None:
        """Return the default of a group config on this node."""
        if not definition.synonyms:
            return definition.default
        return self.value(definition.synonyms[0].name)

    def group_values(self) -> Iterator[tuple[ConfigDefinition, str | None]]:
        """Yield every config of groups with its default on this node."""
        for definition in group_configs().values():
            yield definition, self.group_value(definition)

    def integer(self, name: str) -> int:
        """Return the value of a numeric broker config that is never null."""
        value = self.value(name)
        assert value is not None, f"{name} has no default"
        return int(value)

    def _naming(self, synonyms: tuple[Synonym, ...]) -> Iterator[tuple[Synonym, Named]]:
        """Yield the settings of these names, layer by layer, highest first."""
        for layer, source in self._layers:
            for synonym in synonyms:
                if synonym.name in layer:
                    yield synonym, Named(synonym.name, layer[synonym.name], source)

    def _in_force(self, synonyms: tuple[Synonym, ...], default: str | None) -> str | None:
        """Return the effective value of the first of these names that is set, in Kafka's notation.

        Skipped, as in DynamicBrokerConfig: a dynamic value that does not parse, and one of a
        config that is not dynamic. Only a request sent directly to a controller can store them.
        """
        for synonym, named in self._naming(synonyms):
            definition = broker_config(synonym.name)
            if definition is None:
                return named.value
            if named.source != SOURCE_STATIC and definition.update_mode is None:
                continue
            value, error = parse_value(definition, named.value)
            if error is None:
                return value_text(value if synonym.factor == 1 else value * synonym.factor)
        return default


def _with_both_ids(properties: Mapping[str, str]) -> Mapping[str, str]:
    """The properties with both `node.id` and the older `broker.id` if either is set."""
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name not in properties and other in properties:
            return {**properties, name: properties[other]}
    return properties


def synonyms_of(name: str) -> tuple[str, ...]:
    """Names that set a broker config, highest priority first; the name itself is one of them."""
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
    """The definition of a broker config, also with a listener prefix; None if unknown."""
    definition = broker_config(name)
    if definition is not None:
        return definition
    listener = LISTENER_CONFIG.fullmatch(name)
    return None if listener is None else broker_config(listener[1])
