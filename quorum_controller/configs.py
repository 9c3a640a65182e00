"""Topic configs: which exist, what they accept, and what a new topic ends up with.

Only what CreateTopics needs. Each definition has the type, limits and default of Kafka 4.3 and the
broker properties that give its default, best first.
Source: apache/kafka: storage/.../log/LogConfig.java, server-common/.../ServerTopicConfigSynonyms.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from metadata.image import CONFIG_BROKER, Image
from quorum_controller.bodies import CreatableTopicConfigs
from wire.errors import ApiError, ErrorCode

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

# ConfigSource of CreateTopics and DescribeConfigs responses.
SOURCE_TOPIC: Final = 1
SOURCE_BROKER: Final = 2
SOURCE_CLUSTER_DEFAULT: Final = 3
SOURCE_STATIC: Final = 4
SOURCE_DEFAULT: Final = 5


class ConfigType(Enum):
    """How a value is parsed; the value is Kafka's name for it in error texts."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"


Check = Callable[[Any], str | None]
"""What is wrong with a parsed value, None if nothing is."""


class Synonym(msgspec.Struct, frozen=True):
    """A broker property that gives a topic config its default, times `factor`."""

    name: str
    factor: int = 1


class TopicConfig(msgspec.Struct, frozen=True):
    """Definition of one topic config."""

    name: str
    type: ConfigType
    default: str | None
    check: Check | None = None
    synonyms: tuple[Synonym, ...] = ()


def _at_least(minimum: int) -> Check:
    return lambda value: None if value >= minimum else f"Value must be at least {minimum}"


def _between(minimum: int, maximum: int) -> Check:
    def check(value: Any) -> str | None:
        if value < minimum:
            return f"Value must be at least {minimum}"
        return None if value <= maximum else f"Value must be no more than {maximum}"

    return check


def _one_of(*allowed: str) -> Check:
    def check(value: Any) -> str | None:
        values = value if isinstance(value, list) else [value]
        wrong = [item for item in values if item not in allowed]
        return f"String must be one of: {', '.join(allowed)}" if wrong else None

    return check


def _gzip_level(value: Any) -> str | None:
    if value == -1 or 1 <= value <= 9:
        return None
    return "Value must be between 1 and 9 or equal to -1"


def _throttled_replicas(value: Any) -> str | None:
    if value == ["*"] or all(re.fullmatch(r"[0-9]+:[0-9]+", item) for item in value):
        return None
    return (
        f"[{', '.join(value)}] must be the literal '*' or a list of replicas in the following "
        "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


_HOUR_MS: Final = 3_600_000
_B, _S, _I, _L, _D, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)


def _same(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


_DEFINITIONS: Final = (
    TopicConfig(
        "cleanup.policy", _LIST, "delete", _one_of("compact", "delete"), _same("log.cleanup.policy")
    ),
    TopicConfig("compression.gzip.level", _I, "-1", _gzip_level, _same("compression.gzip.level")),
    TopicConfig("compression.lz4.level", _I, "9", _between(1, 17), _same("compression.lz4.level")),
    TopicConfig(
        "compression.type",
        _S,
        "producer",
        _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        _same("compression.type"),
    ),
    TopicConfig(
        "compression.zstd.level", _I, "3", _between(-131072, 22), _same("compression.zstd.level")
    ),
    TopicConfig(
        "delete.retention.ms",
        _L,
        "86400000",
        _at_least(0),
        _same("log.cleaner.delete.retention.ms"),
    ),
    TopicConfig(
        "file.delete.delay.ms", _L, "60000", _at_least(0), _same("log.segment.delete.delay.ms")
    ),
    TopicConfig(
        "flush.messages", _L, str(LONG_MAX), _at_least(1), _same("log.flush.interval.messages")
    ),
    TopicConfig(
        "flush.ms",
        _L,
        str(LONG_MAX),
        _at_least(0),
        (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    ),
    TopicConfig("follower.replication.throttled.replicas", _LIST, "", _throttled_replicas),
    TopicConfig(
        "index.interval.bytes", _I, "4096", _at_least(0), _same("log.index.interval.bytes")
    ),
    TopicConfig("leader.replication.throttled.replicas", _LIST, "", _throttled_replicas),
    TopicConfig(
        "local.retention.bytes", _L, "-2", _at_least(-2), _same("log.local.retention.bytes")
    ),
    TopicConfig("local.retention.ms", _L, "-2", _at_least(-2), _same("log.local.retention.ms")),
    TopicConfig(
        "max.compaction.lag.ms",
        _L,
        str(LONG_MAX),
        _at_least(1),
        _same("log.cleaner.max.compaction.lag.ms"),
    ),
    TopicConfig("max.message.bytes", _I, "1048588", _at_least(0), _same("message.max.bytes")),
    TopicConfig(
        "message.timestamp.after.max.ms",
        _L,
        "3600000",
        _at_least(0),
        _same("log.message.timestamp.after.max.ms"),
    ),
    TopicConfig(
        "message.timestamp.before.max.ms",
        _L,
        str(LONG_MAX),
        _at_least(0),
        _same("log.message.timestamp.before.max.ms"),
    ),
    TopicConfig(
        "message.timestamp.type",
        _S,
        "CreateTime",
        _one_of("CreateTime", "LogAppendTime"),
        _same("log.message.timestamp.type"),
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        _D,
        "0.5",
        _between(0, 1),
        _same("log.cleaner.min.cleanable.ratio"),
    ),
    TopicConfig(
        "min.compaction.lag.ms", _L, "0", _at_least(0), _same("log.cleaner.min.compaction.lag.ms")
    ),
    TopicConfig("min.insync.replicas", _I, "1", _at_least(1), _same("min.insync.replicas")),
    TopicConfig("preallocate", _B, "false", None, _same("log.preallocate")),
    TopicConfig("remote.log.copy.disable", _B, "false"),
    TopicConfig("remote.log.delete.on.disable", _B, "false"),
    TopicConfig("remote.storage.enable", _B, "false"),
    TopicConfig("retention.bytes", _L, "-1", None, _same("log.retention.bytes")),
    TopicConfig(
        "retention.ms",
        _L,
        "604800000",
        _at_least(-1),
        (
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", 60_000),
            Synonym("log.retention.hours", _HOUR_MS),
        ),
    ),
    TopicConfig(
        "segment.bytes", _I, "1073741824", _at_least(1024 * 1024), _same("log.segment.bytes")
    ),
    TopicConfig(
        "segment.index.bytes", _I, "10485760", _at_least(4), _same("log.index.size.max.bytes")
    ),
    TopicConfig(
        "segment.jitter.ms",
        _L,
        "0",
        _at_least(0),
        (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    ),
    TopicConfig(
        "segment.ms",
        _L,
        "604800000",
        _at_least(1),
        (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    ),
    TopicConfig(
        "unclean.leader.election.enable",
        _B,
        "false",
        None,
        _same("unclean.leader.election.enable"),
    ),
    # Accepted and stored but never listed: Kafka keeps it for its own tests.
    TopicConfig("internal.segment.bytes", _I, None),
)
TOPIC_CONFIGS: Final = {definition.name: definition for definition in _DEFINITIONS}
_LISTED: Final = tuple(
    sorted((d for d in _DEFINITIONS if d.default is not None), key=lambda d: d.name)
)

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_INTEGER_RANGE: Final = {ConfigType.INT: INT_MAX, ConfigType.LONG: LONG_MAX}


def _parse(  # noqa: PLR0911 - one return per type
    kind: ConfigType, text: str
) -> tuple[Any, str | None]:
    """The parsed value, or None and what is wrong with the text."""
    trimmed = text.strip()
    if kind is ConfigType.BOOLEAN:
        if trimmed.lower() in ("true", "false"):
            return trimmed.lower() == "true", None
        return None, "Expected value to be either true or false"
    if kind is ConfigType.LIST:
        return [part.strip() for part in trimmed.split(",")] if trimmed else [], None
    if kind is ConfigType.STRING:
        return trimmed, None
    if kind is ConfigType.DOUBLE:
        if _DOUBLE.fullmatch(trimmed):
            return float(trimmed.rstrip("dDfF")), None
    elif _DECIMAL.fullmatch(trimmed):
        value = int(trimmed)
        if -_INTEGER_RANGE[kind] - 1 <= value <= _INTEGER_RANGE[kind]:
            return value, None
    return None, f"Not a number of type {kind.value}"


def topic_config_error(configs: Mapping[str, str]) -> ApiError | None:
    """Why these configs of a topic are refused (INVALID_CONFIG), None if they are fine."""
    parsed: dict[str, Any] = {}
    for name in configs:
        if name not in TOPIC_CONFIGS:
            return ApiError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
    for name, text in sorted(configs.items()):
        definition = TOPIC_CONFIGS[name]
        value, error = _parse(definition.type, text)
        if error is None and definition.check is not None:
            error = definition.check(value)
        if error is not None:
            message = f"Invalid value {text} for configuration {name}: {error}"
            return ApiError(ErrorCode.invalid_config, message)
        parsed[name] = value
    return _conflict(parsed)


def _conflict(parsed: Mapping[str, Any]) -> ApiError | None:
    """Values that are fine one by one but not together or not in this cluster."""
    minimum, maximum = (
        parsed.get("min.compaction.lag.ms", 0),
        parsed.get("max.compaction.lag.ms", LONG_MAX),
    )
    if minimum > maximum:
        message = (
            f"conflict topic config setting min.compaction.lag.ms ({minimum}) > "
            f"max.compaction.lag.ms ({maximum})"
        )
        return ApiError(ErrorCode.invalid_config, message)
    if parsed.get("remote.storage.enable"):
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        return ApiError(ErrorCode.invalid_config, message)
    return None


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

    def rows(self, image: Image, topic_configs: Mapping[str, str]) -> tuple[Any, ...]:
        """Rows sorted by name; a topic's own value wins."""
        own = image.config(CONFIG_BROKER, str(self._node_id))
        cluster = image.config(CONFIG_BROKER, "")
        if self._key is None or self._key[0] is not own or self._key[1] is not cluster:
            self._key = (own, cluster)
            self._rows = tuple(self._row(definition, own, cluster) for definition in _LISTED)
        if not topic_configs:
            return self._rows
        return tuple(
            _config_row(row.name, topic_configs[row.name], SOURCE_TOPIC)
            if row.name in topic_configs
            else row
            for row in self._rows
        )

    def _row(
        self, definition: TopicConfig, own: Mapping[str, str], cluster: Mapping[str, str]
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
