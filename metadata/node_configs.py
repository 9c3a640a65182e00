"""What a node's configs are at one image: dynamic, cluster-wide, static and default, best first.

Views of the same layers: `value` is what a broker config says now; `topic_values` and
`group_values` are what topics and groups have that say nothing themselves; `topic_layer` is what
CreateTopics tells of that; `synonyms` lists every layer that names a config, as DescribeConfigs
tells it.

Kafka's two answers about a topic differ, and are both kept: CreateTopics has the text of the best
layer, its unit converted (`log.retention.hours=-3` is -10800000); DescribeConfigs has the value in
force, and every negative retention is -1. Measured with 4.3.1.
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
"""A config for one listener; the group is its name without the prefix."""
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
        definition = broker_config(name)
        default = None if definition is None else definition.default
        return self._in_force((Synonym(name),), default)

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
        """What a topic has for this config that does not set it itself.

        The defaults of its synonyms say the same as its own.
        """
        value = self._in_force(definition.synonyms, definition.default)
        is_retention = definition.name == "retention.ms"
        if is_retention and value is not None and int(value) < UNLIMITED:
            return str(UNLIMITED)
        return value

    def topic_layer(self, definition: ConfigDefinition) -> Named | None:
        """The best layer that says what topics have, as written but for the unit; None: no layer.

        A number that is none counts as 0 where the unit differs, as in Kafka.
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

    def _naming(self, synonyms: tuple[Synonym, ...]) -> Iterator[tuple[Synonym, Named]]:
        """What the layers say of one of these names: layer by layer, best first."""
        for layer, source in self._layers:
            for synonym in synonyms:
                if synonym.name in layer:
                    yield synonym, Named(synonym.name, layer[synonym.name], source)

    def _in_force(self, synonyms: tuple[Synonym, ...], default: str | None) -> str | None:
        """The first of these names that has a value, as Kafka writes it back after parsing it.

        Passed over, as in DynamicBrokerConfig: a dynamic value that does not parse, and one of a
        config that is not dynamic. Only a controller asked directly stores them.
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
