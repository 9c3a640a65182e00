"""docs/reference/configs.md: every config that a node acts on.

Keys, defaults, ranges and levels come from the code that reads them; only the texts of what happens
are written by hand, in config_effects.toml.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.replicas.topic_settings import (
    ACTED_ON_ELSEWHERE,
    NO_EFFECT,
    VALIDATION_KEY,
    VALIDATIONS,
)
from broker.silent_configs import ACTED_ON_BROKER_KEYS, GROUP_KEYS_PREFIX
from inspection.server import Limits
from metadata.config_schema import (
    ConfigDefinition,
    ConfigType,
    RuleKind,
    UpdateMode,
    broker_configs,
    broker_quota_configs,
    group_configs,
    topic_configs,
)
from node.configs.config_keys import ACTED_ON, FLAGS, INT_MAX, LONG_MIN, NUMBERS, Whole
from node.configs.record_keys import INTERVALS, LONG_MAX
from node.configs.record_keys import NUMBERS as RECORDS_NUMBERS
from scripts.reference.markdown import code, page, table, with_unit

EFFECTS: Final = Path(__file__).with_name("config_effects.toml")
COLUMNS: Final = ("key", "default", "allowed", "at run time", "what happens")
REQUIRED: Final = frozenset({"controller.listener.names", "node.id", "process.roles"})
OWN_DEFAULTS: Final = {
    "allow.everyone.if.no.acl.found": "false",
    "inspection.connections.max.idle.ms": str(Limits().idle_ms_max),
    "inspection.max.connections": str(Limits().connections_max),
    VALIDATION_KEY: VALIDATIONS[0],
}
"""Defaults of keys that are not among Kafka's definitions."""
OWN_VALUES: Final = {VALIDATION_KEY: VALIDATIONS}
FACTORS: Final = {3_600_000: " in hours", 60_000: " in minutes", 1: ""}
LEVELS: Final = {
    UpdateMode.CLUSTER_WIDE: "of all brokers or one",
    UpdateMode.PER_BROKER: "of one broker",
}
LIMITS: Final = frozenset({-INT_MAX - 1, INT_MAX, LONG_MIN, LONG_MAX})
"""Ends of the types, which bound nothing."""

Effects = Mapping[str, Mapping[str, str]]


def effects() -> Effects:
    """Effects, by kind of config and key."""
    return tomllib.loads(EFFECTS.read_text(encoding="utf-8"))


def acted_on(kind: str) -> frozenset[str]:
    """The keys of a kind that something is done with: broker, dynamic, topic, group."""
    if kind == "broker":
        return ACTED_ON
    if kind == "dynamic":
        return frozenset(broker_quota_configs())
    if kind == "topic":
        return frozenset(topic_configs()) - (NO_EFFECT.keys() - ACTED_ON_ELSEWHERE)
    return frozenset(key for key in group_configs() if key.startswith(GROUP_KEYS_PREFIX))


def topic_synonyms() -> dict[str, tuple[str, int, str]]:
    """Keys of brokers that are defaults of topics: config of topics, factor, the stronger key."""
    found: dict[str, tuple[str, int, str]] = {}
    for name in sorted(acted_on("topic")):
        stronger = ""
        for synonym in topic_configs()[name].synonyms:
            found.setdefault(synonym.name, (name, synonym.factor, stronger))
            stronger = synonym.name
    return found


def text() -> str:
    """The page."""
    known = effects()
    synonyms = topic_synonyms()
    own = sorted(acted_on("broker") - synonyms.keys() | known["broker"].keys())
    defaults = sorted(synonyms.keys() - known["broker"].keys())
    quotas = _rows(known["dynamic"], broker_quota_configs(), LEVELS[UpdateMode.CLUSTER_WIDE])
    return page(
        "Configs",
        "Every config that a node acts on. All other keys of Kafka's are checked as Kafka does, "
        "have no effect, and are named once in the log "
        "([running](../running.md#one-node-by-hand)).",
        "`at run time` says whether `kraftline configs --alter` changes it while a node runs; "
        "`no`: server.properties and a new start. Of brokers a config of one broker is stronger "
        "than that of all, and both than server.properties.",
        "## Nodes",
        table(COLUMNS, (_broker_row(key, known["broker"][key]) for key in own)),
        "## Defaults of topics",
        "They hold for topics without a config of their own; what happens stands at the config.",
        table(COLUMNS, (_broker_row(key, _of_topics(*synonyms[key])) for key in defaults)),
        "## Configs of topics",
        "`kraftline topics --create --config`, `kraftline configs --entity-type topics`.",
        table(COLUMNS, _rows(known["topic"], topic_configs(), "yes")),
        "## Configs of brokers that no file sets",
        "`kraftline configs --entity-type brokers`.",
        table(COLUMNS, quotas),
        "## Configs of groups",
        "`kraftline configs --entity-type groups`; of groups of KIP-848. Their defaults and limits "
        "are the broker's `group.consumer.*`.",
        table(COLUMNS, _rows(known["group"], group_configs(), "yes")),
    )


def _rows(
    known: Mapping[str, str], definitions: Mapping[str, ConfigDefinition], level: str
) -> Iterator[tuple[str, ...]]:
    for key in sorted(known):
        definition = definitions[key]
        allowed = _allowed_by(definition)
        yield (code(key), _default(key, definition), allowed, level, known[key])


def _broker_row(key: str, effect: str) -> tuple[str, ...]:
    definition = broker_configs().get(key)
    return (code(key), _default(key, definition), _allowed(key, definition), _level(key), effect)


def _of_topics(name: str, factor: int, stronger: str) -> str:
    behind = f"; counts if {code(stronger)} is not set" if stronger else ""
    return f"{code(name)} of topics{FACTORS[factor]}{behind}."


def _default(key: str, definition: ConfigDefinition | None) -> str:
    if key in REQUIRED:
        return "required"
    default = OWN_DEFAULTS.get(key) if definition is None else definition.default
    return with_unit(key, default) if default else "-"


def _allowed(key: str, definition: ConfigDefinition | None) -> str:
    """The values of a key of server.properties, as the code that reads it takes them."""
    for whole in NUMBERS:
        if whole.key == key:
            return _whole(whole)
    if any(flag.key == key for flag in FLAGS):
        return "true, false"
    if definition is None:
        return ", ".join(OWN_VALUES.get(key, ("text",)))
    allowed = _allowed_by(definition)
    least = next((each.least for each in RECORDS_NUMBERS if each.key == key), None)
    if least is not None:
        return f"{allowed}; less is used as {least}"
    return f"{allowed}; 0 or less: never" if any(each.key == key for each in INTERVALS) else allowed


def _whole(whole: Whole) -> str:
    allowed = _between(str(whole.minimum), str(whole.maximum))
    return allowed if whole.least is None else f"{allowed}; less is used as {whole.least}"


def _allowed_by(definition: ConfigDefinition) -> str:
    """The values that a definition of Kafka takes."""
    rule = definition.rule
    if definition.type is ConfigType.BOOLEAN:
        return "true, false"
    if rule is not None and rule.values:
        several = "list of " if rule.kind is RuleKind.LIST else ""
        return several + ", ".join(rule.values)
    if rule is not None and rule.kind is RuleKind.GZIP_LEVEL:
        return "1 to 9, or -1"
    if definition.type in {ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE}:
        number = "number" if definition.type is ConfigType.DOUBLE else "whole number"
        return _between(*(None, None) if rule is None else (rule.minimum, rule.maximum), number)
    return "list" if definition.type is ConfigType.LIST else "text"


def _between(minimum: str | None, maximum: str | None, number: str = "whole number") -> str:
    ends = [None if end is None or _is_no_limit(end) else end for end in (minimum, maximum)]
    least, most = ends
    if least is None:
        return number if most is None else f"up to {most}"
    return f"from {least}" if most is None else f"{least} to {most}"


def _is_no_limit(end: str) -> bool:
    return end.lstrip("-").isdecimal() and int(end) in LIMITS


def _level(key: str) -> str:
    definition = broker_configs().get(key)
    mode = None if definition is None else definition.update_mode
    if mode is None:
        return "no"
    return LEVELS[mode] if key in ACTED_ON_BROKER_KEYS else "no (stored, has no effect)"
