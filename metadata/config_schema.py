"""Definitions of all configs: names, types, defaults, limits, synonyms, documentation.

The definitions are data, one JSON line each, in `config_definitions/`: exactly those of Kafka
4.3.1, read from its own ConfigDef objects. The order of the lines is the order in which Kafka
lists them in DescribeConfigs responses (its hash order, which is constant); internal configs,
which are accepted but not listed, come last.
Source: apache/kafka: LogConfig, AbstractKafkaConfig, GroupConfig, ClientMetricsConfigs.
"""

from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

# ConfigResource types of requests; CONFIG_TOPIC and CONFIG_BROKER of records are the same numbers.
RESOURCE_TOPIC: Final = 2
RESOURCE_BROKER: Final = 4
RESOURCE_BROKER_LOGGER: Final = 8
RESOURCE_CLIENT_METRICS: Final = 16
RESOURCE_GROUP: Final = 32
RESOURCE_NAMES: Final = {
    RESOURCE_TOPIC: "TOPIC",
    RESOURCE_BROKER: "BROKER",
    RESOURCE_BROKER_LOGGER: "BROKER_LOGGER",
    RESOURCE_CLIENT_METRICS: "CLIENT_METRICS",
    RESOURCE_GROUP: "GROUP",
}

# ConfigSource of CreateTopics and DescribeConfigs responses.
SOURCE_TOPIC: Final = 1
SOURCE_BROKER: Final = 2
SOURCE_CLUSTER_DEFAULT: Final = 3
SOURCE_STATIC: Final = 4
SOURCE_DEFAULT: Final = 5
SOURCE_BROKER_LOGGER: Final = 6
SOURCE_CLIENT_METRICS: Final = 7
SOURCE_GROUP: Final = 8


class ConfigType(Enum):
    """The type as which a value is parsed; the value is Kafka's name for it in error texts."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type

    @property
    def number(self) -> int:
        """ConfigType of a DescribeConfigs response; 0 is for unknown configs."""
        return _TYPE_NUMBERS[self]


_TYPE_NUMBERS: Final = {kind: number for number, kind in enumerate(ConfigType, start=1)}


class RuleKind(Enum):
    """The check that a rule makes of a parsed value."""

    RANGE = "range"
    ONE_OF = "one_of"
    ONE_OF_ANY_CASE = "one_of_any_case"
    LIST = "list"
    NON_EMPTY = "non_empty"
    NON_NULL = "non_null"
    GZIP_LEVEL = "gzip_level"
    THROTTLED_REPLICAS = "throttled_replicas"
    OFFSET_RESET = "offset_reset"
    QUORUM_ADDRESSES = "quorum_addresses"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of a config: only the fields of its kind are set."""

    kind: RuleKind
    minimum: str | None = None
    """Inclusive lower limit in Kafka's notation, for RANGE."""
    maximum: str | None = None
    """Inclusive upper limit."""
    values: tuple[str, ...] = ()
    """Allowed strings; empty for a LIST of anything."""
    may_be_empty: bool = True
    may_be_null: bool = False


class UpdateMode(Enum):
    """The level at which a broker config can be changed while the broker runs."""

    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Synonym(msgspec.Struct, frozen=True):
    """A broker property that gives a config its value, times `factor`."""

    name: str
    factor: int = 1


class ConfigDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One config of a topic, broker, group or client metrics subscription."""

    name: str
    type: ConfigType
    default: str | None = None
    """Default as Kafka writes it; None for null."""
    is_required: bool = False
    rule: Rule | None = None
    is_internal: bool = False
    synonyms: tuple[Synonym, ...] = ()
    """Highest priority first. For brokers: alternative names, of which the first set one counts."""
    update_mode: UpdateMode | None = None
    """Level of dynamic updates, only of broker configs; None if not dynamic."""
    documentation: str = ""

    @property
    def is_sensitive(self) -> bool:
        """True if no response may contain the value."""
        return self.type is ConfigType.PASSWORD


Definitions = dict[str, ConfigDefinition]
"""Definitions by name, in the order in which Kafka lists them."""

_LINE: Final = msgspec.json.Decoder(ConfigDefinition)


@cache
def _load(kind: str) -> Definitions:
    text = files(__package__).joinpath(f"config_definitions/{kind}.jsonl").read_bytes()
    loaded = [_LINE.decode(line) for line in text.splitlines()]
    definitions = {definition.name: definition for definition in loaded}
    assert len(definitions) == len(loaded), f"{kind}: a name stands twice"
    return definitions


def topic_configs() -> Definitions:
    """Configs of topics; their synonyms are broker configs."""
    return _load("topic")


def broker_configs() -> Definitions:
    """Configs of brokers and controllers: all that server.properties may contain."""
    return _load("broker")


def broker_quota_configs() -> Definitions:
    """Replication throttles: dynamic configs of brokers that server.properties cannot set."""
    return _load("broker_quota")


def broker_config(name: str) -> ConfigDefinition | None:
    """The definition of a broker config, dynamic or not; None for an unknown one."""
    return broker_configs().get(name) or broker_quota_configs().get(name)


def group_configs() -> Definitions:
    """Configs of groups; their synonyms are broker configs."""
    return _load("group")


def client_metrics_configs() -> Definitions:
    """Configs of client metrics subscriptions (KIP-714)."""
    return _load("client_metrics")


def definitions_of(resource_type: int) -> Definitions | None:
    """The definitions for a resource type, None if it has no configs of its own."""
    match resource_type:
        case 2:
            return topic_configs()
        case 4:
            return broker_configs()
        case 16:
            return client_metrics_configs()
        case 32:
            return group_configs()
        case _:
            return None
